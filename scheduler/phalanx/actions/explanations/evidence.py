"""The evidence of verdicts: nodes that are excluded and why, and amounts that are needed and free."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Batch, Demand, requested, without_affinity_terms
from phalanx.actions.explanations.completions import Completions
from phalanx.actions.limits import EVIDENCE_BATCHES_MAX, EVIDENCE_LINES_MAX, SHOWN_MEMBERS
from phalanx.framework.session import Session
from phalanx.limits import NOMINATED_PODS_NAMED_MAX
from phalanx.model import named_parts
from phalanx.model.names import NodeName
from phalanx.model.nodes import TOPOLOGY_UNKNOWN, Node, NodeState, NominatedPods
from phalanx.model.pods import Pod, PodShape
from phalanx.model.reasons import NODES, Evidence
from phalanx.model.resources import NONE, PODS, Resources, fits, sum_of
from phalanx.model.supplies.known import lacking, projected, shortage
from phalanx.model.supplies.supply import OpenSupply


class UnlabelledNodes(Struct, frozen=True):
    """Nodes without the label of a level, which are in no domain of that level or a narrower one."""

    level: str
    label: str
    count: int

    @property
    def finding(self) -> str:
        """The finding of the evidence."""
        return f"in no {self.level} or narrower domain: label {self.label} is missing"


def nowhere_eligible(demand: Demand, session: Session) -> Batch | None:
    """The first batch without any eligible node."""
    for batch in demand.batches:
        if len(session.eligibility(batch.pods[0]).rejected) == len(session.nodes):
            return batch
    return None


def of_nodes(demand: Demand, session: Session, fitting: Iterable[Pod] = ()) -> tuple[Evidence, ...]:
    """The excluded nodes by reason with counts, full nodes last; equal lines of several batches once.

    Batches with pods that do not fit beside the `fitting` ones come first. Pods for which no node has enough
    free are named.
    """
    there = {pod.uid for pod in fitting}
    ordered = sorted(demand.batches, key=lambda batch: all(pod.uid in there for pod in batch.pods))
    lines: dict[tuple[str, int], dict[str, None]] = {}
    stuck: list[Evidence] = []
    for batch in ordered[:EVIDENCE_BATCHES_MAX]:
        rejected = session.eligibility(batch.pods[0])
        full = _too_full(batch, session)
        counts = Counter(full.values())
        by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        for line in (*rejected.count_by_reason(), *by_count):
            lines.setdefault(line, {})[batch.name] = None
        if full and len(full) + len(rejected.rejected) == len(session.nodes):
            stuck.append(_stuck(batch, full))
    found = [Evidence(_subject(demand, list(names)), *line) for line, names in lines.items()]
    more = len(found) - EVIDENCE_LINES_MAX
    if more > 0:
        found[EVIDENCE_LINES_MAX:] = [Evidence("other pods", f"{more} more findings about their nodes")]
    return (*found, *(stuck[:SHOWN_MEMBERS] if len(demand.batches) > 1 else ()))


def _subject(demand: Demand, names: Sequence[str]) -> str:
    return NODES if len(demand.batches) == 1 else f"{NODES} for {formatting.some(names, SHOWN_MEMBERS)}"


def _stuck(batch: Batch, full: Mapping[NodeName, str]) -> Evidence:
    """Why no node takes a pod of the batch now; few nodes are named."""
    by_cause: dict[str, list[NodeName]] = {}
    for node, cause in full.items():
        by_cause.setdefault(cause, []).append(node)
    where = [
        f"{cause} on {formatting.some(list(map(named_parts.node, nodes)), SHOWN_MEMBERS)}"
        for cause, nodes in by_cause.items()
    ]
    return Evidence(formatting.named_pods(batch.pods), f"fits no node now: {formatting.listed(where)}")


def of_unavailable_nodes(demand: Demand, session: Session, as_available: Session) -> tuple[Evidence, ...]:
    """The nodes that the demand could use if they were available, by reason with counts."""
    wrong: dict[NodeName, str] = {}
    for batch in map(without_affinity_terms, demand.batches):
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
    return tuple(Evidence(f"{NODES} unavailable", why, counts[why]) for why in order)


def without_label(demand: Demand, session: Session, levels: Collection[str]) -> tuple[UnlabelledNodes, ...]:
    """Eligible nodes in no domain of some of these levels, by the first missing label."""
    topology = session.topologies.of(demand.gang)
    if topology is None or not levels:
        return ()
    depth = max(number for number, level in enumerate(topology.levels, start=1) if level.name in levels)
    paths = [session.topologies.path_by_labels(node, topology) for node in eligible_nodes(demand, session)]
    counts = Counter(len(path) for path in paths if path is not None and len(path) < depth)
    return tuple(
        UnlabelledNodes(topology.levels[depth].name, topology.levels[depth].node_label, counts[depth])
        for depth in sorted(counts)
    )


def of_amounts(demand: Demand, free: Resources) -> tuple[Evidence, ...]:
    """For each resource, the amount that the demand needs and the free amount on eligible nodes."""
    return tuple(
        Evidence(
            subject=name,
            finding=f"{formatting.amount(name, needed, up=True)} needed, "
            f"{formatting.amount(name, free.get(name, 0))} free",
        )
        for name, needed in sorted(requested(demand).items())
        if needed > 0 and name != PODS
    )


def of_completions(completions: Completions, session: Session) -> tuple[Evidence, ...]:
    """The amounts that each holder would free."""
    return tuple(
        Evidence(
            subject=named_parts.titled(holder.name),
            finding=f"{'is terminating; ' if holder.is_terminating else ''}"
            f"frees {formatting.amounts(holder.total)} when it ends",
        )
        for holder in completions
    )


def of_nominated_pods(demand: Demand, session: Session) -> tuple[Evidence, ...]:
    """The nodes that the demand could use and on which pods of other schedulers withhold capacity from it.

    `count` is the number of these pods.
    """
    nominated, priority = session.snapshot.nominated, demand.gang.priority
    found = []
    for node in eligible_nodes(demand, session) if session.respected_nominations else ():
        pods = [each for each in nominated.get(node, ()) if each.priority >= priority]
        if pods:
            found.append(_nominated_on(node, pods))
    return tuple(found)


def _nominated_on(node: NodeName, pods: Sequence[NominatedPods]) -> Evidence:
    named = [name.partition(" of ") for each in pods for name in each.names]
    names = [named_parts.titled(pod) + of + by for pod, of, by in named[:NOMINATED_PODS_NAMED_MAX]]
    count = sum(each.count for each in pods)
    more = f" and {count - len(names)} more" if count > len(names) else ""
    amounts = formatting.amounts(sum_of([each.amounts for each in pods]))
    return Evidence(
        named_parts.node(node, titled=True),
        f"{amounts} nominated for {formatting.listed(names)}{more}",
        count,
    )


def shortages(demand: Demand, free: Resources) -> Resources:
    """The missing amount of each resource of which insufficient is."""
    needed = requested(demand)
    return {name: number - free.get(name, 0) for name, number in needed.items() if number > free.get(name, 0)}


def free_amounts(demand: Demand, session: Session) -> Resources:
    """The free amounts of the needed resources on all eligible nodes."""
    total = dict.fromkeys(requested(demand), 0)
    supplies = session.facts.needed_supplies(batch.pods[0].shape for batch in demand.batches)
    for node in eligible_nodes(demand, session):
        free = session.free(node)
        for supply in supplies:
            free = {**free, **supply.usable(session.nodes[node], free)}
        for name in total:
            amount = free.get(name, 0)
            if amount > 0:
                total[name] += amount
    return total


def largest_amounts(demand: Demand, session: Session) -> Resources:
    """For each resource, the largest allocatable amount of an eligible node."""
    largest: dict[str, int] = {}
    for node in eligible_nodes(demand, session):
        for name, amount in session.nodes[node].node.allocatable.items():
            largest[name] = max(largest.get(name, 0), amount)
    return largest


def eligible_nodes(demand: Demand, session: Session) -> list[NodeName]:
    """Nodes that are eligible for some batch."""
    eligibilities = [session.eligibility(batch.pods[0]) for batch in demand.batches]
    return [node for node in session.nodes if any(node not in found.rejected for found in eligibilities)]


def _too_full(batch: Batch, session: Session) -> dict[NodeName, str]:
    """Eligible nodes on which no pod of the batch fits, with the first insufficient resource."""
    pod = batch.pods[0]
    rejected = session.eligibility(pod).rejected
    supplies = session.facts.needed_supplies((pod.shape,))
    causes: dict[NodeName, str] = {}
    needs = sorted(((name, need) for name, need in pod.shape.requests.items() if need > 0), key=_by_dominance)
    for node in session.nodes:
        if node not in rejected:
            state, free = session.nodes[node], session.free(node)
            parts = [each.lacking(pod.shape, state, free) for each in supplies]
            short = next((name for name, need in needs if need > free.get(name, 0)), None)
            if why := next(filter(None, parts), None):
                causes[node] = why
            elif short is not None:
                causes[node] = f"insufficient {short}"
            elif why := _lacking_supply(pod.shape, state, session) or _lacking_on(pod.shape, state, session):
                causes[node] = why
    return causes


def fragmented(demand: Demand, session: Session, *, mixed: bool = False) -> str:
    """The parts of nodes which fewer pods fit than the amounts of some node would allow, such as "GPUs".

    `mixed`: only those whose count for these pods, with different needs, is not exact. Empty for none.
    """
    for supply in session.facts.open_supplies:
        if (not mixed or is_mixed(supply, demand)) and _is_fragmented(supply, demand, session):
            return supply.unit
    return ""


def is_mixed(supply: OpenSupply, demand: Demand) -> bool:
    """Whether pods have different needs of a supply that does not count them together exactly."""
    return not supply.is_exact and len({supply.need(batch.pods[0].shape) for batch in demand.batches}) > 1


def _is_fragmented(supply: OpenSupply, demand: Demand, session: Session) -> bool:
    for pod in [batch.pods[0] for batch in demand.batches if supply.need(batch.pods[0].shape) is not None]:
        rejected = session.eligibility(pod).rejected
        for name, state in session.nodes.items():
            if name not in rejected and supply.is_fragmented(pod.shape, state, session.free(name)):
                return True
    return False


def _lacking_on(shape: PodShape, state: NodeState, session: Session) -> str:
    return next(filter(None, (supply.lacking_on(shape, state.node) for supply in session.supplies)), "")


def supplies_missing(demand: Demand, session: Session) -> str:
    """What supplies lack for the pods where amounts do not tell it; empty for nothing."""

    def nodes_for(pod: Pod) -> list[Node]:
        rejected = session.eligibility(pod).rejected
        return [state.node for name, state in session.nodes.items() if name not in rejected]

    batches = [batch.pods for batch in demand.batches]
    return next(filter(None, (supply.missing(batches, nodes_for) for supply in session.supplies)), "")


def supplies_in_use(demand: Demand, session: Session) -> Counter[str]:
    """The ports and attach limits that keep pods from nodes on which enough is free, as text with the number
    of these nodes."""
    counts: Counter[str] = Counter()
    for pod in [batch.pods[0] for batch in demand.batches if batch.pods[0].shape.supplied]:
        rejected = session.eligibility(pod).rejected
        for node, state in session.nodes.items():
            free = session.free(node) if node not in rejected else NONE
            if fits(pod.shape.requests, free) and (why := _lacking_supply(pod.shape, state, session)):
                counts[why] += 1
    return counts


def _lacking_supply(shape: PodShape, state: NodeState, session: Session) -> str | None:
    """Of which supply the node has too little for such a pod; None for none."""
    node = state.node.name
    free = session.free(node)
    resource = lacking(shape, free)
    if resource is None:
        has = projected(session.projections((shape,), only_freed=True), state, free)
        resource = next((name for name, need in shape.supplied if has[name] < need), None)
    if resource is None:
        return None
    texts = (supply.shortage(resource, node) for supply in session.supplies)
    return next(filter(None, texts), shortage(resource))


def _by_dominance(amount: tuple[str, int]) -> tuple[bool, str]:
    return dominance(amount[0])


def dominance(resource: str) -> tuple[bool, str]:
    """A sort key that lists devices before cores and memory."""
    return ("/" not in resource, resource)
