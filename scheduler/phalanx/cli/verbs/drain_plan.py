"""`phalanx drain-plan`: an order in which nodes can be emptied with few restarts."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from cyclopts import Parameter

from phalanx.cli.exits import BadInput
from phalanx.cli.formatting import count
from phalanx.cli.verbs.formatting import names
from phalanx.cli.verbs.jobs import QUIET
from phalanx.cli.verbs.node_faults import fault_finder
from phalanx.cli.verbs.nodes import EVERYWHERE, NODE_KINDS
from phalanx.cli.verbs.options import TableOptions
from phalanx.cli.verbs.printing import BAD, DIM, WARN, Cell, Format, Line, Span, line
from phalanx.cli.verbs.runner import NotFound, NotReadable, Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables import Column, table
from phalanx.cli.verbs.views.drain_plan import DrainPlan, DrainStep
from phalanx.cli.verbs.views.drain_plan import drain_plan as plan_of
from phalanx.model.names import NodeName

_PLAN_NODES_MAX: Final = 2000
"""Nodes that `drain-plan` puts in an order. The search looks at all that are left for each of them."""


def drain_plan(
    *node: str,
    selector: Annotated[str | None, Parameter(name=["--selector", "-l"])] = None,
    removed: Annotated[bool, Parameter(negative="")] = False,
    options: TableOptions | None = None,
) -> int:
    """Find an order in which nodes can be emptied with few restarts of gangs.

    Cordon all nodes of the plan first, so that no gang restarts onto a node that is drained later. Capacity
    elsewhere is counted by requests only; `phalanx what-if --drain NODE` decides one step exactly. Nothing is
    changed.

    Parameters
    ----------
    node
        The nodes to empty; default: all nodes, one after the other.
    selector
        Only nodes with this label: KEY=VALUE or KEY.
    removed
        The nodes do not come back after they are drained.
    """

    def view(seen: Seen) -> DrainPlan:
        if not seen.knows_all_pods:
            raise NotReadable("it needs the right to list the pods of all namespaces, which use the nodes")
        return plan_of(seen, fault_of, _chosen(seen, node, selector), returns=not removed)

    fault_of = fault_finder()
    question = Question(
        name="drain-plan",
        kinds=(*NODE_KINDS, "PodDisruptionBudget"),
        view=view,
        lines=_drain_plan_lines,
        everywhere=EVERYWHERE | {"PodDisruptionBudget"},
        needed=("Node", "Pod"),
        quiet=QUIET,
    )
    return ask(options or TableOptions(), question)


def _chosen(seen: Seen, names: tuple[str, ...], selector: str | None) -> list[str]:
    states = seen.cluster.nodes
    missing = [name for name in names if NodeName(name) not in states]
    if missing:
        raise NotFound(f"there is no node {', '.join(missing)}")
    key, equals, value = (selector or "").partition("=")
    chosen = [
        str(name)
        for name, state in states.items()
        if (not names or name in names)
        and (not key or (state.node.labels.get(key) == value if equals else key in state.node.labels))
    ]
    if len(chosen) > _PLAN_NODES_MAX:
        raise BadInput(f"expected at most {_PLAN_NODES_MAX} nodes, found {len(chosen)}: choose some")
    if not chosen:
        raise NotFound("no node is chosen")
    return chosen


_HOUR = 3600
_TABLE = (
    *(Column("STEP"), Column("NODE"), Column("STOPS", wraps=True), Column("LOSES PODS", goes=2, wraps=True)),
    *(Column("LOST DEVICE H", goes=1), Column("ATTENTION", wraps=True)),
)


def _drain_plan_lines(plan: DrainPlan, how: Format) -> list[Line]:
    """A line for each step, and the stops in all."""
    rows = (_cells(place, step, how) for place, step in enumerate(plan.steps, start=1))
    total = f"{count(plan.stops, 'stop')} of gangs in all; every order has at least {plan.stops_at_least}"
    back = "is back before the next one" if plan.returns else "does not come back"
    return [*table(_TABLE, rows, how), line(Span(f"{total}. A drained node {back}.", DIM))]


def _cells(place: int, step: DrainStep, how: Format) -> Sequence[Cell]:
    attention = "; ".join(_attention(step, how))
    return (
        str(place),
        step.node,
        Span(names(step.stops, is_wide=how.is_wide) or "-", WARN if step.stops else ""),
        names(step.loses_pods, is_wide=how.is_wide) or "-",
        f"{step.lost_device_seconds / _HOUR:.1f}",
        Span(attention or "-", BAD if attention else ""),
    )


def _attention(step: DrainStep, how: Format) -> Iterator[str]:
    for found, what in (
        (step.no_capacity, "no capacity elsewhere"),
        (step.protected, "protected by a PodDisruptionBudget"),
        (step.no_controller, "not created again"),
    ):
        if found:
            yield f"{what}: {names(found, is_wide=how.is_wide)}"
