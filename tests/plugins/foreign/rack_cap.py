"""At most two pods of a gang run in each rack, so that a rack that fails takes few of them."""

from phalanx.framework.plugin import Plugin, SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.resources import PODS
from phalanx.rules.budget import Budget
from phalanx.rules.problem import Rule, RuleWords

RACK, MOST = "acme.example/rack", 2
WORDS = RuleWords(
    message=f"at most {MOST} pods of a gang run in each rack",
    next_step="Add a rack, or make the gang smaller",
)


class RackCap(Plugin):
    name = "rack-cap"

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        racks: dict[str, list[NodeName]] = {}
        for name, state in view.nodes.items():
            racks.setdefault(state.node.labels.get(RACK, ""), []).append(name)
        return tuple(_cap(rack, frozenset(nodes), gang) for rack, nodes in racks.items())


def _cap(rack: str, nodes: frozenset[NodeName], gang: Gang) -> Budget:
    running = sum(pod.holds_node and pod.node in nodes for pod in gang.members)
    return Budget(name=f"cap of rack {rack}", remaining={PODS: MOST - running}, nodes=nodes, words=WORDS)
