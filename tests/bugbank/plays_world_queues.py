"""Plays about queues: limits, ledgers, the order of gangs, and when refused gangs are tried again."""

import asyncio
from typing import Any

from phalanx.actions.explanations import explainer as explanations
from phalanx_simulator.embedded.manifests import gang, node, pod, pod_group, queue
from phalanx_simulator.embedded.store import Key
from phalanx_simulator.faults.edits import delete, put_condition
from phalanx_simulator.runs.world import World

from tests.bugbank.worlds import FULL, GPU, CycleRunner, assignments, at_rest, opened, watched
from tests.model import written

QUEUES = "queues.scheduling.phalanx.dev"
IN_QUEUE = written.label("queue")


def _queue(name: str, **spec: Any) -> Any:
    return written.named("Queue", name, spec=spec)


def _nodes(count: int = 3) -> list[Any]:
    return [written.node(f"n{n}") for n in range(count)]


def _pod(name: str, into: str, gpus: int = 8, **rest: Any) -> Any:
    return written.pod(name, labels={IN_QUEUE: into}, requests={GPU: gpus}, **rest)


def running_pods_count_against_limits() -> str | None:
    """The limit is used by a running pod."""
    runner = CycleRunner(
        *_nodes(), _queue("q", limit={GPU: 8}), _pod("a", "q", nodeName="n0"), _pod("b", "q")
    )
    return "the limit is exceeded" if assignments(runner.cycle()) else None


def a_parent_limits_all_its_children() -> str | None:
    """Two queues below a queue with a limit of eight GPUs."""
    queues = [_queue("root", limit={GPU: 8}), _queue("q1", parent="root"), _queue("q2", parent="root")]
    runner = CycleRunner(*_nodes(), *queues, _pod("a", "q1"), _pod("b", "q2"))
    placed = assignments(runner.cycle())
    return None if len(placed) == 1 else f"placed are {placed}"


def a_limit_is_used_up_to_its_end() -> str | None:
    """A limit of sixteen GPUs fits two pods of eight, in one cycle."""
    runner = CycleRunner(
        *_nodes(), _queue("q", limit={GPU: 16}), _pod("a", "q"), _pod("b", "q"), _pod("c", "q")
    )
    placed = assignments(runner.cycle())
    return None if len(placed) == 2 else f"placed are {placed}"


def surplus_uses_a_limit_up_to_its_end() -> str | None:
    """A limit of sixteen GPUs fits the one pod that a gang needs and a surplus pod."""
    labels = {written.label("pod-group"): "g"}
    pods = [written.pod(name, labels=labels, requests={GPU: 8}) for name in ("a", "b", "c")]
    group = written.pod_group("g", minMember=1, queue="q")
    placed = assignments(CycleRunner(*_nodes(), _queue("q", limit={GPU: 16}), group, *pods).cycle())
    return None if len(placed) == 2 else f"placed are {placed}"


def overlapping_flavors_both_count() -> str | None:
    """A node belongs to two flavors: pods that run there count in both."""
    nodes = [
        written.node("both", labels={"size": "large", "age": "new"}),
        written.node("old", labels={"size": "large", "age": "old"}),
    ]
    flavors = [
        {"name": "large", "nodeSelector": {"size": "large"}, "limit": {GPU: 4}},
        {"name": "new", "nodeSelector": {"age": "new"}, "limit": {GPU: 16}},
    ]
    running = _pod("a", "q", gpus=4, nodeName="both")
    late = _pod("b", "q", gpus=4, nodeSelector={"size": "large"})
    runner = CycleRunner(*nodes, _queue("q", flavors=flavors), running, late)
    return "the limit of a flavor is exceeded" if assignments(runner.cycle()) else None


