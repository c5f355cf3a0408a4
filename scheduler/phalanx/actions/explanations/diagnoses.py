"""The words of verdicts: message and evidence of each reason that an explanation can find."""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Batch, Demand, requested
from phalanx.actions.explanations import evidence
from phalanx.actions.explanations import next_steps as advice
from phalanx.actions.explanations.completions import Completions
from phalanx.actions.explanations.evidence import Lacking
from phalanx.framework.nodes.cells import ReservedCell
from phalanx.framework.session import Session
from phalanx.framework.statement import total_requests
from phalanx.limits import CAPACITY_HOLD_MS
from phalanx.model.gpu_shares import requests_share
from phalanx.model.nodes import TOPOLOGY_UNKNOWN
from phalanx.model.reasons import NODES, Evidence, Reason
from phalanx.model.rules import AffinityRule, Budget, SameDomain, SubgroupRule
from phalanx.solver.infeasibility.explain import Explanation
from phalanx.solver.problem import PlacementProblem

_UNTIL_OTHER_COMPANY: Final = (
    "Wait until pods that keep these away have ended and those that are asked for run, "
    "or change the pods' spec.affinity"
)


class Diagnosis(Struct, frozen=True):
    """A verdict without the gang that it is about: equal demands share it."""

    reason: Reason
    message: str
    evidence: tuple[Evidence, ...]
    next_step: str


class Case(Struct, frozen=True, dict=True):
    """What a verdict is made of. `facts` are about `problem`: as it is now, or on the empty cluster.

    `ending`: whose end would let the demand start, empty where that is not known.
    """

    demand: Demand
    problem: PlacementProblem
    facts: Explanation
    session: Session
    ending: Completions = ()

    @property
    def fit(self) -> int:
        """How many of the pods fit."""
        return sum(self.facts.most)

    @cached_property
    def unlabelled(self) -> tuple[Lacking, ...]:
        """The nodes that lie in no domain in which the gang, or some of its pods, must lie, by the label."""
        levels = [rule.level for rule in self.problem.rules if isinstance(rule, SameDomain | SubgroupRule)]
        return evidence.without_label(self.demand, self.session, levels)

    @property
    def when_impossible(self) -> str:
        """The next step of what this cluster can never hold."""
        return advice.when_impossible(self.demand, self.problem, self.facts, self.session)

    @property
    def while_waiting(self) -> str:
        """The next step of what only has to wait."""
        return advice.while_waiting(self.demand, self.problem, self.facts, self.session, self.ending)


def no_eligible_node(demand: Demand, batch: Batch, session: Session) -> Diagnosis:
    """No node passes the filters of this batch's pods."""
    counts = session.eligibility(batch.pods[0]).count_by_reason()
    reasons = formatting.listed(f"{count} {reason}" for reason, count in counts)
    pods = f"pods of role {batch.name}" if batch.name != "pod" else "these pods"
    return Diagnosis(
        reason=Reason.NO_ELIGIBLE_NODE,
        message=f"none of {len(session.nodes)} nodes may run {pods}" + (f": {reasons}" if reasons else ""),
        evidence=evidence.of_nodes(demand, session),
        next_step="Change what the pods ask of nodes (selector, affinity, tolerations), or the nodes",
    )


def above_cluster(case: Case) -> Diagnosis:
    """Too large for the cluster even when nothing runs on it."""
    too_large = _larger_than_any_node(case)
    gang = f"{formatting.pods(case.demand.count)} with {formatting.amounts(requested(case.demand))}"
    fails = "are not certain of NUMA zones in" if _may_mix_zones(case) else "do not fit"
    message = (
        too_large or f"{gang} {fails} this cluster even when nothing else runs: it has room for {case.fit}"
    )
    return Diagnosis(
        reason=Reason.ABOVE_CLUSTER_CAPACITY,
        message=message,
        evidence=(*_conflict(case), *evidence.of_nodes(case.demand, case.session)),
        next_step="Ask for less per pod, or add larger nodes" if too_large else case.when_impossible,
    )


def _may_mix_zones(case: Case) -> bool:
    """Whether pods of several sizes share NUMA zones, of which is counted only what is certain."""
    kinds = {batch.pods[0].shape.numa for batch in case.demand.batches}
    return len(kinds) > 1 and evidence.lacks_zones(case.demand, case.session)


