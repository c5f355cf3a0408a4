"""Facts behind a verdict: which nodes are out and why, and what is needed beside what is free."""

from collections import Counter

from phalanx.actions import words
from phalanx.actions.demand import Batch, Demand
from phalanx.framework.session import Session
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.model.reasons import Evidence
from phalanx.model.resources import PODS, Resources
from phalanx.model.shares import asks_for_share, free_devices, left_of_devices, size_on


def nowhere_eligible(demand: Demand, session: Session) -> Batch | None:
    """The first batch whose pods may run on no node at all."""
    for batch in demand.batches:
        if len(session.eligibility(batch.pods[0]).rejected) == len(session.nodes):
            return batch
    return None


def of_nodes(demand: Demand, session: Session) -> tuple[Evidence, ...]:
    """Per batch, the nodes that are out, grouped by reason with counts; those that are too full come last."""
    found: list[Evidence] = []
    for batch in demand.batches:
        subject = "nodes" if len(demand.batches) == 1 else f"nodes for {batch.name}"
        rejected = session.eligibility(batch.pods[0]).count_by_reason()
        full = sorted(_too_full(batch, session).items(), key=lambda item: (-item[1], item[0]))
        for finding, count in (*rejected, *full):
            found.append(Evidence(subject=subject, finding=finding, count=count))
    return tuple(found)


def of_amounts(demand: Demand, session: Session) -> tuple[Evidence, ...]:
    """Per resource, what the demand needs and what is free on the nodes that it may use."""
    free = free_amounts(demand, session)
    return tuple(
        Evidence(
            subject=name,
            finding=f"{words.amount(name, needed)} needed, {words.amount(name, free.get(name, 0))} free",
        )
        for name, needed in sorted(words.need(demand).items())
        if needed > 0 and name != PODS
    )


def shortages(demand: Demand, free: Resources) -> Resources:
    """Per resource of which less is free than needed, how much is missing."""
    needed = words.need(demand)
    return {name: number - free.get(name, 0) for name, number in needed.items() if number > free.get(name, 0)}


def free_amounts(demand: Demand, session: Session) -> Resources:
    """What is free on all nodes that some batch may use."""
    total: dict[str, int] = {}
    sharing = any(asks_for_share(batch.pods[0].shape.requests) for batch in demand.batches)
    for node in _eligible_nodes(demand, session):
        free = session.free(node)
        if sharing:
            free = {**free, **left_of_devices(session.nodes[node], free)}
        for name, amount in free.items():
            total[name] = total.get(name, 0) + max(0, amount)
    return total


def largest_amounts(demand: Demand, session: Session) -> Resources:
    """Per resource, the most that one node which some batch may use can allocate."""
    largest: dict[str, int] = {}
    for node in _eligible_nodes(demand, session):
        for name, amount in session.nodes[node].node.allocatable.items():
            largest[name] = max(largest.get(name, 0), amount)
    return largest


def _eligible_nodes(demand: Demand, session: Session) -> list[NodeName]:
    judged = [session.eligibility(batch.pods[0]) for batch in demand.batches]
    return [node for node in session.nodes if any(node not in each.rejected for each in judged)]


def _too_full(batch: Batch, session: Session) -> Counter[str]:
    """Nodes on which not one more pod of the batch fits, by the first resource that is short there."""
    pod = batch.pods[0]
    rejected = session.eligibility(pod).rejected
    counts: Counter[str] = Counter()
    for node in session.nodes:
        if node not in rejected:
            free = session.free(node)
            short = [name for name, need in pod.shape.requests.items() if 0 < need > free.get(name, 0)]
            if asks_for_share(pod.shape.requests) and not _has_device(pod, session, node):
                counts[f"no GPU with {words.share(pod.shape.requests)} left"] += 1
            elif short:
                counts[f"too little {min(short, key=dominance)} free"] += 1
    return counts


def _has_device(pod: Pod, session: Session, node: NodeName) -> bool:
    state = session.nodes[node]
    size = size_on(pod.shape.requests, state.node.allocatable)
    return any(amount >= size for amount in free_devices(state, session.free(node)))


def dominance(resource: str) -> tuple[bool, str]:
    """Devices are told before cores and memory."""
    return ("/" not in resource, resource)
