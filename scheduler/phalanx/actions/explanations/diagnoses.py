"""The messages of verdicts: for each reason that an explanation can find, its message and evidence."""

from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Batch, Demand, requested
from phalanx.actions.explanations import evidence, next_steps
from phalanx.actions.explanations.advice import Advice, Freed, PodsFit
from phalanx.actions.explanations.completions import Completions
from phalanx.actions.explanations.evidence import UnlabelledNodes
from phalanx.actions.explanations.fitting_pods import FittingPods
from phalanx.actions.explanations.relaxed_clusters import staying_members
from phalanx.actions.limits import EVIDENCE_BATCHES_MAX
from phalanx.framework.nodes.topology import domain_name
from phalanx.framework.session import Session
from phalanx.limits import SHOWN_NODES
from phalanx.model import named_parts
from phalanx.model.nodes import TOPOLOGY_UNKNOWN
from phalanx.model.reasons import CHANGE_FOR_ADVICE, NODES, WAIT_FOR_ADVICE, Evidence, Reason
from phalanx.model.resources import PODS, Resources, sum_of
from phalanx.model.supplies.known import whole_texts
from phalanx.rules.problem import PlacementProblem, Rule
from phalanx.solver.infeasibility.explain import Explanation

WAIT: Final = "Wait: no single event or change was found that is enough"
NO_ADVICE: Final = "No single change was found that is enough; see the evidence"

_WHILE_SEARCHED: Final = {WAIT: WAIT_FOR_ADVICE, NO_ADVICE: CHANGE_FOR_ADVICE}
"""What takes the place of these while the search for advice is still to come."""


class Diagnosis(Struct, frozen=True):
    """A verdict without its gang, so that equal demands share it."""

    reason: Reason
    message: str
    evidence: tuple[Evidence, ...]
    advice: Advice = Advice()
    otherwise: str = NO_ADVICE
    """The next step if there is no advice. It promises nothing."""

    subgroup: str = ""
    """Set if it is about one outer subgroup that is placed whole after the gang started."""

    @property
    def next_step(self) -> str:
        """The advice, as a sentence."""
        if self.advice.is_pending:
            return _WHILE_SEARCHED.get(self.otherwise, self.otherwise)
        return next_steps.sentence(self.advice, self.otherwise)


class Case(Struct, frozen=True, dict=True):
    """The input of a diagnosis."""

    demand: Demand

    problem: PlacementProblem
    """The demand in the cluster as it is now, or in the empty cluster."""

    facts: Explanation
    """The solver's explanation of why `problem` has no solution."""

    session: Session

    fitting: FittingPods

    available: Session | None = None
    """The cluster with all nodes available, where `problem` is about it."""

    completions: Completions = ()
    """The holders of capacity whose end would let the demand start; empty if unknown."""

    advice: Advice = Advice()

    @property
    def fit(self) -> str:
        """The number of pods that fit, such as "2"."""
        return self.fitting.count

    @property
    def fit_of_all(self) -> str:
        """Such as "2 of 4 pods"."""
        return f"{self.fit} of {formatting.pods(self.demand.count)}"

    @property
    def beside(self) -> str:
        """The running members of the gang, which the empty cluster has too; empty for none."""
        count = len(list(staying_members(self.demand.gang)))
        return f" beside {count} running member{'s' * (count > 1)}" if count else ""

    @cached_property
    def unlabelled(self) -> tuple[UnlabelledNodes, ...]:
        """Nodes that a missing label excludes from all domains of a required level."""
        rules = [rule for rule in self.problem.rules if rule.obstacle is not None]
        levels = [level for rule in rules for level in (rule.gang_level, rule.subgroup_level) if level]
        return evidence.without_label(self.demand, self.session, levels)

    @property
    def conflicting(self) -> list[Rule]:
        """The rules in the conflict."""
        return [rule for rule in self.problem.rules if rule.name in self.facts.conflict]


# --- nodes and cluster --------------------------------------------------------------------------------------


