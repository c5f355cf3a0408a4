"""`phalanx nodes`: state, faults, why avoided, who is there, and what would be lost by draining."""

from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.verbs.jobs import GANG_KINDS, QUIET
from phalanx.cli.verbs.node_faults import fault_finder
from phalanx.cli.verbs.options import ViewOptions
from phalanx.cli.verbs.runner import NotFound, Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables.nodes import node_lines
from phalanx.cli.verbs.views.nodes import NodesView, nodes_view

NODE_KINDS = (*GANG_KINDS, "Node")
EVERYWHERE = frozenset({"Pod", "PodGroup"})
"""Pods of all namespaces use the nodes."""


def nodes(
    *node: str,
    resource: Annotated[str | None, Parameter(name=["--resource", "-r"])] = None,
    options: ViewOptions | None = None,
) -> int:
    """Show nodes: state, faults, why they are avoided, who is there, and what would be lost by draining.

    Lost is the run time of the gangs that would stop since their start or their last checkpoint, times their
    devices. Nodes with faults come first. Pods of all namespaces count that you may read.

    Parameters
    ----------
    node
        Only these nodes.
    resource
        The resource that is shown; default: the device of which there is most, else cpu.
    """
    fault_of = fault_finder()

    def view(seen: Seen) -> NodesView:
        found = nodes_view(seen, fault_of, resource=resource, only=node)
        missing = sorted(set(node) - {row.name for row in found.nodes})
        if missing:
            raise NotFound(f"there is no node {', '.join(missing)}")
        return found

    question = Question(
        name="nodes",
        kinds=NODE_KINDS,
        view=view,
        lines=node_lines,
        everywhere=EVERYWHERE,
        needed=("Node",),
        quiet=QUIET,
    )
    return ask(options or ViewOptions(), question)
