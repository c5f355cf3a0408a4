"""Class tables that are reused by the next session give the same answers as new ones."""

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.actions.nodes.gang_constraints import constraints_of
from phalanx.actions.nodes.node_classes import ClassTable, ClassTableCache, NodeClassSpec, is_cacheable
from phalanx.actions.nodes.node_order import NodeOrders
from phalanx.actions.problems import problem_builder
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.session_cache import SessionCache
from phalanx.model.decisions import Certificate
from phalanx.model.gangs import Gang
from phalanx.model.memory import NodeScore
from phalanx.model.names import GangId, NodeName
from phalanx.model.nodes import Node, NodeState, Taint
from phalanx.model.queues import Objective
from phalanx.model.resources import CPU, GPU, Resources, add, fits, subtract
from phalanx.model.snapshot import Level, Snapshot, Topology

from tests.actions.test_node_classes import demand
from tests.builders import Scenario, term
from tests.examples import holds

PROOF = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")
NODES = 12
WAITING = ("one", "racked", "many", "two")

Change = tuple[int, str]


def scenario() -> Scenario:
    """Nodes of three racks; gangs with different node class specs; a gang whose pods are put on the nodes."""
    made = Scenario("zone", "rack")
    for index in range(NODES):
        odd = {CPU: 100 * index, "memory": 4097 * index}
        made.nodes(f"n{index:02}", gpu=8, within=f"z/r{index // 4}", used=odd)
    made.gang("one", 1, gpu=1).gang("racked", 8, gpu=1, required="rack").gang("many", 30, gpu=2, cpu=3)
    made.gang("two", 4, gpu=3, preferred="rack", min=6).role("two", 2, role="ps", cpu=5)
    return made.gang("put", 40, gpu=1, cpu=2)


class Cluster:
    """Successive snapshots that share the states of unchanged nodes, as those of the cache do."""

    def __init__(self) -> None:
        self.now: Snapshot = scenario().snapshot()

    def change(self, index: int, what: str) -> None:
        """Change a node, its failure score, or the topology."""
        name = NodeName(f"n{index:02}-0")
        if what == "failed":
            self._toggle_failures(name)
        elif what == "reversed":
            self._reverse_topology()
        else:
            self._change_node(name, index, what)

    def _toggle_failures(self, name: NodeName) -> None:
        memory = self.now.memory
        scores = dict(memory.scores)
        if scores.pop(name, None) is None:
            scores[name] = NodeScore(score=3000, at=self.now.now)
        self.now = replace(self.now, memory=replace(memory, scores=scores))

    def _reverse_topology(self) -> None:
        """Keep the name and the levels of the topology, but reverse the order of the node labels."""
        turned = {}
        for name, topology in self.now.topologies.items():
            labels = reversed([level.node_label for level in topology.levels])
            levels = zip(topology.levels, labels, strict=True)
            turned[name] = Topology(name, tuple(Level(level.name, label) for level, label in levels))
        self.now = replace(self.now, topologies=turned)

    def _change_node(self, name: NodeName, index: int, what: str) -> None:
        nodes = dict(self.now.nodes)
        if what == "leaves":
            nodes.pop(name, None)
        elif name not in nodes:
            nodes[name] = scenario().snapshot().nodes[name]
        else:
            nodes[name] = self._changed(nodes[name], index, what)
        self.now = replace(self.now, nodes=nodes)

    def _changed(self, state: NodeState, index: int, what: str) -> NodeState:
        node = state.node
        taint = Taint("old", "PreferNoSchedule" if index % 2 else "NoExecute")
        changed: dict[str, Node] = {
            "tainted": replace(node, taints=() if node.taints else (taint,)),
            "cordoned": replace(node, unschedulable=not node.unschedulable),
            "moved": replace(node, labels={**node.labels, "test/rack": f"r{(index + 1) % 3}"}),
        }
        if what in changed:
            return replace(state, node=changed[what])
        used: Resources = add(state.used, {GPU: 1, CPU: 1500})
        return NodeState(node=node, used=used, free=subtract(node.allocatable, used))


def put_one(session: Session, index: int) -> None:
    """Place a pod on this node if it fits; on every fourth node, roll back."""
    gang: Gang = session.gangs[GangId("gang-put")]
    node = NodeName(f"n{index:02}-0")
    placed = len(session.assigned_nodes(gang))
    if node in session.nodes and fits(gang.members[0].shape.requests, session.free(node)):
        with session.statement() as statement:
            assignments = [(node, [gang.members[placed]])]
            statement.place(gang=gang, assignments=assignments, cause="start", certificate=PROOF)
            if index % 4 == 0:
                statement.roll_back()


