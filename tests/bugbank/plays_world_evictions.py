"""Who is evicted for whom, and who gets the capacity."""

from typing import Any

from phalanx.framework.retry import EVICTION_CHECK_MS, RetryConfig
from phalanx.model.decisions import CycleResult

from tests.bugbank.worlds import GPU, Still, assignments
from tests.model import written

NOMINATION_MS = RetryConfig().nomination_ms
_GROUP = written.label("pod-group")
_QUEUE = written.label("queue")
_HIGH = 9
_LONG_AGO = "2026-01-01T00:00:00Z"


def _pod(name: str, *, on: str = "", gpus: int = 8, **rest: Any) -> Any:
    """Of the controller `name`; it runs where it is `on` a node."""
    where = {"nodeName": on} if on else {}
    status = {"phase": "Running", "startTime": _LONG_AGO} if on else {"phase": "Pending"}
    return written.pod(name, owner=name, requests={GPU: gpus}, status=status, **where, **rest)


def _leaving(name: str, *, on: str) -> Any:
    """A pod that runs and is being deleted."""
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


def equals_do_not_evict_each_other() -> str | None:
    """One GPU node, one that runs and one that waits, of one priority."""
    still = Still(written.node("n0"), _pod("runs", on="n0", priority=5), _pod("waits", priority=5))
    gone = _evicted(still.cycle())
    return f"evicted are {gone}" if gone else None


def who_says_never_evicts_nobody() -> str | None:
    """The pod is of higher priority, and its policy is Never."""
    polite = _pod("polite", priority=_HIGH, preemptionPolicy="Never")
    gone = _evicted(Still(written.node("n0"), _pod("runs", on="n0"), polite).cycle())
    return f"evicted are {gone}" if gone else None


def a_finishing_gang_is_left_alone() -> str | None:
    """One of its two members has succeeded."""
    labels = {_GROUP: "g"}
    done = written.pod("done", labels=labels, requests={GPU: 8}, nodeName="n0", status={"phase": "Succeeded"})
    last = _pod("last", on="n0", labels=labels)
    still = Still(written.node("n0"), written.pod_group("g", minMember=2), done, last)
    still.put(_pod("high", priority=_HIGH))
    gone = _evicted(still.cycle())
    return f"evicted are {gone}" if gone else None


def a_gang_goes_whole() -> str | None:
    """It needs both of its members; the capacity of one of them is asked for."""
    labels = {_GROUP: "g"}
    members = [_pod(f"m{n}", on=f"n{n}", labels=labels) for n in range(2)]
    nodes = [written.node(f"n{n}") for n in range(2)]
    still = Still(*nodes, written.pod_group("g", minMember=2), *members, _pod("high", priority=_HIGH))
    gone = _evicted(still.cycle())
    return None if gone in (["m0", "m1"], []) else f"evicted are {gone}"


def a_budget_protects_from_eviction() -> str | None:
    """It allows no disruption."""
    gone = _evicted(_guarded(allowed=0).cycle())
    return f"evicted are {gone}" if gone else None


