"""A session with the cache of the last one gives the same answers as a session without."""

import gc

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.session_cache import SessionCache
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, QueueName
from phalanx.model.nodes import Node, NodeState, Taint
from phalanx.model.queues import Flavor
from phalanx.model.resources import CPU, GPU, add, subtract
from phalanx.model.snapshot import Snapshot

from tests.builders import Scenario
from tests.examples import holds

CONFIG = SchedulerConfig()
NODES = 8
POOL = (("pool", "a100"),)
OLD = Taint("old", "NoExecute")

Change = tuple[int, str]


def scenario() -> Scenario:
    """Two pools of nodes, two queues of which one has a flavor, gangs that run and gangs that wait."""
    made = Scenario().queue("a", flavors=(Flavor("a100", POOL, guarantee={GPU: 4}),)).queue("b")
    for index in range(NODES):
        made.nodes(f"n{index}", 1, gpu=8, labels={"pool": "a100" if index % 2 else "h100"})
        made.gang(f"run{index}", 2, gpu=1, on=[f"n{index}-0"] * 2, queue="ab"[index % 2])
    return made.gang("one", 3, gpu=4, queue="a").gang("two", 2, gpu=8, queue="b", cpu=2)


class Cluster:
    """Successive snapshots that share unchanged objects, as those of the cache do."""

    def __init__(self) -> None:
        self.first: Snapshot = scenario().snapshot()
        self.now = self.first

    def change(self, index: int, what: str) -> None:
        """Change a node, or the gang that runs there."""
        if what.startswith("gang"):
            self._change_gang(index, what)
        else:
            self._change_node(NodeName(f"n{index}-0"), what)

    def _change_node(self, name: NodeName, what: str) -> None:
        nodes, usage = dict(self.now.nodes), dict(self.now.queue_usage)
        if what == "leaves":
            nodes.pop(name, None)
        elif name not in nodes:
            nodes[name] = self.first.nodes[name]
        elif what == "used":
            nodes[name] = _used(nodes[name])
            queue = QueueName("ab"[int(name[1]) % 2])
            usage[queue] = {**usage[queue], name: {GPU: nodes[name].used[GPU], CPU: 1}}
        else:
            nodes[name] = replace(nodes[name], node=_changed(nodes[name].node, what))
        self.now = replace(self.now, nodes=dict(sorted(nodes.items())), queue_usage=usage)

    def _change_gang(self, index: int, what: str) -> None:
        gangs, gang = dict(self.now.gangs), GangId(f"gang-run{index}")
        if what == "gang leaves":
            gangs.pop(gang, None)
        elif gang not in gangs:
            gangs[gang] = self.first.gangs[gang]
        else:
            gangs[gang] = _with_one_leaving(gangs[gang])
        self.now = replace(self.now, gangs=dict(sorted(gangs.items())))


def _used(state: NodeState) -> NodeState:
    used = add(state.used, {GPU: 1, CPU: 1500})
    return NodeState(node=state.node, used=used, free=subtract(state.node.allocatable, used))


def _changed(node: Node, what: str) -> Node:
    if what == "tainted":
        return replace(node, taints=() if node.taints else (OLD,))
    if what == "cordoned":
        return replace(node, unschedulable=not node.unschedulable)
    if what == "faulty":
        return replace(node, conditions={} if node.conditions else {"GpuXidError": "True"})
    return replace(node, labels={**node.labels, "pool": "h100"}, allocatable={**node.allocatable, GPU: 7})


def _with_one_leaving(gang: Gang) -> Gang:
    first, *others = gang.members
    return replace(gang, members=(replace(first, deleting=not first.deleting), *others))


def derived(session: Session) -> list[object]:
    """The values that a session derives from nodes, usage and gangs."""
    facts = session.facts
    shares = [session.fair_shares.of(queue.name, part) for queue in session.queues for part in (None, POOL)]
    first = [gang.members[0] for gang in session.gangs.values()]
    return [
        *(facts.faults, facts.suspect_nodes, facts.healthy, facts.open_nodes, facts.open_allocatable),
        *(
            facts.any_cordoned,
            facts.any_taint,
            facts.any_soft_taint,
            facts.largest_allocatable,
            [type(each) for each in facts.open_supplies],
        ),
        *(session.incomplete, session.waiting, session.ledger.amounts, session.fair_shares.capacity),
        *(shares, session.health, list(session.nodes), list(session.gangs)),
        [session.eligibility(pod) for pod in first],
    ]


CHANGES = st.tuples(
    st.integers(0, NODES - 1),
    st.sampled_from(
        ["leaves", "tainted", "cordoned", "faulty", "other", "used", "used", "gang leaves", "gang leaving"]
    ),
)


@holds(35)
@given(st.lists(st.lists(CHANGES, max_size=3), max_size=6))
def test_a_session_does_not_depend_on_the_one_before(cycles: list[list[Change]]) -> None:
    cluster, between = Cluster(), SessionCache()
    for changes in cycles:
        for index, what in changes:
            cluster.change(index, what)
        session = Session(cluster.now, CONFIG, cache=between)
        assert derived(session) == derived(Session(cluster.now, CONFIG))
        memory = replace(cluster.now.memory, cycle=session.cycle, nodes=session.health.records)
        cluster.now = replace(cluster.now, memory=memory, now=cluster.now.now + 1000)


def test_node_facts_are_computed_again_only_when_a_node_changes() -> None:
    cluster, between = Cluster(), SessionCache()
    facts = Session(cluster.now, CONFIG, cache=between).facts
    cluster.change(1, "used")
    assert Session(cluster.now, CONFIG, cache=between).facts is facts
    cluster.change(1, "tainted")
    assert Session(cluster.now, CONFIG, cache=between).facts is not facts


def test_the_cache_drops_a_gang_that_is_gone() -> None:
    cluster, between = Cluster(), SessionCache()
    gone = cluster.now.gangs[GangId("gang-run1")]
    assert gone not in Session(cluster.now, CONFIG, cache=between).incomplete
    before = len(gc.get_referrers(gone))
    cluster.change(1, "gang leaves")
    assert Session(cluster.now, CONFIG, cache=between).incomplete
    assert len(gc.get_referrers(gone)) < before


def test_another_configuration_has_its_own_facts() -> None:
    cluster, between = Cluster(), SessionCache()
    cluster.change(1, "faulty")
    assert Session(cluster.now, CONFIG, cache=between).faults
    trusting = SchedulerConfig(plugins=(PluginConfig(name="node-health", enabled=False),))
    assert not Session(cluster.now, trusting, cache=between).faults
    assert Session(cluster.now, CONFIG, cache=between).faults


def test_a_session_that_ignores_faults_does_not_change_the_cache() -> None:
    cluster, between = Cluster(), SessionCache()
    cluster.change(1, "faulty")
    assert not Session(cluster.now, CONFIG, cache=between, ignore_faults=True).faults
    assert Session(cluster.now, CONFIG, cache=between).faults