CHANGES = st.tuples(
    st.integers(0, NODES - 1),
    st.sampled_from(["leaves", "tainted", "cordoned", "moved", "failed", "reversed", "used", "used", "used"]),
)


@holds(25)
@given(
    st.lists(
        st.tuples(
            st.lists(CHANGES, max_size=3),
            st.lists(st.integers(0, NODES - 1), max_size=3),
            st.sets(st.sampled_from(WAITING)),
        )
    )
)
def test_a_table_does_not_depend_on_earlier_sessions(
    cycles: list[tuple[list[Change], list[int], set[str]]],
) -> None:
    cluster, kept, between = Cluster(), ClassTableCache(), SessionCache()
    for changes, puts, late in cycles:
        for index, what in changes:
            cluster.change(index, what)
        session = Session(cluster.now, SchedulerConfig(), cache=between)
        keeping, fresh = ProblemBuilder(session, kept=kept), ProblemBuilder(session)
        for number, index in enumerate((None, *puts)):
            if index is not None:
                put_one(session, index)
            for each in WAITING if number == len(puts) else [name for name in WAITING if name not in late]:
                wanted = demand(session, each)
                assert keeping.build_problem(wanted) == fresh.build_problem(wanted)
        keeping.give_back()


def class_spec(session: Session, name: str) -> NodeClassSpec:
    batches = demand(session, name).batches
    gang = session.gangs[GangId(f"gang-{name}")]
    pods = tuple(batch.pods[0] for batch in batches)
    return NodeClassSpec(pods=pods, at_most=(1,) * len(pods), constraints=constraints_of(session, gang))


def taken(kept: ClassTableCache, session: Session, seen: NodeClassSpec) -> ClassTable:
    order = NodeOrders(session).order(seen.ties, seen.constraints.topology, seen.pods)
    return kept.take(session, seen, order)


def test_a_table_has_one_user_and_the_cache_is_bounded() -> None:
    kept, session = ClassTableCache(kept=2), Session(Cluster().now, SchedulerConfig())
    one, many, two = (class_spec(session, each) for each in ("one", "many", "two"))
    first = taken(kept, session, one)
    assert taken(kept, session, one) is not first
    kept.give_back(one, first)
    assert taken(kept, session, one) is first
    for seen in (one, many, two):
        kept.give_back(seen, taken(kept, session, seen))
    assert taken(kept, session, one) is not first


def test_a_returned_table_keeps_no_session_alive() -> None:
    kept, session = ClassTableCache(), Session(Cluster().now, SchedulerConfig())
    problems = ProblemBuilder(session, kept=kept)
    problems.build_problem(demand(session, "racked"))
    problems.give_back()
    gone = weakref.ref(session)
    del session, problems
    gc.collect()
    assert gone() is None


def test_orders_that_depend_on_other_nodes_are_not_cached() -> None:
    session = Session(scenario().snapshot(), SchedulerConfig())
    seen = class_spec(session, "one")
    assert is_cacheable(session, seen)
    assert not is_cacheable(session, replace(seen, ties=Objective.SPREAD))


@st.composite
def gangs_that_concern_each_other(draw: st.DrawFn) -> Scenario:
    """Gangs whose placement changes for the others which nodes are eligible and what they cost."""
    made = Scenario("zone", "rack")
    for index in range(6):
        made.nodes(f"n{index}", cpu=draw(st.integers(1, 3)), within=f"z{index % 2}/r{index // 2}")
    keys = st.sampled_from(("kubernetes.io/hostname", "test/zone", "test/rack"))
    terms = st.builds(term, keys, app=st.sampled_from("xy"))
    weighted = st.tuples(st.sampled_from((10, -10, -30)), terms)
    kinds = draw(
        st.lists(
            st.tuples(st.sampled_from("xy"), st.lists(weighted, max_size=2), st.lists(terms, max_size=1)),
            min_size=1,
            max_size=2,
        )
    )
    for number in range(draw(st.integers(2, 6))):
        app, prefers, apart = draw(st.sampled_from(kinds))
        count = draw(st.sampled_from((1, 1, 2)))
        made.gang(f"g{number}", count, labels={"app": app}, attracted=prefers, apart=apart)
    return made


@holds(30)
@given(gangs_that_concern_each_other())
def test_a_refreshed_table_decides_as_a_new_one(made: Scenario) -> None:
    refreshed = made.decide().result
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem_builder, "is_refreshable", lambda *_: False)
        new = made.decide().result
    assert refreshed.placements == new.placements
    assert refreshed.verdicts == new.verdicts
