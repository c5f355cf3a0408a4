"""`phalanx top`: one frame without a terminal, and a live view in one."""

import asyncio
import os
import pty
import select
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.verbs.conftest import World, ago, gpu_node, gpu_pod


async def test_one_frame_without_a_terminal(tenants: World) -> None:
    tenants.create(gpu_node("bad", rack="b", conditions=[{"type": "Ready", "status": "False"}]))
    done = await tenants.run("top", "-A")
    assert (done.code, done.err) == (0, "")
    for text in (
        "gangs  2 Running   1 Waiting",
        "0 binds and 0 starts in the last minute",
        " 9 of 32 in use",
        "1 NotReady   3 Ready",
        "QUEUE",
        "InsufficientCapacity",
        "condition Ready is False",
    ):
        assert text in done.out


async def test_decisions_about_the_pods_of_a_workload_are_one_line(tenants: World) -> None:
    for number in range(3):
        pod = {"kind": "Pod", "namespace": "vision", "name": f"busy-{number}"}
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"e{number}", "namespace": "vision"},
            "eventTime": ago(60 - number).replace("Z", ".000000Z"),
            "reportingController": "phalanx",
            "reportingInstance": "phalanx-0",
            "action": "Binding",
            "reason": "Scheduled",
            "type": "Normal",
            "note": f"Successfully assigned vision/busy-{number} to a{number}",
            "regarding": pod,
        }
        tenants.create(event)
    (decision,) = (await tenants.json("top", "-A"))["decisions"]
    assert (decision["about"], decision["moment"]["count"]) == ("vision/busy-*", 3)
    assert decision["moment"]["text"] == "Successfully assigned vision/busy-2 to a2"
    assert "Scheduled vision/busy-* ×3: Successfully" in (await tenants.run("top", "-A")).out


async def test_rates_count_the_last_minute(tenants: World) -> None:
    pod = gpu_pod("fresh", space="speech", node="b1")
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(5)},
    ]
    tenants.create(pod)
    view = await tenants.json("top", "-A")
    assert (view["bindsPerMinute"], view["startsPerMinute"]) == (1, 1)
    assert view["gangs"] == {"Running": 3, "Waiting": 1}


async def test_a_tenant_sees_the_own_gangs_and_no_free_capacity(tenants: World) -> None:
    tenants.server.forbidden = ("/api/v1/pods", "/api/v1/nodes", "/apis/events.k8s.io/v1/events")
    done = await tenants.run("top", "-n", "vision")
    assert done.code == 0
    assert "speech" not in done.out
    assert "in use" not in done.out
    assert "gangs  1 Running   1 Waiting" in done.out


def read_until(descriptor: int, text: bytes) -> bytes:
    """What the terminal gets up to this text. It fails when the program ends before."""
    found = b""
    while text not in found:
        ready, _, _ = select.select([descriptor], [], [], 60)
        assert ready, found
        found += os.read(descriptor, 65536)
    return found


@contextmanager
def started(kubeconfig: Path) -> Iterator[tuple[int, int]]:
    """A process with a terminal of its own; its id and the other end of the terminal."""
    process, descriptor = pty.fork()
    if process == 0:
        program = str(Path(sys.executable).parent / "phalanx")
        os.environ |= {"TERM": "xterm", "COLUMNS": "120", "LINES": "50"}
        os.execv(program, [program, "top", "-A", "--kubeconfig", str(kubeconfig), "--interval", "60"])
    try:
        yield process, descriptor
    finally:
        os.close(descriptor)
        os.kill(process, signal.SIGKILL)  # has no effect if it has ended
        os.waitpid(process, 0)


def lived(kubeconfig: Path, *typed: bytes) -> tuple[int, bytes, bool]:
    """Exit code, all output, and whether the terminal echoes again. Each text is typed at a new frame."""
    with started(kubeconfig) as (process, descriptor):
        before = termios.tcgetattr(descriptor)[3]
        out = b""
        for keys in typed:
            out += read_until(descriptor, b"InsufficientCapacity")
            os.write(descriptor, keys)
        out += read_until(descriptor, b"\x1b[?1049l")
        ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        after = termios.tcgetattr(descriptor)[3]
    return ended.si_status, out, before == after


async def test_q_and_ctrl_c_end_it_and_restore_the_terminal(tenants: World) -> None:
    """An arrow key draws a new frame. A q counts also if another key is typed right before it."""
    for typed, code in (((b"\x1b[A", b"jq"), 0), ((b"\x03",), 130)):
        done, out, is_restored = await asyncio.to_thread(lived, tenants.kubeconfig, *typed)
        assert (done, is_restored) == (code, True)
        assert b"\x1b[?1049h" in out
