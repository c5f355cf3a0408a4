"""Logs are JSON lines, or columns on a terminal."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from phalanx.observe.logs import configure_logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_logs_are_one_json_object_per_line() -> None:
    out = io.StringIO()
    configure_logs(stream=out)
    log = structlog.get_logger("phalanx.kube.binder").bind(gang="ns/g", cycle=3)
    log.info("gang binding aborted", reason="node n1 is gone")
    log.debug("not shown")
    (line,) = out.getvalue().splitlines()
    entry = json.loads(line)
    assert entry["event"] == "gang binding aborted"
    assert (entry["level"], entry["gang"], entry["cycle"]) == ("info", "ns/g", 3)
    assert entry["timestamp"].endswith("Z")


def test_an_exception_is_part_of_its_line() -> None:
    out = io.StringIO()
    configure_logs(stream=out)
    try:
        raise ValueError("odd")
    except ValueError:
        structlog.get_logger().exception("failed")
    (line,) = out.getvalue().splitlines()
    assert "ValueError: odd" in json.loads(line)["exception"]


def test_libraries_log_in_the_same_form() -> None:
    out = io.StringIO()
    configure_logs(stream=out)
    logging.getLogger("asyncio").warning("task %s is slow", "t")
    (line,) = out.getvalue().splitlines()
    assert json.loads(line)["event"] == "task t is slow"


def test_a_terminal_gets_columns() -> None:
    out = Terminal()
    configure_logs(stream=out, level="debug")
    structlog.get_logger().debug("cycle", placed=4)
    assert "placed" in out.getvalue()
    with pytest.raises(json.JSONDecodeError):
        json.loads(out.getvalue())
