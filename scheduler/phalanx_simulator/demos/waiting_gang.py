"""Act 3: a gang that does not fit.

Its status says why and what would help; the demo then does that.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from phalanx.model.api.pod_groups import PodGroupStatus
from phalanx.model.reasons import CHANGE_FOR_ADVICE, WAIT_FOR_ADVICE
from phalanx.model.resources import GPU
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from phalanx_simulator.demos.cluster import DemoCluster, DemoFailed
from phalanx_simulator.demos.environment import Stage
from phalanx_simulator.demos.fabric import (
    TOPOLOGY,
    Shape,
    create_fabric,
    legend,
    picture,
    racks_used,
    tree_of,
)
from phalanx_simulator.embedded import manifests

TITLE: Final = "A gang that cannot fit, and what would make it fit"

_GANG: Final = "finetune"
_ROLE: Final = "worker"
_PODS: Final = 4
_SHAPE: Final = Shape(spines=2, racks=3, nodes=6, seed=2)
_REASON: Final = "NoDomainFits"
_ADVICE: Final = "require spine instead of rack"
_CHANGE: Final = {"spec": {"topology": {"required": "spine"}}}
_STORY: Final = (
    f"{_PODS} workers of 8 GPUs each; their PodGroup requires one rack. No rack has {_PODS} whole nodes free."
)


async def play(stage: Stage) -> str:
    """Show why the gang waits, apply the next step of its status, and show the result.

    Raises DemoFailed.
    """
    cluster, console = stage.phalanx, stage.console
    console.print(_STORY, end="\n\n")
    await create_fabric(cluster, _SHAPE)
    group = manifests.pod_group(_GANG, min_member=_PODS, topology={"name": TOPOLOGY, "required": "rack"})
    await cluster.create(group, *manifests.gang(_GANG, {_ROLE: _PODS}, requests={GPU: "8"}))
    verdict = await cluster.until(lambda: _verdict(cluster), what=f"the status of {_GANG} says why it waits")
    _draw(cluster, console)
    _show_status(verdict, console)
    await _show_event(cluster, console)
    await _follow_advice(cluster, console)
    _draw(cluster, console)
    console.print(legend({_ROLE: "a worker"}))
    return _outcome(cluster)


def _verdict(cluster: DemoCluster) -> PodGroupStatus | None:
    group = cluster.pod_group(_GANG)
    if group is None or group.status.reason != _REASON:
        return None
    return group.status if group.status.next_step not in (WAIT_FOR_ADVICE, CHANGE_FOR_ADVICE) else None


def _draw(cluster: DemoCluster, console: Console) -> None:
    console.print(Group(*picture(tree_of(cluster, gang=_GANG), roles=[_ROLE]), ""))


def _show_status(status: PodGroupStatus, console: Console) -> None:
    """Print the fields of the status."""
    if _ADVICE not in (status.next_step or ""):
        raise DemoFailed(f"the next step is not to {_ADVICE} but: {status.next_step}")
    console.print(_command(f"kubectl get podgroup {_GANG} -o yaml"))
    fields = {
        "reason": status.reason,
        "message": status.message,
        "nextStep": status.next_step,
    }
    console.print(_rows([(f"{name}:", value or "") for name, value in fields.items()]))


async def _show_event(cluster: DemoCluster, console: Console) -> None:
    """The event of the gang, as `kubectl describe` prints it."""
    event = await cluster.until_answered(
        lambda: cluster.event_of(_GANG, reason="FailedScheduling"), what=f"an event says why {_GANG} waits"
    )
    console.print(_command(f"kubectl describe podgroup {_GANG}"))
    console.print(_rows([_words_of(event)]))


async def _follow_advice(cluster: DemoCluster, console: Console) -> None:
    change = msgspec.json.encode(_CHANGE).decode()
    console.print(_command(f"kubectl patch podgroup {_GANG} --type=merge -p '{change}'"))
    await cluster.patch("PodGroup", _GANG, _CHANGE)
    await cluster.until(lambda: _runs(cluster), what=f"{_GANG} runs after its PodGroup was changed")


def _runs(cluster: DemoCluster) -> bool | None:
    group = cluster.pod_group(_GANG)
    counts = group.status.counts if group is not None else None
    return (counts is not None and counts.running == _PODS) or None


def _outcome(cluster: DemoCluster) -> str:
    used = list(racks_used(tree_of(cluster, gang=_GANG)))
    spines = {spine for spine, _ in used}
    if len(spines) != 1 or len(used) < 2:
        raise DemoFailed(f"the gang went to {used}")
    return f"Done as advised: all {_PODS} workers run in {used[0][0]}, in {len(used)} racks."


def _words_of(event: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(event[field]) for field in ("type", "reason", "reportingController", "note"))


def _command(line: str) -> Text:
    return Text(f"$ {line}", style="bold")


def _rows(rows: Sequence[Sequence[str]]) -> Padding:
    """A table whose last column may wrap."""
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for _ in rows[0][:-1]:
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return Padding(table, (0, 0, 0, 2))
