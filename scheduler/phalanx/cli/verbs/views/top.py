"""The live view: gangs by state, queues, nodes, rates, and the last decisions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.cli.verbs.formatting import main_resource
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.views.gangs import GangRow, State, gang_rows
from phalanx.cli.verbs.views.nodes import FaultOf, NodeRow, NodesView, nodes_view
from phalanx.cli.verbs.views.queues import QueuesView, queues_view
from phalanx.cli.verbs.views.why import Moment, moment_of
from phalanx.model.api.values import seconds
from phalanx.model.resources import sum_of

_DECISIONS_SHOWN: Final = 8
"""Last decisions in a frame of `top`, so that a terminal of 50 lines shows all parts."""

_RATE_PERIOD_S: Final = 60
"""Seconds that rates are counted over."""


class Decision(Struct, frozen=True, rename="camel"):
    """An event about an object."""

    about: str
    moment: Moment


class TopView(Struct, frozen=True, rename="camel"):
    resource: str
    gangs: Mapping[str, int]
    """Gangs by state."""
    total: int | None
    """The resource on all nodes; None if nodes may not be read."""
    used: int | None
    """None if the pods of all namespaces may not be read."""
    nodes: Mapping[str, int]
    """Nodes by condition."""
    faulty: tuple[NodeRow, ...]
    binds_per_minute: int
    """Pods that got a node in the last minute."""
    starts_per_minute: int
    """Gangs that started in the last minute."""
    queues: QueuesView
    waiting: tuple[GangRow, ...]
    """Waiting gangs, in the order of their queues."""
    decisions: tuple[Decision, ...]
    """The newest first."""


def top_view(seen: Seen, fault_of: FaultOf, events: Iterable[Mapping[str, Any]]) -> TopView:
    """The frame of one reading."""
    nodes = nodes_view(seen, fault_of, resource=None)
    return frame_of(seen, gang_rows(seen), nodes, queues_view(seen, resource=None), events)


def frame_of(
    seen: Seen,
    gangs: Sequence[GangRow],
    nodes: NodesView,
    queues: QueuesView,
    events: Iterable[Mapping[str, Any]],
) -> TopView:
    """The frame, of views that were made already."""
    knows_nodes = "Node" not in seen.unread
    resource = nodes.resource if knows_nodes else main_resource(row.requests for row in gangs)
    used = [row.used for row in nodes.nodes if row.used is not None]
    begin = seen.now_ms // 1000 - _RATE_PERIOD_S
    pods = [pod for gang in seen.cluster.gangs.values() for pod in gang.members]
    return TopView(
        resource=resource,
        gangs=_counted(row.state.value for row in gangs),
        total=sum_of(row.allocatable for row in nodes.nodes).get(resource, 0) if knows_nodes else None,
        used=sum_of(used).get(resource, 0) if knows_nodes and seen.knows_all_pods else None,
        nodes=_counted(row.condition.value for row in nodes.nodes),
        faulty=tuple(row for row in nodes.nodes if not row.takes_pods),
        binds_per_minute=sum(pod.bound_since > begin for pod in pods),
        starts_per_minute=sum(
            row.state is State.RUNNING and bool(row.since) and seconds(row.since) > begin for row in gangs
        ),
        queues=queues,
        waiting=tuple(row for row in gangs if row.state is State.WAITING),
        decisions=_by_workload(decisions_of(events))[:_DECISIONS_SHOWN],
    )


def _by_workload(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Decisions about pods that differ only in the end of their names are one, with the newest text."""
    found: dict[tuple[str, str], list[Decision]] = {}
    for each in decisions:
        found.setdefault((each.moment.what, each.about.rpartition("-")[0] or each.about), []).append(each)
    return tuple(
        group[0] if len(group) == 1 else _together(name, group) for (_, name), group in found.items()
    )


def _together(name: str, group: Sequence[Decision]) -> Decision:
    """`group`: the newest first."""
    names = {each.about for each in group}
    count = sum(each.moment.count for each in group)
    about = group[0].about if len(names) == 1 else f"{name}-*"
    return Decision(about, replace(group[0].moment, count=count))


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def decisions_of(events: Iterable[Mapping[str, Any]]) -> tuple[Decision, ...]:
    """The events, the newest first."""
    found = [Decision(_about(event), moment_of(event)) for event in events]
    found.sort(key=lambda each: each.moment.at, reverse=True)
    return tuple(found)


def _about(event: Mapping[str, Any]) -> str:
    about = event.get("regarding") or {}
    return f"{about.get('namespace', '')}/{about.get('name', '')}"