def insufficient(case: Case) -> Diagnosis:
    """Fits the cluster, but not beside what runs now."""
    demand, session = case.demand, case.session
    free = evidence.free_amounts(demand, session)
    missing = evidence.shortages(demand, free)
    lack = f"enough is free in total, but not together on single {_holders(demand, session)}"
    if missing:
        needed = formatting.amounts(requested(demand))
        lack = f"{needed} are needed and {formatting.amounts(missing)} are missing"
    return Diagnosis(
        reason=Reason.INSUFFICIENT_CAPACITY,
        message=f"room for {case.fit} of {formatting.pods(demand.count)} now; {lack}",
        evidence=(
            *_conflict(case),
            *evidence.of_endings(case.ending),
            *evidence.of_amounts(demand, free),
            *evidence.of_nodes(demand, session),
        ),
        next_step=case.while_waiting,
    )


def _holders(demand: Demand, session: Session) -> str:
    """What a pod must find its room on."""
    if any(requests_share(batch.pods[0].shape.requests) for batch in demand.batches):
        return "GPUs"
    return "NUMA zones" if evidence.lacks_zones(demand, session) else "nodes"


def above_domain(case: Case, rule: SameDomain) -> Diagnosis:
    """Fits no domain of the required level even when nothing runs on the cluster."""
    count = sum(each.count for each in case.unlabelled)
    if count == len(evidence.eligible_nodes(case.demand, case.session)):
        return _in_no_domain(case, rule)
    return Diagnosis(
        reason=Reason.ABOVE_DOMAIN_CAPACITY,
        message=f"no {rule.level} holds {formatting.pods(case.demand.count)} even when nothing else runs: "
        f"the largest has room for {case.fit}",
        evidence=(
            *_conflict(case),
            *_without_domain(case),
            *evidence.of_nodes(case.demand, case.session),
        ),
        next_step=case.when_impossible,
    )


def _in_no_domain(case: Case, rule: SameDomain) -> Diagnosis:
    """No node that the pods may use has all labels down to the required level."""
    lack = formatting.listed(f"{each.count} without the label {each.label}" for each in case.unlabelled)
    topology = case.session.topologies.of(case.demand.gang)
    ways = [
        f"Label the nodes with {formatting.listed(each.label for each in case.unlabelled)}",
        *(
            f"leave the level {each.level} out of Topology {topology.name}"
            for each in case.unlabelled
            if topology is not None and topology.name and each.level != rule.level
        ),
    ]
    return Diagnosis(
        reason=Reason.ABOVE_DOMAIN_CAPACITY,
        message=f"no node that these pods may use lies in a {rule.level}: {lack}",
        evidence=(*_conflict(case), *_without_domain(case), *evidence.of_nodes(case.demand, case.session)),
        next_step=", or ".join(ways),
    )


def no_domain(case: Case, rule: SameDomain) -> Diagnosis:
    """Would fit if the required level were dropped, but no domain of it has room now."""
    return Diagnosis(
        reason=Reason.NO_DOMAIN_FITS,
        message=f"no {rule.level} has room for all {formatting.pods(case.demand.count)} now: "
        f"the best has room for {case.fit}",
        evidence=(
            *_best_domain(case, rule),
            *_conflict(case),
            *_without_domain(case),
            *evidence.of_endings(case.ending),
            *_of_cluster(case),
        ),
        next_step=case.while_waiting,
    )


def above_rule(case: Case, rule: SubgroupRule | AffinityRule) -> Diagnosis:
    """The rule of some pods cannot be kept even when nothing runs on the cluster."""
    return Diagnosis(
        reason=Reason.ABOVE_DOMAIN_CAPACITY,
        message=f"{rule.name} cannot be had even when nothing else runs: "
        f"there is room for {case.fit} of {formatting.pods(case.demand.count)}",
        evidence=(*_conflict(case), *_without_domain(case), *evidence.of_nodes(case.demand, case.session)),
        next_step=case.when_impossible,
    )


