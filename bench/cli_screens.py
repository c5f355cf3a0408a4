"""Writes the screens of docs/cli.md: the commands on a small example cluster, as text and as pictures.

    python -m bench.cli_screens [FOLDER]

The cluster is the embedded API server with the objects of `tests/cli/verbs/conftest.py` and some more.
Without a folder the screens are printed; with one, `why.svg` and `top.svg` are written there.
"""

import asyncio
import io
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final, cast
from unittest.mock import patch

from phalanx.cli.app import main as run
from phalanx.cli.verbs import printing
from phalanx.clock import SystemClock
from phalanx_simulator.embedded.apiserver.http import serving
from rich.console import Console

from tests.cli.verbs.conftest import GuardedServer, World, ago, gpu_node, two_tenants
from tests.fake_objects import Manifest

SCREENS: Final[tuple[tuple[str, ...], ...]] = (
    ("why", "large", "-n", "vision"),
    ("jobs", "-A"),
    ("queues",),
    ("topo", "-A"),
    ("nodes",),
    ("drain-plan", "a1", "a2", "b2"),
    ("what-if", "--add-nodes", "1", "--like", "b1"),
    ("hold", "large", "-n", "vision"),
)
PICTURES: Final[dict[str, tuple[str, ...]]] = {"why": ("why", "large", "-n", "vision"), "top": ("top", "-A")}
WIDTH: Final = 120


def main() -> None:
    """Print the screens, or write the pictures."""
    asyncio.run(screens(Path(sys.argv[1]) if len(sys.argv) > 1 else None))


async def screens(folder: Path | None) -> None:
    """Run the commands against the example."""
    server = GuardedServer(clock=SystemClock())
    async with serving(server, token="screens") as endpoint:
        with tempfile.TemporaryDirectory() as place:
            kubeconfig = endpoint.write_kubeconfig(Path(place) / "kubeconfig")
            World(server, kubeconfig, cast("Any", None)).create(*example(server))
            for words in SCREENS if folder is None else ():
                print(f"$ phalanx {' '.join(words)}")
                await asyncio.to_thread(run, [*words, "--kubeconfig", str(kubeconfig)])
                print()
            for name, words in PICTURES.items() if folder is not None else ():
                text = await asyncio.to_thread(picture, words, kubeconfig)
                assert folder is not None
                (folder / f"{name}.svg").write_text(text)


def picture(words: Sequence[str], kubeconfig: Path) -> str:
    """The screen of a command, with its colours."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)

    def show(shown: Sequence[printing.Line], *, width: int) -> None:
        assert width == WIDTH
        for each in shown:
            for part in printing.wrapped(each, width):
                console.print(printing.as_text(part), no_wrap=True, overflow="ellipsis")

    screen = patch("phalanx.cli.verbs.runner.width_of_screen", return_value=WIDTH)
    with redirect_stdout(io.StringIO()), patch("phalanx.cli.verbs.runner.show", show), screen:
        run([*words, "--kubeconfig", str(kubeconfig)])
    return console.export_svg(title=f"phalanx {' '.join(words)}")


def example(server: GuardedServer) -> list[Manifest]:
    """Two tenants, an empty node, a faulty one, and events."""
    faulty = gpu_node("b3", rack="b", conditions=[{"type": "GpuXidError", "status": "True"}])
    objects = [*two_tenants(), gpu_node("b2", rack="b"), faulty]
    for place, (pod, reason, note) in enumerate(
        (
            ("large-0", "FailedScheduling", "InsufficientCapacity: 16 nvidia.com/gpu needed, 4 free"),
            ("large-0", "FailedScheduling", "QueueLimit: queue vision is at its limit of 16 nvidia.com/gpu"),
            ("busy-1", "Scheduled", "Successfully assigned vision/busy-1 to a2"),
        )
    ):
        objects.append(
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": f"e{place}", "namespace": "vision"},
                "eventTime": ago(100 + 300 * place).replace("Z", ".000000Z"),
                "reportingController": "phalanx",
                "reportingInstance": "phalanx-0",
                "action": "Scheduling",
                "reason": reason,
                "type": "Normal",
                "note": note,
                "regarding": {"kind": "Pod", "namespace": "vision", "name": pod},
            }
        )
    return objects


if __name__ == "__main__":
    main()
