"""`phalanx drain-plan`: an order in which nodes can be emptied with few restarts."""

from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.exits import BadInput
from phalanx.cli.verbs.jobs import QUIET
from phalanx.cli.verbs.limits import PLAN_NODES_MAX
from phalanx.cli.verbs.node_faults import fault_finder
from phalanx.cli.verbs.nodes import EVERYWHERE, NODE_KINDS
from phalanx.cli.verbs.options import ViewOptions
from phalanx.cli.verbs.runner import NotFound, NotReadable, Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables.drain_plan import drain_plan_lines
from phalanx.cli.verbs.views.drain_plan import DrainPlan
from phalanx.cli.verbs.views.drain_plan import drain_plan as plan_of
from phalanx.model.names import NodeName


def drain_plan(
    *node: str,
    selector: Annotated[str | None, Parameter(name=["--selector", "-l"])] = None,
    removed: Annotated[bool, Parameter(negative="")] = False,
    options: ViewOptions | None = None,
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
        lines=drain_plan_lines,
        everywhere=EVERYWHERE | {"PodDisruptionBudget"},
        needed=("Node", "Pod"),
        quiet=QUIET,
    )
    return ask(options or ViewOptions(), question)


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
    if len(chosen) > PLAN_NODES_MAX:
        raise BadInput(f"expected at most {PLAN_NODES_MAX} nodes, found {len(chosen)}: choose some")
    if not chosen:
        raise NotFound("no node is chosen")
    return chosen
