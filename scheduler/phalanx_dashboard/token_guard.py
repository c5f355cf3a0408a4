"""For the users of a cluster: each shows a token of Kubernetes, and sees what it may list."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from aiohttp import web
from msgspec import Struct
from phalanx.cli.verbs.runner import FAILURES
from phalanx.clock import Clock
from phalanx.kube.kubeconfig import NoCluster

from phalanx_dashboard.connection import Connection
from phalanx_dashboard.facts import Scope
from phalanx_dashboard.limits import ACCESS_PERIOD_S
from phalanx_dashboard.reviews import scope_of, user_of

_TOKENS_KEPT: Final = 1000
"""Tokens whose reviews are kept."""

_TOKEN_SIZE_MAX: Final = 3500
"""Characters of a token. Browsers keep cookies of at most 4,096 bytes."""


_COOKIE: Final = "__Host-phalanx-token"
"""Browsers send it back only over TLS, and to this host only."""
_PLAIN_COOKIE: Final = "phalanx-token"
"""On a loopback address, where there is no TLS."""


class _Known(Struct, frozen=True):
    """What a token may see, as it was reviewed."""

    scope: Scope
    until: float


class TokenGuard:
    """Reviews tokens with the rights of the dashboard's own service account."""

    def __init__(
        self,
        connection: Connection,
        namespaces: Callable[[], frozenset[str]],
        *,
        clock: Clock,
        secure: bool,
    ) -> None:
        """`namespaces`: those that have gangs. `secure`: whether the server uses TLS."""
        self._connection = connection
        self._namespaces = namespaces
        self._clock = clock
        self._cookie = _COOKIE if secure else _PLAIN_COOKIE
        self._secure = secure
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def close(self) -> None:
        """End all reviews."""
        self._connection.close()

    async def scope(self, request: web.Request) -> Scope:
        """See Guard. An answer of the API server counts for a minute."""
        token = _bearer(request) or request.cookies.get(self._cookie, "")
        if not token or len(token) > _TOKEN_SIZE_MAX:
            raise web.HTTPUnauthorized(text="a token of Kubernetes is needed\n")
        key = sha256(token.encode()).digest()
        known = self._known.get(key)
        if known is None or known.until < self._clock.monotonic():
            self._known.pop(key, None)
            known = await self._reviewed(token)
            self._known[key] = known
            while len(self._known) > _TOKENS_KEPT:
                self._known.popitem(last=False)
        return known.scope

    async def _reviewed(self, token: str) -> _Known:
        try:
            scope = await asyncio.to_thread(self._review, token)
        except (NoCluster, *FAILURES) as error:
            self._connection.close()
            raise web.HTTPServiceUnavailable(text=f"the token could not be reviewed: {error}\n") from error
        if scope is None:
            raise web.HTTPUnauthorized(text="the API server does not accept this token\n")
        return _Known(scope, self._clock.monotonic() + ACCESS_PERIOD_S)

    def _review(self, token: str) -> Scope | None:
        client = self._connection.session().client
        user = user_of(client, token)
        return None if user is None else scope_of(client, user, self._namespaces())

    def is_expected(self, request: web.Request) -> bool:
        """See Guard: any name. A page of another site has no token, because the cookie is of this name."""
        return True

    async def enter(self, request: web.Request) -> web.StreamResponse | None:
        """See Guard: a token is never in a link, because links are logged."""
        return None

    def routes(self) -> Sequence[web.RouteDef]:
        return (web.post("/sign-in", self.sign_in), web.post("/sign-out", self.sign_out))

    async def sign_in(self, request: web.Request) -> web.StreamResponse:
        """Keep the token of the form in a cookie that scripts cannot read."""
        token = str((await request.post()).get("token", "")).strip()
        if not token or len(token) > _TOKEN_SIZE_MAX or not token.isascii() or not token.isprintable():
            raise web.HTTPUnauthorized(text="a token of Kubernetes is needed\n")
        await self._reviewed(token)
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(
            self._cookie, token, httponly=True, samesite="Strict", path="/", secure=self._secure
        )
        return answer

    async def sign_out(self, request: web.Request) -> web.StreamResponse:
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.del_cookie(self._cookie, path="/", secure=self._secure, httponly=True, samesite="Strict")
        return answer


def _bearer(request: web.Request) -> str:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
