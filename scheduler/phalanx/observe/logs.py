"""Set up logs on standard error: JSON lines in a cluster, coloured columns on a terminal."""

import logging
import sys
from typing import Any, Final, TextIO

import structlog

_SHARED: Final[tuple[Any, ...]] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure_logs(*, level: str = "info", stream: TextIO | None = None) -> None:
    """Set up logging for the whole process. `level` is debug, info, warning or error."""
    out = stream if stream is not None else sys.stderr
    renderer = _renderer(out)
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*_SHARED, structlog.processors.format_exc_info, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=True,
    )
    _configure_libraries(out, renderer)


def _renderer(out: TextIO) -> Any:
    if out.isatty():
        return structlog.dev.ConsoleRenderer()
    return structlog.processors.JSONRenderer(sort_keys=False)


def _configure_libraries(out: TextIO, renderer: Any) -> None:
    """Format the warnings of libraries (asyncio, aiohttp) in the same way."""
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=list(_SHARED),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