def a_deletion_that_a_budget_has_not_counted_counts() -> str | None:
    """It allowed one disruption when another pod of it was deleted, a moment ago."""
    still = _guarded(allowed=1)
    going = written.pod(
        "going",
        labels={"app": "x"},
        requests={GPU: 0},
        nodeName="n0",
        status={"phase": "Running"},
        meta={"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 0},
    )
    still.put(going)
    gone = _evicted(still.cycle())
    return f"evicted are {gone}" if gone else None


def _guarded(*, allowed: int) -> Still:
    spec = {"selector": {"matchLabels": {"app": "x"}}}
    budget = written.named(
        "PodDisruptionBudget", "b", namespace="team", spec=spec, status={"disruptionsAllowed": allowed}
    )
    runs = _pod("runs", on="n0", labels={"app": "x"})
    return Still(written.node("n0"), runs, budget, _pod("high", priority=_HIGH))


def who_leaves_is_not_evicted_again() -> str | None:
    """Its grace period is longer than the time after which evictions are checked."""
    still = _one_of_two_is_leaving()
    still.now += EVICTION_CHECK_MS
    more = _evicted_in_three(still)
    return f"evicted are {more}" if more else None


def capacity_is_looked_for_again_when_its_node_dies() -> str | None:
    """The kubelet that should end the victim is heard no more."""
    still = _one_of_two_is_leaving()
    still.put(_unready("n0"))
    more = _evicted_in_three(still)
    return None if more == ["low1"] else f"evicted are {more}"


def capacity_that_never_comes_is_looked_for_elsewhere() -> str | None:
    """The victim does not end in all the time that one has after its grace period."""
    still = _one_of_two_is_leaving()
    still.cycle()
    still.now += NOMINATION_MS + 30_000
    more = _evicted_in_three(still)
    return None if more == ["low1"] else f"evicted are {more}"


def _one_of_two_is_leaving() -> Still:
    """Of two nodes, each full of one pod, the first is being freed for a more important one."""
    nodes = [written.node(f"n{n}") for n in range(2)]
    lows = [_pod(f"low{n}", on=f"n{n}") for n in range(2)]
    still = Still(*nodes, *lows, _pod("high", priority=_HIGH))
    gone = _evicted(still.cycle())
    assert gone == ["low0"], gone
    still.put(_leaving("low0", on="n0"))
    return still


def _evicted_in_three(still: Still) -> list[str]:
    return [name for _ in range(3) for name in _evicted(still.cycle())]


def what_was_freed_is_not_for_others() -> str | None:
    """Of two victims one has ended; who comes by and fits there waits."""
    labels = {_GROUP: "g"}
    nodes = [written.node(f"n{n}") for n in range(2)]
    lows = [_pod(f"low{n}", on=f"n{n}") for n in range(2)]
    gang = [_pod(f"m{n}", labels=labels, priority=_HIGH) for n in range(2)]
    still = Still(*nodes, *lows, written.pod_group("g", minMember=2), *gang)
    gone = _evicted(still.cycle())
    still.gone(lows[0])
    still.put(
        _leaving("low1", on="n1"),
        _pod("passer-by", labels={_QUEUE: "other"}),
        written.named("Queue", "other"),
    )
    placed = assignments(still.cycle())
    return f"evicted were {gone}, placed is {placed}" if placed or gone != ["low0", "low1"] else None


def a_guarantee_is_kept() -> str | None:
    """The capacity is on two nodes, and with both gone a queue has less than its fair share."""
    queues = [written.named("Queue", name, spec={"guarantee": {GPU: 12}}) for name in ("a", "b")]
    nodes = [written.node(f"n{n}") for n in range(3)]
    runs = [_pod(f"a{n}", on=f"n{n}", labels={_QUEUE: "a"}) for n in range(3)]
    group = written.pod_group("g", minMember=2, queue="b")
    gang = [_pod(f"b{n}", gpus=6, labels={_GROUP: "g"}) for n in range(2)]
    gone = _evicted(Still(*nodes, *queues, *runs, group, *gang).cycle())
    return f"evicted are {gone}" if gone else None


def what_is_borrowed_comes_back() -> str | None:
    """One queue uses the guarantee of the other, which wants it."""
    queues = [written.named("Queue", name, spec={"guarantee": {GPU: 8}}) for name in ("a", "b")]
    nodes = [written.node(f"n{n}") for n in range(2)]
    runs = [_pod(f"a{n}", on=f"n{n}", labels={_QUEUE: "a"}) for n in range(2)]
    gone = _evicted(Still(*nodes, *queues, *runs, _pod("b0", labels={_QUEUE: "b"})).cycle())
    return None if len(gone) == 1 else f"evicted are {gone}"