def no_eligible_node(
    demand: Demand, batch: Batch, session: Session, advice: Advice, available: Session | None = None
) -> Diagnosis:
    """No node passes the filters for the pods of this batch. `available`: with all nodes available, if some
    are not."""
    reasons = _excluded(batch, available or session)
    then = ", even if all are available" if available is not None else ""
    pods = f" for role {batch.name}" if batch.name != "pod" else ""
    verb = "is" if len(session.nodes) == 1 else "are"
    return Diagnosis(
        reason=Reason.NO_ELIGIBLE_NODE,
        message=f"0 of {formatting.nodes(len(session.nodes))} {verb} eligible{pods}{then}"
        + (f": {reasons}" if reasons else ""),
        evidence=evidence.of_nodes(demand, session),
        advice=advice,
    )


def _excluded(batch: Batch, session: Session) -> str:
    """The excluded nodes by reason with counts."""
    counts = session.eligibility(batch.pods[0]).count_by_reason()
    return formatting.listed(f"{count} {reason}" for reason, count in counts)


def above_cluster(case: Case) -> Diagnosis:
    """Too large for the cluster even if it is empty."""
    too_large = _larger_than_any_node(case)
    why = _larger_than_own_nodes(case) or f"{_needed(case)} needed"
    mixed = evidence.fragmented(case.demand, case.session, mixed=True)
    fit = f"have guaranteed {mixed} in" if mixed else "fit"
    beside = _supplies_needed(case)
    message = too_large or f"{case.fit_of_all} {fit} the empty cluster{case.beside}; {why}{beside}"
    return Diagnosis(
        reason=Reason.ABOVE_CLUSTER_CAPACITY,
        message=message,
        evidence=(*conflict_evidence(case), *_of_nodes(case)),
        advice=case.advice,
    )


def _needed(case: Case) -> str:
    """What all pods request; their number too where it is more than nodes take."""
    amounts, pods = formatting.amounts(requested(case.demand)), formatting.pods(case.demand.count)
    nodes = case.session.nodes.values()
    is_short = sum(state.node.allocatable.get(PODS, 0) for state in nodes) < case.demand.count
    return f"{amounts}, {pods}" if is_short and amounts != pods else amounts


def _supplies_needed(case: Case) -> str:
    """What a pod needs of one node for itself, such as ports, and what supplies say that pods need."""
    used = dict(amount for batch in case.demand.batches for amount in batch.pods[0].shape.supplied)
    whole = whole_texts(used)
    texts = [f"{formatting.listed(whole)} of a node for each pod"] if whole else []
    pods = [pod for batch in case.demand.batches for pod in batch.pods]
    texts += filter(None, [supply.needed(pods) for supply in case.session.supplies])
    return "".join(f", and {text}" for text in texts)


def insufficient(case: Case) -> Diagnosis:
    """Fits the empty cluster, but not the free capacity now."""
    demand, session = case.demand, case.session
    free = evidence.free_amounts(demand, session)
    missing = evidence.shortages(demand, free)
    why = f"free capacity is fragmented across {evidence.fragmented(demand, session) or 'nodes'}"
    if missing:
        why = _missing(case.advice, missing)
    elif lacking := evidence.supplies_missing(demand, session):
        why = lacking
    elif bounds := [rule.name for rule in case.conflicting if _is_of_supply(rule, session)]:
        why = f"too few devices are free in the {bounds[0]}"
    elif spread := [rule.name for rule in case.conflicting if rule.counts_others]:
        why = f"{spread[0]} needs it in other domains"
    elif in_use := evidence.supplies_in_use(demand, session):
        why = formatting.listed(f"{what} on {formatting.nodes(count)}" for what, count in in_use.items())
    return Diagnosis(
        reason=Reason.INSUFFICIENT_CAPACITY,
        message=f"{case.fit_of_all} fit now; {why}",
        evidence=(
            *conflict_evidence(case),
            *completions_evidence(case),
            *evidence.of_amounts(demand, free),
            *evidence.of_nominated_pods(demand, session)[:SHOWN_NODES],
            *_of_nodes(case),
        ),
        advice=case.advice,
        otherwise=WAIT,
    )


def _is_of_supply(rule: Rule, session: Session) -> bool:
    """Whether it bounds what several nodes have together of a supply that users do not count."""
    supply = session.supply_of(rule)
    return supply is not None and not supply.counts_for_users


