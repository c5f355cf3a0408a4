"""Plays about evictions: which victims, for which gang, and what happens to the freed capacity."""

from typing import Any

from msgspec.structs import replace
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.retry import EVICTION_CHECK_MS, RetryConfig
from phalanx.model.api.pod_groups import PlacedStatus, RecordStatus
from phalanx.model.decisions import CycleResult

from tests.bugbank.worlds import GPU, CycleRunner, assignments
from tests.model import written

NOMINATION_MS = RetryConfig().nomination_ms
_GROUP = written.label("pod-group")
_QUEUE = written.label("queue")
_HIGH = 9
_LONG_AGO = "2026-01-01T00:00:00Z"


def _pod(name: str, *, on: str = "", gpus: int = 8, **rest: Any) -> Any:
    """A pod of the controller `name`; it runs if `on` names a node."""
    where = {"nodeName": on} if on else {}
    status = {"phase": "Running", "startTime": _LONG_AGO} if on else {"phase": "Pending"}
    return written.pod(name, owner=name, requests={GPU: gpus}, status=status, **where, **rest)


def _leaving(name: str, *, on: str) -> Any:
    """A running pod that is being deleted."""
    meta = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 30}
    return _pod(name, on=on, meta=meta)


def _unready(name: str) -> Any:
    status = {
        "allocatable": {"cpu": "8", "memory": "64Gi", GPU: "8", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2027-01-15T08:00:00Z"}],
    }
    return written.node(name, status=status)


def _evicted(result: CycleResult) -> list[str]:
    return sorted(each.name for each in result.evictions)


def gangs_of_equal_priority_do_not_evict_each_other() -> str | None:
    """One GPU node, one running and one waiting pod of the same priority."""
    runner = CycleRunner(written.node("n0"), _pod("runs", on="n0", priority=5), _pod("waits", priority=5))
    gone = _evicted(runner.cycle())
    return f"evicted are {gone}" if gone else None


def preemption_policy_never_evicts_no_pod() -> str | None:
    """The pod is of higher priority, and its policy is Never."""
    never = _pod("never", priority=_HIGH, preemptionPolicy="Never")
    gone = _evicted(CycleRunner(written.node("n0"), _pod("runs", on="n0"), never).cycle())
    return f"evicted are {gone}" if gone else None


def a_finishing_gang_is_not_evicted() -> str | None:
    """One of its two members has succeeded a minute ago."""
    labels = {_GROUP: "g"}
    ended = {"exitCode": 0, "finishedAt": "2027-01-15T07:59:00Z"}
    status = {
        "phase": "Succeeded",
        "startTime": "2027-01-15T07:00:00Z",
        "containerStatuses": [{"name": "main", "state": {"terminated": ended}}],
    }
    done = written.pod("done", labels=labels, requests={GPU: 8}, nodeName="n0", status=status)
    last = _pod("last", on="n0", labels=labels)
    group = written.pod_group("g", minMember=2)
    placed = (PlacedStatus(requests={GPU: "8"}, bound=2),)
    group = replace(group, status=replace(group.status, record=RecordStatus(placed=placed)))
    runner = CycleRunner(written.node("n0"), group, done, last)
    runner.put(_pod("high", priority=_HIGH))
    gone = _evicted(runner.cycle())
    return f"evicted are {gone}" if gone else None


def a_gang_is_evicted_completely() -> str | None:
    """It needs both of its members; another pod needs the capacity of one."""
    labels = {_GROUP: "g"}
    members = [_pod(f"m{n}", on=f"n{n}", labels=labels) for n in range(2)]
    nodes = [written.node(f"n{n}") for n in range(2)]
    runner = CycleRunner(*nodes, written.pod_group("g", minMember=2), *members, _pod("high", priority=_HIGH))
    gone = _evicted(runner.cycle())
    return None if gone in (["m0", "m1"], []) else f"evicted are {gone}"


def a_budget_protects_from_eviction() -> str | None:
    """The budget allows no disruption."""
    gone = _evicted(_guarded(allowed=0).cycle())
    return f"evicted are {gone}" if gone else None


def an_uncounted_deletion_reduces_the_budget() -> str | None:
    """The budget allowed one disruption when another of its pods was deleted, a moment ago."""
    runner = _guarded(allowed=1)
    going = written.pod(
        "going",
        labels={"app": "x"},
        requests={GPU: 0},
        nodeName="n0",
        status={"phase": "Running"},
        meta={"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 0},
    )
    runner.put(going)
    gone = _evicted(runner.cycle())
    return f"evicted are {gone}" if gone else None


def _guarded(*, allowed: int) -> CycleRunner:
    spec = {"selector": {"matchLabels": {"app": "x"}}}
    budget = written.named(
        "PodDisruptionBudget", "b", namespace="team", spec=spec, status={"disruptionsAllowed": allowed}
    )
    runs = _pod("runs", on="n0", labels={"app": "x"})
    hard = PluginConfig("disruption-budgets", arguments={"enforcement": "hard"})
    waits = _pod("high", priority=_HIGH)
    return CycleRunner(written.node("n0"), runs, budget, waits, config=SchedulerConfig(plugins=(hard,)))


def a_terminating_pod_is_not_evicted_again() -> str | None:
    """Its grace period is longer than the time after which evictions are checked."""
    runner = _one_of_two_is_leaving()
    runner.now += EVICTION_CHECK_MS
    more = _evicted_in_three(runner)
    return f"evicted are {more}" if more else None


def a_nomination_ends_when_its_node_is_lost() -> str | None:
    """The kubelet that should end the victim sends no more heartbeats."""
    runner = _one_of_two_is_leaving()
    runner.put(_unready("n0"))
    more = _evicted_in_three(runner)
    return None if more == ["low1"] else f"evicted are {more}"


def a_nomination_expires() -> str | None:
    """The victim does not end within the time that a nomination allows after the grace period."""
    runner = _one_of_two_is_leaving()
    runner.cycle()
    runner.now += NOMINATION_MS + 30_000
    more = _evicted_in_three(runner)
    return None if more == ["low1"] else f"evicted are {more}"


def _one_of_two_is_leaving() -> CycleRunner:
    """Two nodes, each full with one pod; the first is being freed for a pod of higher priority."""
    nodes = [written.node(f"n{n}") for n in range(2)]
    lows = [_pod(f"low{n}", on=f"n{n}") for n in range(2)]
    runner = CycleRunner(*nodes, *lows, _pod("high", priority=_HIGH))
    gone = _evicted(runner.cycle())
    assert gone == ["low0"], gone
    runner.put(_leaving("low0", on="n0"))
    return runner


def _evicted_in_three(runner: CycleRunner) -> list[str]:
    return [name for _ in range(3) for name in _evicted(runner.cycle())]


def freed_capacity_is_held_for_the_beneficiary() -> str | None:
    """One of two victims has ended; a new pod that fits there has to wait."""
    labels = {_GROUP: "g"}
    nodes = [written.node(f"n{n}") for n in range(2)]
    lows = [_pod(f"low{n}", on=f"n{n}") for n in range(2)]
    gang = [_pod(f"m{n}", labels=labels, priority=_HIGH) for n in range(2)]
    runner = CycleRunner(*nodes, *lows, written.pod_group("g", minMember=2), *gang)
    gone = _evicted(runner.cycle())
    runner.gone(lows[0])
    runner.put(
        _leaving("low1", on="n1"),
        _pod("passer-by", labels={_QUEUE: "other"}),
        written.named("Queue", "other"),
    )
    placed = assignments(runner.cycle())
    return f"evicted were {gone}, placed is {placed}" if placed or gone != ["low0", "low1"] else None


def a_guarantee_is_kept() -> str | None:
    """The pod can use only the node whose pod the guarantee of the other queue covers, the first one. No pod
    can be moved."""
    amounts = {"a": 16, "b": 8}
    queues = [written.named("Queue", name, spec={"guarantee": {GPU: amounts[name]}}) for name in amounts]
    nodes = [written.node(f"n{n}", labels={"kubernetes.io/hostname": f"n{n}"}) for n in range(3)]
    only = [{"kubernetes.io/hostname": f"n{n}"} for n in range(3)]
    runs = [_pod(f"a{n}", on=f"n{n}", labels={_QUEUE: "a"}, nodeSelector=only[n]) for n in range(3)]
    waits = _pod("b0", labels={_QUEUE: "b"}, nodeSelector=only[0])
    gone = _evicted(CycleRunner(*nodes, *queues, *runs, waits).cycle())
    return f"evicted are {gone}" if gone else None


def borrowed_capacity_is_reclaimed() -> str | None:
    """One queue uses the guarantee of the other, which has a waiting gang."""
    queues = [written.named("Queue", name, spec={"guarantee": {GPU: 8}}) for name in ("a", "b")]
    nodes = [written.node(f"n{n}") for n in range(2)]
    runs = [_pod(f"a{n}", on=f"n{n}", labels={_QUEUE: "a"}) for n in range(2)]
    gone = _evicted(CycleRunner(*nodes, *queues, *runs, _pod("b0", labels={_QUEUE: "b"})).cycle())
    return None if len(gone) == 1 else f"evicted are {gone}"


def a_start_is_given_up_before_an_eviction() -> str | None:
    """The queue starts the older pod first; the pod of higher priority then needs as much as it got."""
    queue = written.named("Queue", "q", spec={"ordering": "StrictFIFO"})
    pods = [_pod("runs", on="n0", gpus=4, labels={_QUEUE: "q"}), _pod("older", gpus=4, labels={_QUEUE: "q"})]
    urgent = _pod("urgent", gpus=4, labels={_QUEUE: "q"}, priority=_HIGH)
    gone = _evicted(CycleRunner(written.node("n0"), queue, *pods, urgent).cycle())
    return f"evicted are {gone}" if gone else None
