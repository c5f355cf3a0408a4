"""A replica that starts with a wrong configuration file: it says so, and waits for one without errors."""

import asyncio
import signal
from pathlib import Path
from typing import Any, Final

import structlog

from phalanx.cli.configuration import read_config
from phalanx.cli.exits import BadInput
from phalanx.cli.listening import Address
from phalanx.observe.metrics import Metrics
from phalanx.service.limits import CONFIG_POLL_S
from phalanx.web.server import public_app, serving

_log: Final[Any] = structlog.get_logger(__name__)


async def until_good(path: Path, http: Address) -> bool:
    """Serve probes and metrics, and be not ready. False if it is stopped before the file is good."""
    stop, metrics, problem = asyncio.Event(), Metrics(), _problem(path)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    metrics.config_read(is_used=False)
    app = public_app(liveness_error=lambda: None, readiness_error=lambda: problem, registry=metrics.registry)
    async with serving(app, host=http.host, port=http.port):
        said = ""
        while problem and not stop.is_set():
            if problem != said:
                _log.error("configuration refused, waiting for a file without errors", problem=problem)
                said = problem
            await _pause(stop)
            problem = _problem(path)
    return not stop.is_set()


def _problem(path: Path) -> str:
    try:
        read_config(path)
    except BadInput as error:
        return str(error)
    return ""


async def _pause(stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(CONFIG_POLL_S):
            await stop.wait()
    except TimeoutError:
        return
