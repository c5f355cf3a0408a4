"""Facts behind a verdict: which nodes are out and why, and what is needed beside what is free."""

from collections import Counter
from collections.abc import Collection

from msgspec import Struct

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Batch, Demand, requested
from phalanx.actions.explanations.completions import Completions
from phalanx.actions.nodes.resource_projection import places_left
from phalanx.framework.session import Session
from phalanx.model.gpu_shares import free_devices, free_share, requests_share, share_on_node
from phalanx.model.names import NodeName
from phalanx.model.nodes import TOPOLOGY_UNKNOWN
from phalanx.model.numa import largest_zone_request
from phalanx.model.pods import Pod
from phalanx.model.reasons import NODES, Evidence
from phalanx.model.resources import PODS, Resources, format_amounts, how_many_fit


class Lacking(Struct, frozen=True):
    """So many nodes lack the label of this level, and with it a place in all narrower ones."""

    level: str
    label: str
    count: int

    @property
    def finding(self) -> str:
        """For evidence."""
        return f"in no {self.level}, nor in what lies below it: no label {self.label}"


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
        subject = NODES if len(demand.batches) == 1 else f"{NODES} for {batch.name}"
        rejected = session.eligibility(batch.pods[0]).count_by_reason()
        full = sorted(_too_full(batch, session).items(), key=lambda item: (-item[1], item[0]))
        for finding, count in (*rejected, *full):
            found.append(Evidence(subject=subject, finding=finding, count=count))
    return tuple(found)


def out_of_service(demand: Demand, session: Session, as_available: Session) -> tuple[Evidence, ...]:
    """The nodes that the demand could use if nothing were wrong with them, grouped by what is wrong."""
    wrong: dict[NodeName, str] = {}
    for batch in demand.batches:
        still = as_available.eligibility(batch.pods[0]).rejected
        for node, why in session.eligibility(batch.pods[0]).rejected.items():
            if node not in still:
                wrong.setdefault(node, why)
    gang = demand.gang
    if gang.topology.required or any(part.required for part in gang.subgroups):
        for node, state in session.nodes.items():
            if state.node.has_unknown_topology:
                wrong.setdefault(node, f"condition {TOPOLOGY_UNKNOWN} is True")
    counts = Counter(wrong.values())
    order = sorted(counts, key=lambda why: (-counts[why], why))
    return tuple(Evidence(f"{NODES} out of service", why, counts[why]) for why in order)


def without_label(demand: Demand, session: Session, levels: Collection[str]) -> tuple[Lacking, ...]:
    """The nodes that the demand may use and that lie in no domain of some of these levels, by the label."""
    topology = session.topologies.of(demand.gang)
    if topology is None or not levels:
        return ()
    depth = max(number for number, level in enumerate(topology.levels, start=1) if level.name in levels)
    paths = [session.topologies.path_by_labels(node, topology) for node in eligible_nodes(demand, session)]
    counts = Counter(len(path) for path in paths if path is not None and len(path) < depth)
    return tuple(
        Lacking(topology.levels[place].name, topology.levels[place].node_label, counts[place])
        for place in sorted(counts)
    )


def of_amounts(demand: Demand, free: Resources) -> tuple[Evidence, ...]:
    """Per resource, what the demand needs and what is free on the nodes that it may use."""
    return tuple(
        Evidence(
            subject=name,
            finding=f"{formatting.amount(name, needed)} needed, "
            f"{formatting.amount(name, free.get(name, 0))} free",
        )
        for name, needed in sorted(requested(demand).items())
        if needed > 0 and name != PODS
    )


def of_endings(ending: Completions) -> tuple[Evidence, ...]:
    """What each gang holds whose end would help."""
    return tuple(
        Evidence(subject=each.name, finding=f"its end gives back {formatting.amounts(each.total)}")
        for each in ending
    )


def shortages(demand: Demand, free: Resources) -> Resources:
    """Per resource of which less is free than needed, how much is missing."""
    needed = requested(demand)
    return {name: number - free.get(name, 0) for name, number in needed.items() if number > free.get(name, 0)}


def free_amounts(demand: Demand, session: Session) -> Resources:
    """What is free, of all that the demand needs, on all nodes that some batch may use."""
    total = dict.fromkeys(requested(demand), 0)
    sharing = any(requests_share(batch.pods[0].shape.requests) for batch in demand.batches)
    for node in eligible_nodes(demand, session):
        free = session.free(node)
        if sharing:
            free = {**free, **free_share(session.nodes[node], free)}
        for name in total:
            amount = free.get(name, 0)
            if amount > 0:
                total[name] += amount
    return total


def largest_amounts(demand: Demand, session: Session) -> Resources:
    """Per resource, the most that one node which some batch may use can allocate."""
    largest: dict[str, int] = {}
    for node in eligible_nodes(demand, session):
        for name, amount in session.nodes[node].node.allocatable.items():
            largest[name] = max(largest.get(name, 0), amount)
    return largest


def eligible_nodes(demand: Demand, session: Session) -> list[NodeName]:
    """Nodes that some batch may use."""
    judged = [session.eligibility(batch.pods[0]) for batch in demand.batches]
    return [node for node in session.nodes if any(node not in each.rejected for each in judged)]


def _too_full(batch: Batch, session: Session) -> Counter[str]:
    """Nodes on which not one more pod of the batch fits, by the first resource that is short there."""
    pod = batch.pods[0]
    rejected = session.eligibility(pod).rejected
    counts: Counter[str] = Counter()
    needs = sorted(((name, need) for name, need in pod.shape.requests.items() if need > 0), key=_by_dominance)
    for node in session.nodes:
        if node not in rejected:
            free = session.free(node)
            if requests_share(pod.shape.requests) and not _has_device(pod, session, node):
                counts[f"no GPU with {formatting.share(pod.shape.requests)} left"] += 1
                continue
            short = next((name for name, need in needs if need > free.get(name, 0)), None)
            if short is not None:
                counts[f"too little {short} free"] += 1
            elif places_left(session.nodes[node].node, free, pod.shape.numa) == 0:
                counts[f"no NUMA zone left with {_zone_needs(pod, session, node)} together"] += 1
    return counts


def lacks_zones(demand: Demand, session: Session) -> bool:
    """Whether zones hold fewer pods of the demand than their node would without them."""
    for batch in demand.batches:
        pod = batch.pods[0]
        rejected = session.eligibility(pod).rejected
        for node, state in session.nodes.items() if session.facts.zoned and pod.shape.numa else ():
            free = session.free(node)
            count = None if node in rejected else places_left(state.node, free, pod.shape.numa)
            if count is not None and count < (how_many_fit(pod.shape.requests, free) or 0):
                return True
    return False


def _zone_needs(pod: Pod, session: Session, node: NodeName) -> str:
    numa = session.nodes[node].node.numa
    amounts = largest_zone_request(numa.layout, pod.shape.numa) if numa is not None else {}
    return format_amounts(amounts or pod.shape.requests)


def _has_device(pod: Pod, session: Session, node: NodeName) -> bool:
    state = session.nodes[node]
    size = share_on_node(pod.shape.requests, state.node.allocatable)
    return any(amount >= size for amount in free_devices(state, session.free(node)))


def _by_dominance(amount: tuple[str, int]) -> tuple[bool, str]:
    return dominance(amount[0])


def dominance(resource: str) -> tuple[bool, str]:
    """Devices are told before cores and memory."""
    return ("/" not in resource, resource)
