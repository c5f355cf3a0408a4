"""`phalanx topo`: the topology tree with free devices, fragmentation, and who is where."""

from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.verbs.jobs import QUIET
from phalanx.cli.verbs.node_faults import fault_finder
from phalanx.cli.verbs.nodes import EVERYWHERE, NODE_KINDS
from phalanx.cli.verbs.options import ViewOptions
from phalanx.cli.verbs.runner import NotFound, Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables.topo import topo_lines
from phalanx.cli.verbs.views.topo import TopoView, topo_view


def topo(
    topology: str | None = None,
    /,
    *,
    nodes: Annotated[bool, Parameter(negative="")] = False,
    resource: Annotated[str | None, Parameter(name=["--resource", "-r"])] = None,
    options: ViewOptions | None = None,
) -> int:
    """Show the topology as a tree of domains: free devices, fragmentation, and which gangs are where.

    Free is what new pods may use: nodes that are cordoned, faulty or not ready do not count. Gangs of your
    namespace are named, with -A those of all namespaces that you may read.

    Parameters
    ----------
    topology
        The Topology; default: the one named default, else the first one, else the levels of node labels.
    nodes
        Show single nodes too.
    resource
        The resource that is counted; default: the device of which there is most, else cpu.
    """
    fault_of = fault_finder()

    def view(seen: Seen) -> TopoView:
        found = topo_view(seen, fault_of, name=topology, resource=resource, with_nodes=nodes)
        if found is None:
            raise NotFound(f"there is no topology {topology}")
        return found

    question = Question(
        name="topo",
        kinds=(*NODE_KINDS, "Topology"),
        view=view,
        lines=topo_lines,
        everywhere=EVERYWHERE,
        needed=("Node",),
        quiet=QUIET,
    )
    return ask(options or ViewOptions(), question)
