"""The read-only HTTP endpoints of a running scheduler.

Two applications on two sockets: health and metrics for probes and Prometheus, and the debug endpoints, which
show cluster data and therefore listen on loopback by default.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from phalanx.limits import HTTP_SHUTDOWN_TIMEOUT_S

Check = Callable[[], str | None]
"""Returns one sentence about what is wrong, or None."""


def public_app(
    *, liveness_error: Check, readiness_error: Check, registry: CollectorRegistry
) -> web.Application:
    """Serve `/healthz`, `/readyz` and `/metrics`. A failed probe answers 503 with the reason as its body."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/healthz", _probe(liveness_error))
    app.router.add_get("/readyz", _probe(readiness_error))
    app.router.add_get("/metrics", metrics)
    return app


RecordedCycle = Callable[[], Awaitable[bytes | None]]
"""Returns a cycle as a file for `phalanx replay`; None while there is none."""


def debug_app(
    *, last: RecordedCycle, last_error: RecordedCycle, last_inconclusive: RecordedCycle
) -> web.Application:
    """Serve recorded cycles; 404 while there is none.

    `/debug/snapshot`: the last cycle. `/debug/error`: the last cycle with an error of the solver or of a
    plugin.
    `/debug/inconclusive`: a recent cycle in which the solver found neither a placement nor a proof.
    """
    app = web.Application()
    app.router.add_get("/debug/snapshot", _file(last, "no cycle has run yet\n"))
    app.router.add_get("/debug/error", _file(last_error, "no cycle had an error\n"))
    app.router.add_get(
        "/debug/inconclusive", _file(last_inconclusive, "no cycle had an inconclusive solver run\n")
    )
    return app


@asynccontextmanager
async def serving(
    app: web.Application, *, host: str, port: int, tls: SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve while the context lasts; yield the bound port, which port 0 leaves to the system."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=HTTP_SHUTDOWN_TIMEOUT_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _file(recorded: RecordedCycle, missing: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def file(_: web.Request) -> web.Response:
        body = await recorded()
        if body is None:
            raise web.HTTPNotFound(text=missing)
        return web.Response(body=body, content_type="application/gzip")

    return file


def _probe(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def probe(_: web.Request) -> web.Response:
        reason = check()
        return web.Response(text="ok\n") if reason is None else web.Response(status=503, text=f"{reason}\n")

    return probe
