"""The dashboard of every Ray cluster, which no pod of KWOK serves, as a proxy for the operator's requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from phalanx_controlplane import run_folder


@asynccontextmanager
async def ray_dashboard() -> AsyncIterator[str]:
    """The URL of a proxy. It answers requests for a job itself: the job has succeeded.

    The operator takes a RayJob for complete only once the pod that submits it has ended too.
    """
    application = web.Application()
    application.router.add_get("/api/jobs/{job}", _job)
    runner = web.AppRunner(application)
    await runner.setup()
    with run_folder.reserve(1) as lease:
        [port] = lease.ports
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await runner.cleanup()


async def _job(request: web.Request) -> web.Response:
    name = request.match_info["job"]
    return web.json_response(
        {"type": "SUBMISSION", "job_id": name, "submission_id": name, "status": "SUCCEEDED", "entrypoint": ""}
    )