def a_queue_with_gangs_is_deleted() -> str | None:
    """Its gangs wait for a queue; gangs of other queues are not affected."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"), queue("q"))
        world.create([pod_group("g", min_member=2, queue="q"), *gang("g", {"w": 2}, requests=FULL)])
        await asyncio.sleep(5.0)
        delete(world.client, Key(QUEUES, "", "q"))
        await asyncio.sleep(2.0)
        world.create([pod("p")])
        await at_rest(world)
        return None

    return watched(act)


def cyclic_queues_accept_no_gangs() -> str | None:
    """Their gangs wait, and the verdicts name the cycle."""
    runner = CycleRunner(
        *_nodes(), _queue("q1", parent="q2"), _queue("q2", parent="q1"), _queue("q3", parent="q2")
    )
    runner.put(_pod("p", "q3"))
    return "a gang of a circle of queues is placed" if assignments(runner.cycle()) else None


def higher_priority_and_older_gangs_are_first() -> str | None:
    """One node, and four pods that need it."""
    pods = [
        written.pod(name, meta=_born(day), requests={GPU: 8}, priority=100 if name in "cd" else 0)
        for day, name in enumerate("abcd", 1)
    ]
    placed = assignments(CycleRunner(written.node("n"), *pods).cycle())
    return None if list(placed) == ["c"] else f"placed are {placed}"


def a_priority_class_gets_another_value() -> str | None:
    """Gangs of this class are placed first from then on."""
    key = written.label("pod-group")
    groups = [written.pod_group(name, priorityClassName=name) for name in ("low", "high")]
    classes = {name: written.named("PriorityClass", name, value=value) for name, value in _VALUES.items()}
    pods = [written.pod(name, labels={key: name}, requests={GPU: 8}) for name in ("low", "high")]
    trusted = _queue("default", maxPodGroupPriority=1000)
    runner = CycleRunner(trusted, *classes.values(), *groups, *pods)
    runner.cycle()
    runner.put(written.named("PriorityClass", "low", value=1000), written.node("n"))
    placed = assignments(runner.cycle())
    return None if list(placed) == ["low"] else f"placed are {placed}"


_VALUES = {"low": 1, "high": 10}


def a_large_gang_does_not_block_small_ones() -> str | None:
    """The first gang in the queue does not fit; the others do."""
    key = written.label("pod-group")
    large = [written.pod(f"l{n}", labels={key: "g"}, requests={GPU: 8}, priority=9) for n in range(3)]
    runner = CycleRunner(*_nodes(2), written.pod_group("g", minMember=3), *large)
    runner.put(written.pod("small", requests={GPU: 1}))
    return None if assignments(runner.cycle()) else "no gang is placed after a gang that does not fit"


def a_refusal_is_not_solved_again() -> str | None:
    """Nothing has changed: no problem is solved again, and nothing explained."""
    holder = written.pod("foreign", requests={GPU: 8}, nodeName="n", schedulerName="other")
    runner = CycleRunner(written.node("n"), holder, written.pod("p", requests={GPU: 8}))
    runner.cycle()
    calls = 0

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return before(*arguments, **named)

    before, explanations.explain = explanations.explain, counted  # type: ignore[attr-defined]
    try:
        result = runner.cycle()
    finally:
        explanations.explain = before  # type: ignore[attr-defined]
    if calls:
        return "the refusal is explained again in every cycle"
    return f"solved again: {dict(result.stats.solves)}" if result.stats.solves else None


def heartbeats_trigger_no_cycles() -> str | None:
    """A pod waits forever; nodes send a heartbeat each second. The pod is tried once."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"), node("n1"))
        world.create([pod("p", requests={GPU: "9"})])
        await asyncio.sleep(10.0)
        before = world.log.cycles
        for _ in range(45):
            for name in ("n0", "n1"):
                put_condition(world.client, name, type_="Ready", status="True", reason="Alive", message="")
            await asyncio.sleep(1.0)
        more = world.log.cycles - before
        return f"{more} cycles for 45 heartbeats of each node" if more > _CYCLES_IN_VAIN else None

    return watched(act)


_CYCLES_IN_VAIN = 2


def a_waiting_gang_triggers_no_cycles() -> str | None:
    """A gang waits for capacity for minutes, and triggers no cycle."""

    async def act(world: World) -> str | None:
        await opened(world, node("n0"), pod("foreign", scheduler="other", requests=FULL, nodeName="n0"))
        world.create([pod("p", requests=FULL)])
        await at_rest(world, 120.0)
        return None

    return watched(act)


