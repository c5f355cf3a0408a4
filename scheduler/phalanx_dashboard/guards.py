"""Who may see the pages, and what every answer says to the browser."""

import hmac
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from phalanx_dashboard.facts import EVERYTHING, Scope

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""No script, style or connection but our own, and no frame around the pages."""


class Guard(Protocol):
    """Decides who may see what."""

    async def scope(self, request: web.Request) -> Scope:
        """What the sender may see. Raises an HTTPException, such as HTTPUnauthorized."""
        ...

    def is_expected(self, request: web.Request) -> bool:
        """Whether the request names this server, so that no page of another site can reach it by DNS."""
        ...

    async def enter(self, request: web.Request) -> web.StreamResponse | None:
        """The answer to a request for the start page that carries a secret; None if it carries none."""
        ...

    def routes(self) -> Sequence[web.RouteDef]:
        """Paths of its own."""
        ...


class SecretLink:
    """For one user of this machine: the link with the secret that the command prints."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self.port = 0
        """Set when the server has one."""

    def link(self, start: str) -> str:
        """The link to this start page."""
        return f"{start}?secret={self._secret}"

    @property
    def _cookie(self) -> str:
        return f"phalanx-{self.port}"  # cookies of all ports of a host are sent together

    async def scope(self, request: web.Request) -> Scope:
        """See Guard: everything that the kubeconfig may read, to who has the link."""
        if not self._is_secret(request.cookies.get(self._cookie, "")):
            raise web.HTTPUnauthorized(text="open the link that `phalanx dashboard` printed")
        return EVERYTHING

    def is_expected(self, request: web.Request) -> bool:
        """See Guard: only the names of the loopback interface."""
        return request.host in (f"127.0.0.1:{self.port}", f"localhost:{self.port}", f"[::1]:{self.port}")

    async def enter(self, request: web.Request) -> web.StreamResponse | None:
        """See Guard: exchange the secret in the link for a cookie that scripts cannot read."""
        given = request.query.get("secret")
        if given is None or not self._is_secret(given):
            return None
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(self._cookie, given, httponly=True, samesite="Strict", path="/")
        return answer

    def routes(self) -> Sequence[web.RouteDef]:
        """See Guard."""
        return ()

    def _is_secret(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._secret.encode())


def guarding(guard: Guard) -> Middleware:
    """A middleware: refuse unexpected names."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not guard.is_expected(request):
            raise web.HTTPMisdirectedRequest(text="this server has another name\n")
        return await handler(request)

    return middleware
