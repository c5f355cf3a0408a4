"""The read-only HTTP endpoints of a running scheduler, and how they are served.

Two applications on two sockets: health and metrics for probes and Prometheus, and the debug endpoint, which
shows cluster data and therefore listens on loopback unless the configuration says otherwise.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from phalanx.limits import HTTP_SHUTDOWN_TIMEOUT_S

WhyNot = Callable[[], str | None]
"""None when all is well, else one plain sentence."""


def public_app(
    *, liveness_error: WhyNot, readiness_error: WhyNot, registry: CollectorRegistry
) -> web.Application:
    """`/healthz`, `/readyz`, `/metrics`. A probe that fails answers 503 with the reason as its body."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/healthz", _probe(liveness_error))
    app.router.add_get("/readyz", _probe(readiness_error))
    app.router.add_get("/metrics", metrics)
    return app


Recorded = Callable[[], Awaitable[bytes | None]]
"""A cycle as a file that `phalanx replay` takes; None while there is none."""


def debug_app(*, last: Recorded, defect: Recorded, unsettled: Recorded) -> web.Application:
    """`/debug/snapshot`: the last cycle. `/debug/defect`: the last with a wrong answer. 404 without one.

    `/debug/unsettled`: a late one in which the solver found neither a placement nor a proof.
    """
    app = web.Application()
    app.router.add_get("/debug/snapshot", _file(last, "no cycle has run yet\n"))
    app.router.add_get("/debug/defect", _file(defect, "no answer of the solver has failed its check\n"))
    app.router.add_get("/debug/unsettled", _file(unsettled, "the solver has settled every question\n"))
    return app


@asynccontextmanager
async def serving(app: web.Application, *, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port that was bound (port 0 asks for a free one)."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=HTTP_SHUTDOWN_TIMEOUT_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _file(recorded: Recorded, without: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def file(_: web.Request) -> web.Response:
        body = await recorded()
        if body is None:
            raise web.HTTPNotFound(text=without)
        return web.Response(body=body, content_type="application/gzip")

    return file


def _probe(why_not: WhyNot) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def probe(_: web.Request) -> web.Response:
        reason = why_not()
        return web.Response(text="ok\n") if reason is None else web.Response(status=503, text=f"{reason}\n")

    return probe