def own_conditions_trigger_no_cycles() -> str | None:
    """The condition that the scheduler writes to a pod is received as a watch event."""
    runner = CycleRunner(written.node("n"), written.pod("p", requests={GPU: 9}))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    said = written.pod("p", requests={GPU: 9}, status={"conditions": [condition]})
    return "the scheduler's own condition triggers a cycle" if runner.put(said).may_unblock else None


def a_namespace_becomes_selected() -> str | None:
    """A queue selects namespaces by a label; the gang's namespace gets it after the gang was refused."""
    chosen = _queue("q", namespaceSelector={"matchLabels": {"team": "a"}})
    runner = CycleRunner(*_nodes(), chosen, written.named("Namespace", "team"), _pod("p", "q"))
    if assignments(runner.cycle()):
        return "a queue accepts a gang of a namespace that it does not select"
    if not runner.put(written.named("Namespace", "team", labels={"team": "a"})).may_unblock:
        return "a namespace that becomes selected triggers no cycle"
    return None if assignments(runner.cycle()) else "a gang waits although its namespace is selected"


def a_parent_queue_selects_no_namespace() -> str | None:
    """The queue selects all namespaces, its parent does not."""
    above = _queue("root", namespaceSelector={"matchLabels": {"team": "a"}})
    runner = CycleRunner(*_nodes(), above, _queue("q", parent="root"), written.named("Namespace", "team"))
    runner.put(_pod("p", "q"))
    return "a queue accepts a gang that its parent does not" if assignments(runner.cycle()) else None


def queues_take_turns() -> str | None:
    """One queue has two old pods, the other a new one; there are two nodes.

    No pod preempts: otherwise the second start of the first queue would be given up for the new pod.
    """
    pods = [
        _pod(name, into, meta=_born(day), preemptionPolicy="Never")
        for day, (name, into) in enumerate((("a", "q1"), ("b", "q1"), ("c", "q2")), 1)
    ]
    runner = CycleRunner(*_nodes(2), _queue("q1"), _queue("q2"), *pods)
    placed = sorted(assignments(runner.cycle()))
    return None if placed == ["a", "c"] else f"placed are {placed}"


def _born(day: int) -> dict[str, Any]:
    return {"creationTimestamp": f"2026-01-0{day}T00:00:00Z"}


def surplus_is_placed_after_the_minimum_of_others() -> str | None:
    """A queue of high weight has a gang with surplus; in another queue a gang needs four GPUs to start."""
    key = written.label("pod-group")
    full = _pod("full", "q2", nodeName="n1")
    grows = [written.pod(f"a{n}", labels={key: "a"}, requests={GPU: 1}) for n in range(8)]
    starts = [written.pod(f"b{n}", labels={key: "b"}, requests={GPU: 1}) for n in range(4)]
    groups = [
        written.pod_group("a", minMember=1, queue="q1"),
        written.pod_group("b", minMember=4, queue="q2"),
    ]
    runner = CycleRunner(*_nodes(2), _queue("q1", weight=100), _queue("q2"), full, *groups, *grows, *starts)
    placed = assignments(runner.cycle())
    return None if {"b0", "b1", "b2", "b3"} <= placed.keys() else f"placed are {sorted(placed)}"


def gated_pods_are_not_bound() -> str | None:
    """A gang can start with one pod; one of its two pods has a scheduling gate."""
    key = written.label("pod-group")
    gated = written.pod("gated", labels={key: "g"}, requests={GPU: 1}, schedulingGates=[{"name": "wait"}])
    runner = CycleRunner(*_nodes(), written.pod_group("g"), gated)
    runner.put(written.pod("ready", labels={key: "g"}, requests={GPU: 1}))
    placed = sorted(assignments(runner.cycle()))
    return None if placed == ["ready"] else f"placed are {placed}"


def a_claim_is_observed_later_than_its_pod() -> str | None:
    """The pod waits until its PersistentVolumeClaim is in the cache."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    runner = CycleRunner(*_nodes(), written.pod("p", requests={GPU: 1}, volumes=volumes))
    return "a pod is placed before its claim is known" if assignments(runner.cycle()) else None
