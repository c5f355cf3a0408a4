"""The scheduler's HTTP endpoints answer probes and users."""

from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import web
from phalanx.web.server import debug_app, public_app, serving
from prometheus_client import CollectorRegistry, Counter


async def get(app: web.Application, path: str) -> tuple[int, bytes]:
    async with (
        serving(app, host="127.0.0.1", port=0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.read()


def app_with(*, alive: str | None = None, ready: str | None = None) -> web.Application:
    registry = CollectorRegistry()
    Counter("probe_seen", "A counter to look for.", registry=registry).inc()
    return public_app(liveness_error=lambda: alive, readiness_error=lambda: ready, registry=registry)


async def test_probes_say_ok_when_nothing_is_wrong() -> None:
    assert await get(app_with(), "/healthz") == (200, b"ok\n")
    assert await get(app_with(), "/readyz") == (200, b"ok\n")


async def test_a_failing_probe_names_its_reason() -> None:
    app = app_with(ready="pods are not listed yet")
    assert await get(app, "/readyz") == (503, b"pods are not listed yet\n")


async def test_liveness_and_readiness_are_independent() -> None:
    assert (await get(app_with(ready="standing by"), "/healthz"))[0] == 200
    assert (await get(app_with(alive="the cycle loop has ended"), "/healthz"))[0] == 503


async def test_metrics_are_in_prometheus_text_form() -> None:
    status, body = await get(app_with(), "/metrics")
    assert status == 200
    assert b"probe_seen_total 1.0" in body


def recording_of(body: bytes | None) -> Callable[[], Awaitable[bytes | None]]:
    async def recording() -> bytes | None:
        return body

    return recording


def recordings(
    *, last: bytes | None = None, error: bytes | None = None, inconclusive: bytes | None = None
) -> web.Application:
    return debug_app(
        last=recording_of(last), last_error=recording_of(error), last_inconclusive=recording_of(inconclusive)
    )


async def test_snapshot_is_not_found_before_the_first_cycle() -> None:
    assert await get(recordings(), "/debug/snapshot") == (404, b"no cycle has run yet\n")
    assert await get(recordings(last=b"file"), "/debug/snapshot") == (200, b"file")


async def test_debug_error_is_not_found_before_an_error() -> None:
    app = recordings(last=b"file")
    assert await get(app, "/debug/error") == (404, b"no cycle had an error\n")
    app = recordings(last=b"file", error=b"wrong")
    assert await get(app, "/debug/error") == (200, b"wrong")


async def test_debug_inconclusive_is_not_found_before_an_inconclusive_cycle() -> None:
    found = await get(recordings(), "/debug/inconclusive")
    assert found == (404, b"no cycle had an inconclusive solver run\n")
    assert await get(recordings(inconclusive=b"hard"), "/debug/inconclusive") == (200, b"hard")


async def test_the_endpoints_are_read_only() -> None:
    app = recordings()
    async with serving(app, host="127.0.0.1", port=0) as port, aiohttp.ClientSession() as session:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            async with session.request(method, f"http://127.0.0.1:{port}/debug/snapshot") as answer:
                assert answer.status == 405