def kept_apart(demand: Demand, batch: Batch, session: Session) -> Diagnosis:
    """Of the nodes that these pods may use, all are out for the pods that are there, or are not."""
    counts = session.eligibility(batch.pods[0]).count_by_reason()
    return Diagnosis(
        reason=Reason.POD_AFFINITY,
        message=f"none of {len(session.nodes)} nodes may run these pods now: "
        + formatting.listed(f"{count} {reason}" for reason, count in counts),
        evidence=evidence.of_nodes(demand, session),
        next_step=_UNTIL_OTHER_COMPANY,
    )


def no_company(case: Case, rule: AffinityRule | None) -> Diagnosis:
    """Would fit if other pods were there, or these ones were not, or the gang's pods asked for less."""
    named = rule.name if rule is not None else "required pod affinity"
    return Diagnosis(
        reason=Reason.POD_AFFINITY,
        message=f"{named} leaves room for {case.fit} of {formatting.pods(case.demand.count)} now",
        evidence=(*_conflict(case), *evidence.of_endings(case.ending), *_of_cluster(case)),
        next_step=case.while_waiting if rule is not None or case.ending else _UNTIL_OTHER_COMPANY,
    )


def no_subgroup_domain(case: Case, rule: SubgroupRule) -> Diagnosis:
    """Would fit if the subgroup's rule were dropped, but cannot keep it now."""
    return Diagnosis(
        reason=Reason.NO_DOMAIN_FITS,
        message=f"{rule.name} cannot be had now: "
        f"there is room for {case.fit} of {formatting.pods(case.demand.count)}",
        evidence=(
            *_conflict(case),
            *_without_domain(case),
            *evidence.of_endings(case.ending),
            *_of_cluster(case),
        ),
        next_step=case.while_waiting,
    )


def breaker_open(demand: Demand, session: Session) -> Diagnosis:
    """Would fit if all nodes that look good were trusted."""
    return Diagnosis(
        reason=Reason.BREAKER_OPEN,
        message=f"the breaker is open since {session.health.open_reason}: only nodes that were good all "
        "the while are used",
        evidence=evidence.of_nodes(demand, session),
        next_step="Find out what the nodes, or whoever reports on them, suffer from; it goes on by itself",
    )


def nodes_out_of_service(demand: Demand, session: Session, as_available: Session) -> Diagnosis:
    """Would fit the empty cluster if nodes came back that are cordoned or faulty."""
    out = evidence.out_of_service(demand, session, as_available)
    count = sum(each.count for each in out)
    return Diagnosis(
        reason=Reason.NODES_UNAVAILABLE,
        message="it does not fit, even when nothing else runs, while nodes are out of service: "
        + formatting.listed(f"{each.count} {each.finding}" for each in out),
        evidence=(*out, *evidence.of_nodes(demand, session)),
        next_step=f"Uncordon or repair nodes: it can start when enough of these {count} are back",
    )


def room_kept(session: Session) -> Diagnosis:
    """Would fit if no room were kept for members of gangs that do not exist yet."""
    lost = {
        str(each.gang): [pod for _, pods in each.assignments for pod in pods]
        for each in session.capacity_holds
    }
    return Diagnosis(
        reason=Reason.CAPACITY_RESERVED,
        message=f"there would be room, but it is kept for members that {formatting.listed(lost)} "
        "lost or waits for",
        evidence=tuple(
            Evidence(
                name, f"lacks {formatting.pods(len(pods))} with {formatting.amounts(total_requests(pods))}"
            )
            for name, pods in lost.items()
        ),
        next_step="Wait until those gangs have their members or have ended; their claim on the room "
        f"ends {CAPACITY_HOLD_MS // 60_000} minutes after the loss or the start",
    )


def queue_limit(case: Case, rule: Budget) -> Diagnosis:
    """Would fit if the queue's limit did not hold; there will be room once the queue uses less."""
    return Diagnosis(
        reason=Reason.QUEUE_LIMIT,
        message=f"the {rule.name} is reached: it leaves {_left(case.demand, rule)}, and "
        f"{_asked(case.demand, rule)} are needed",
        evidence=(*_against(case.demand, rule), *_conflict(case), *evidence.of_endings(case.ending)),
        next_step=case.while_waiting,
    )


