"""Checks of the observed history as plain functions: each returns descriptions of what is wrong."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from msgspec import Struct

from tests.e2e.audit_log import BindRequest
from tests.e2e.pod_history import FINISHED, Pod, Seen

SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{sign: Fraction(1000 ** (power + 1)) for power, sign in enumerate("kMGTP")},
    **{f"{sign}i": Fraction(1024 ** (power + 1)) for power, sign in enumerate("KMGTP")},
}

Amounts = dict[str, Fraction]


def amount(text: str) -> Fraction:
    """Parse a quantity in the forms that the tests use."""
    number = text.rstrip("kmKMGTPi")
    return Fraction(number) * SUFFIXES[text[len(number) :]]


def demand(pod: Pod) -> Amounts:
    """What a pod with plain containers uses of its node: the sum of its requests, and one pod."""
    total: Amounts = {"pods": Fraction(1)}
    for container in pod.spec.containers:
        for resource, text in container.resources.requests.items():
            total[resource] = total.get(resource, Fraction(0)) + amount(text)
    return total


def allocatable(nodes: Iterable[Mapping[str, Any]]) -> dict[str, Amounts]:
    """The allocatable amounts of each node."""
    return {
        node["metadata"]["name"]: {r: amount(text) for r, text in node["status"]["allocatable"].items()}
        for node in nodes
    }


def overcommitted(capacity: Mapping[str, Amounts], pods: Iterable[Pod]) -> list[str]:
    """Nodes whose unfinished pods request more than is allocatable. KWOK does not check that."""
    asked: dict[str, Amounts] = defaultdict(dict)
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in FINISHED:
            _add(asked[pod.spec.node_name], demand(pod))
    return [
        f"{node}: {float(used)} of {float(capacity[node].get(resource, 0))} {resource}"
        for node, amounts in sorted(asked.items())
        for resource, used in sorted(amounts.items())
        if used > capacity[node].get(resource, 0)
    ]


def _add(total: Amounts, more: Amounts) -> None:
    for resource, value in more.items():
        total[resource] = total.get(resource, Fraction(0)) + value


def bound_twice(events: Iterable[Seen], requests: Iterable[BindRequest]) -> list[str]:
    """Pods that were observed on two nodes, or for which the API server accepted two binds."""
    nodes: dict[str, set[str]] = defaultdict(set)
    for seen in events:
        if seen.pod.spec.node_name:
            nodes[seen.pod.metadata.uid].add(seen.pod.spec.node_name)
    accepted = Counter(each.pod for each in requests if each.accepted)
    moved = [f"{uid} was on {sorted(names)}" for uid, names in nodes.items() if len(names) > 1]
    return moved + [f"{pod} was bound {times} times" for pod, times in accepted.items() if times > 1]


class Span(Struct, frozen=True):
    """The time in which a gang was partial: from its first bind to the one that completed it.

    `others`: binds of other gangs in between. `together`: number of gangs, itself included, that were partial
    at its first or its last bind, whichever is larger.
    """

    gang: str
    seconds: float
    others: int
    together: int


def spans(events: Iterable[Seen], *, sizes: Mapping[str, int]) -> list[Span]:
    """One span for each gang that became complete, in the order of completion. `sizes`: members by gang."""
    placed: dict[str, set[str]] = {gang: set() for gang in sizes}
    first: dict[str, tuple[float, int, int]] = {}
    done: list[Span] = []
    binds = 0
    for seen in events:
        uid, gang = seen.pod.metadata.uid, seen.pod.gang
        if gang not in sizes or not seen.pod.spec.node_name or uid in placed[gang]:
            continue
        placed[gang].add(uid)
        binds += 1
        first.setdefault(gang, (seen.at, binds, len(first) + 1))
        if len(placed[gang]) == sizes[gang]:
            together = max(first[gang][2], len(first))
            began, number, _ = first.pop(gang)
            done.append(Span(gang, seen.at - began, binds - number + 1 - sizes[gang], together))
    return done


def partial(pods: Iterable[Pod], *, sizes: Mapping[str, int]) -> list[str]:
    """Gangs of which some members have a node and some have none."""
    placed = Counter(pod.gang for pod in pods if pod.spec.node_name)
    return [f"{gang}: {placed[gang]} of {size}" for gang, size in sizes.items() if 0 < placed[gang] < size]


class BindCheck(Struct, frozen=True):
    """Binds of ours that did not fit beside what had been committed before them.

    `excused`: because of foreign binds that the scheduler had not observed when it sent its own.
    `unexcused`: they would not have fitted without those either.
    """

    excused: tuple[str, ...]
    unexcused: tuple[str, ...]


def check_binds(
    capacity: Mapping[str, Amounts], bound: Iterable[Seen], *, ours: str, knew: Mapping[str, int]
) -> BindCheck:
    """Check whether each bind of the scheduler named `ours` fitted into the node's capacity as it was known.

    `bound`: the event of each pod's bind, in the order of commits; no pod may have ended. `knew`: the
    resourceVersion up to which the scheduler had observed all pods when it sent its bind of this pod.
    """
    on_node: dict[str, list[Pod]] = defaultdict(list)
    excused: list[str] = []
    unexcused: list[str] = []
    for pod in (seen.pod for seen in bound):
        on_node[pod.spec.node_name].append(pod)
        if pod.spec.scheduler_name != ours:
            continue
        there = on_node[pod.spec.node_name]
        known = [each for each in there if each.spec.scheduler_name == ours or each.version <= knew[pod.key]]
        if overcommitted(capacity, known):
            unexcused.append(f"{pod.key} on {pod.spec.node_name}")
        elif overcommitted(capacity, there):
            excused.append(f"{pod.key} on {pod.spec.node_name}")
    return BindCheck(tuple(excused), tuple(unexcused))


def ever_overcommitted(capacity: Mapping[str, Amounts], events: Iterable[Seen]) -> list[str]:
    """Nodes that were overcommitted after some event, even if they no longer are."""
    active: dict[str, dict[str, Pod]] = defaultdict(dict)
    found: dict[str, None] = {}
    for seen in events:
        pod, node = seen.pod, seen.pod.spec.node_name
        if not node:
            continue
        if seen.kind == "DELETED" or pod.status.phase in FINISHED:
            active[node].pop(pod.metadata.uid, None)
        elif pod.metadata.uid not in active[node]:
            active[node][pod.metadata.uid] = pod
            found.update(dict.fromkeys(overcommitted(capacity, active[node].values())))
    return list(found)