def _missing(advice: Advice, short: Resources) -> str:
    """What must become free, as the next step says it. The nodes together may lack less than is enough."""
    freed = [event for event in advice.events if isinstance(event, Freed)]
    if freed:
        return f"{formatting.needed(sum_of(each.amounts for each in freed[0].capacity))} missing"
    more = [event.least for event in advice.events if isinstance(event, PodsFit)]
    return f"at least {formatting.needed(more[0] if more else short)} missing"


def breaker_open(demand: Demand, session: Session) -> Diagnosis:
    """Would fit if all healthy nodes were trusted."""
    return Diagnosis(
        reason=Reason.BREAKER_OPEN,
        message=f"the breaker is open ({session.health.open_reason}); only nodes healthy throughout are used",
        evidence=evidence.of_nodes(demand, session),
        otherwise="Find out why nodes or their health reports fail; the breaker closes by itself",
    )


def nodes_unavailable(demand: Demand, session: Session, as_available: Session, advice: Advice) -> Diagnosis:
    """Would fit the empty cluster if cordoned or faulty nodes came back."""
    found = evidence.of_unavailable_nodes(demand, session, as_available)
    return Diagnosis(
        reason=Reason.NODES_UNAVAILABLE,
        message="does not fit while nodes are unavailable: "
        + formatting.listed(f"{fact.count} {fact.finding}" for fact in found),
        evidence=(*found, *evidence.of_nodes(demand, session)),
        advice=advice,
    )


# --- domains ------------------------------------------------------------------------------------------------


def above_domain(case: Case, level: str) -> Diagnosis:
    """Fits no domain of the required level even if the cluster is empty."""
    count = sum(nodes.count for nodes in case.unlabelled)
    if count and count == len(evidence.eligible_nodes(case.demand, case.session)):
        missing = formatting.listed(
            f"{nodes.count} lack{'s' * (nodes.count == 1)} label {nodes.label}" for nodes in case.unlabelled
        )
        return _above_domains(case, f"no eligible node is in a {level}: {missing}")
    pods = f"{formatting.pods(case.demand.count)}{case.beside}"
    return _above_domains(case, f"no {level} holds {pods} even if it is empty: the largest fits {case.fit}")


def above_rule(case: Case, name: str) -> Diagnosis:
    """A rule of some pods is infeasible even if the cluster is empty."""
    where = f"even in the empty cluster{case.beside}"
    return _above_domains(case, f"{name} is infeasible {where}: {case.fit_of_all} fit")


def _above_domains(case: Case, message: str) -> Diagnosis:
    return Diagnosis(
        reason=Reason.ABOVE_DOMAIN_CAPACITY,
        message=message,
        evidence=(*conflict_evidence(case), *_without_domain(case), *_of_nodes(case)),
        advice=case.advice,
    )


def no_domain(case: Case, level: str) -> Diagnosis:
    """Fits without the required level, but no domain of it has enough free capacity now."""
    pods = formatting.pods(case.demand.count)
    message = f"no {level} fits all {pods} now: the best fits {case.fit}"
    return _no_domain(case, message, _best_domain(case, level))


def no_rule(case: Case, name: str) -> Diagnosis:
    """Fits without the rule of a subgroup, but not with it now."""
    return _no_domain(case, f"{name} is infeasible now: {case.fit_of_all} fit")


def _no_domain(case: Case, message: str, best: tuple[Evidence, ...] = ()) -> Diagnosis:
    return Diagnosis(
        reason=Reason.NO_DOMAIN_FITS,
        message=message,
        evidence=(
            *best,
            *conflict_evidence(case),
            *_without_domain(case),
            *completions_evidence(case),
            *_of_cluster(case),
        ),
        advice=case.advice,
        otherwise=WAIT,
    )


# --- pod affinity -------------------------------------------------------------------------------------------


def pod_affinity(case: Case, reason: Reason, name: str) -> Diagnosis:
    """Does not fit now whatever capacity is freed, but fits without pod affinity or anti-affinity."""
    nowhere = evidence.nowhere_eligible(case.demand, case.session)
    excluded = f": {_excluded(nowhere, case.session)}" if nowhere is not None else ""
    return Diagnosis(
        reason=reason,
        message=f"{name} allows {case.fit_of_all} now{excluded}",
        evidence=(
            *conflict_evidence(case),
            *completions_evidence(case),
            *_of_cluster(case),
        ),
        advice=case.advice,
        otherwise=WAIT,
    )