def cells_kept(case: Case, cells: Sequence[ReservedCell]) -> Diagnosis:
    """Would fit if these domains were not kept for a queue that is guaranteed them."""
    names = formatting.listed(f"{cell.level} {cell.domain}" for cell in cells)
    return Diagnosis(
        reason=Reason.CELLS_RESERVED,
        message=f"there is no room beside the cells of queue {cells[0].queue}: {names}",
        evidence=(
            *(Evidence(f"{cell.level} {cell.domain}", f"is kept for queue {cell.queue}") for cell in cells),
            *_conflict(case),
        ),
        next_step="Wait until there is room elsewhere, or submit to a queue that is guaranteed cells",
    )


def above_queue_limit(case: Case, rule: Budget) -> Diagnosis:
    """More than the queue may ever use."""
    return Diagnosis(
        reason=Reason.ABOVE_QUEUE_LIMIT,
        message=f"{_asked(case.demand, rule)} are needed, and the {rule.name} allows "
        f"{_left(case.demand, rule)} in all",
        evidence=(*_against(case.demand, rule), *_conflict(case)),
        next_step=case.when_impossible,
    )


def _conflict(case: Case) -> tuple[Evidence, ...]:
    """What cannot be kept together, and whether every part of it is to blame."""
    if not case.facts.conflict:
        return ()
    finding = "each of them is part of it" if case.facts.irreducible else "not all of them need be part of it"
    return (Evidence(subject=f"conflict of {' + '.join(case.facts.conflict)}", finding=finding),)


def _without_domain(case: Case) -> tuple[Evidence, ...]:
    """Nodes that lie in no domain: their place in the network is unknown, or they lack a label."""
    count = sum(1 for state in case.session.nodes.values() if state.node.has_unknown_topology)
    finding = f"no place in the topology: condition {TOPOLOGY_UNKNOWN} is True"
    unknown = (Evidence(subject=NODES, finding=finding, count=count),) if count else ()
    return (*unknown, *(Evidence(NODES, each.finding, each.count) for each in case.unlabelled))


def _of_cluster(case: Case) -> tuple[Evidence, ...]:
    demand, session = case.demand, case.session
    free = evidence.free_amounts(demand, session)
    return (*evidence.of_amounts(demand, free), *evidence.of_nodes(demand, session))


def _best_domain(case: Case, rule: SameDomain) -> tuple[Evidence, ...]:
    if not case.facts.best_domain:
        return ()
    finding = f"room for {case.fit} of {formatting.pods(case.demand.count)}"
    return (Evidence(subject=f"{rule.level} {'/'.join(case.facts.best_domain)}", finding=finding),)


def _larger_than_any_node(case: Case) -> str:
    """Says so where a single pod asks for more of a resource than any node has, else empty."""
    largest = evidence.largest_amounts(case.demand, case.session)
    for batch in case.demand.batches:
        requests = batch.pods[0].shape.requests
        for name in sorted(requests, key=evidence.dominance):
            if requests[name] > largest.get(name, 0):
                asked, most = (
                    formatting.amount(name, each) for each in (requests[name], largest.get(name, 0))
                )
                return f"a pod asks for {asked}, and no node that it may use has more than {most}"
    return ""


def _limited(demand: Demand, rule: Budget) -> dict[str, int]:
    """What the demand needs of the resources that the budget limits."""
    needed = sorted(requested(demand).items())
    return {name: amount for name, amount in needed if amount > 0 and name in rule.remaining}


def _asked(demand: Demand, rule: Budget) -> str:
    return formatting.listed(
        formatting.amount(name, amount) for name, amount in _limited(demand, rule).items()
    )


def _left(demand: Demand, rule: Budget) -> str:
    return formatting.listed(
        formatting.amount(name, max(0, rule.remaining[name])) for name in _limited(demand, rule)
    )


def _against(demand: Demand, rule: Budget) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            subject=rule.name,
            finding=f"{formatting.amount(name, asked)} needed, {_rest(name, rule.remaining[name])}",
        )
        for name, asked in _limited(demand, rule).items()
    )


def _rest(name: str, left: int) -> str:
    """A limit that was lowered may be exceeded already."""
    return (
        f"{formatting.amount(name, -left)} used beyond it"
        if left < 0
        else f"{formatting.amount(name, left)} left"
    )