# --- reserved capacity and limits ---------------------------------------------------------------------------


def capacity_nominated(demand: Demand, session: Session) -> Diagnosis:
    """Would fit if no capacity were nominated for pods of other schedulers."""
    found = evidence.of_nominated_pods(demand, session)
    count = sum(fact.count for fact in found)
    return Diagnosis(
        reason=Reason.CAPACITY_NOMINATED,
        message=f"free capacity is nominated for {formatting.pods(count)} of other schedulers "
        "with the same or a higher priority",
        evidence=found[:SHOWN_NODES],
        otherwise="Wait until these pods are bound or their schedulers choose other nodes; "
        "field status.nominatedNodeName of the pods says where they are expected",
    )


# --- evidence -----------------------------------------------------------------------------------------------


def conflict_evidence(case: Case) -> tuple[Evidence, ...]:
    """The constraints that are infeasible together, whether the set is irreducible, and what they count."""
    if not case.facts.conflict:
        return ()
    finding = "each of them is necessary" if case.facts.irreducible else "some may be unrelated"
    conflict = Evidence(subject=f"conflict of {' + '.join(case.facts.conflict)}", finding=finding)
    found = [(rule.name, rule.evidence(SHOWN_NODES)) for rule in case.conflicting]
    return (conflict, *(Evidence(name, text) for name, text in found if text))


def _without_domain(case: Case) -> tuple[Evidence, ...]:
    """Nodes in no domain: their position in the topology is unknown, or a label is missing."""
    count = sum(1 for state in case.session.nodes.values() if state.node.has_unknown_topology)
    finding = f"not in the topology: condition {TOPOLOGY_UNKNOWN} is True"
    unknown = (Evidence(subject=NODES, finding=finding, count=count),) if count else ()
    return (*unknown, *(Evidence(NODES, nodes.finding, nodes.count) for nodes in case.unlabelled))


def completions_evidence(case: Case) -> tuple[Evidence, ...]:
    return evidence.of_completions(case.completions, case.session)


def _of_nodes(case: Case) -> tuple[Evidence, ...]:
    return evidence.of_nodes(case.demand, case.session, case.fitting.pods)


def _of_cluster(case: Case) -> tuple[Evidence, ...]:
    demand, session = case.demand, case.session
    free = evidence.free_amounts(demand, session)
    return (
        *evidence.of_amounts(demand, free),
        *evidence.of_nominated_pods(demand, session)[:SHOWN_NODES],
        *_of_nodes(case),
    )


def _best_domain(case: Case, level: str) -> tuple[Evidence, ...]:
    if not case.facts.best_domain or sum(case.facts.most) != len(case.fitting.pods):
        return ()
    subject = f"{level} {named_parts.domain(domain_name(case.facts.best_domain))}"
    return (Evidence(subject=subject, finding=f"fits {case.fit_of_all}"),)


def _larger_than_any_node(case: Case) -> str:
    """A message if one pod requests more of a resource than any node has, else empty."""
    largest = evidence.largest_amounts(case.demand, case.available or case.session)
    texts = (_larger_than(largest, batch) for batch in case.demand.batches)
    return next(filter(None, texts), "")


def _larger_than_own_nodes(case: Case) -> str:
    """The same for a pod that may not use nodes which others may use."""
    session = case.available or case.session
    for batch in case.demand.batches[:EVIDENCE_BATCHES_MAX] if len(case.demand.batches) > 1 else ():
        alone = replace(case.demand, batches=(batch,))
        if found := _larger_than(evidence.largest_amounts(alone, session), batch):
            return found
    return ""


def _larger_than(largest: Resources, batch: Batch) -> str:
    requests = batch.pods[0].shape.requests
    for name in sorted(requests, key=evidence.dominance):
        if requests[name] > largest.get(name, 0):
            asked = formatting.amount(name, requests[name], up=True)
            most = formatting.amount(name, largest.get(name, 0))
            return f"a pod requests {asked}, but the largest eligible node has {most}"
    return ""
