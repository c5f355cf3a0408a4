"""Explain why a demand does not fit: one dominant reason, its evidence, and what would help.

The solver examines the cluster as the cycle leaves it and the same cluster while it is empty. A demand that
does not fit the empty cluster is impossible. A demand that does, or that may start with other subgroups that
do, is waiting. An irreducible set of conflicting rules gives the reason (an irreducible infeasible subset,
Chinneck 2008); the single relaxations that help, and the holders of capacity whose end helps, give the next
step.
"""

from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from phalanx.actions.demands.demand import Batch, Demand, has_affinity_terms, without_affinity_terms
from phalanx.actions.demands.member_choice import start_with_others
from phalanx.actions.explanations import diagnoses, evidence
from phalanx.actions.explanations.completions import CompletionSearch
from phalanx.actions.explanations.diagnoses import Case, Diagnosis
from phalanx.actions.explanations.explanation_problems import ExplanationProblems
from phalanx.actions.explanations.relaxed_clusters import RelaxedClusters
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.limits import EXPLANATION_DETERMINISTIC_LIMIT
from phalanx.model.names import GangId
from phalanx.model.reasons import Category, Reason
from phalanx.model.rules import AffinityRule, Budget, SameDomain, SubgroupRule
from phalanx.solver.answer_cache import AnswerCache
from phalanx.solver.infeasibility.explain import Explanation, explain, fits_when_empty, place_when_empty
from phalanx.solver.infeasibility.relaxations import ELIGIBILITY, Relaxation, RelaxationKind
from phalanx.solver.problem import Placed, SolveLimits

_ABOUT_CAPACITY: Final = (Reason.INSUFFICIENT_CAPACITY, Reason.NO_DOMAIN_FITS)
"""Reasons that capacity reserved for other gangs may cause."""

_ABOUT_NODES: Final = (
    *_ABOUT_CAPACITY,
    Reason.NO_ELIGIBLE_NODE,
    Reason.ABOVE_CLUSTER_CAPACITY,
    Reason.ABOVE_DOMAIN_CAPACITY,
)
"""Reasons that an open breaker may cause."""

_LIMITS = SolveLimits(deterministic=EXPLANATION_DETERMINISTIC_LIMIT)


class Explainer:
    """Explains the refusals at the end of a session; equal demands share one diagnosis."""

    def __init__(self, session: Session, answers: AnswerCache, failed: Iterable[Demand] = ()) -> None:
        """`failed` are all failed demands of the cycle."""
        self._session = session
        self._answers = answers
        self._builder = ProblemBuilder(session)
        self._problems = ExplanationProblems(session)
        self._relaxed = RelaxedClusters(session)
        self._completions = CompletionSearch(session, answers, limits=_LIMITS)
        self._partial = frozenset(demand.gang.id for demand in failed if not demand.is_whole)
        self._known: dict[Hashable, Diagnosis] = {}
        self.count = 0
        """The number of distinct demands that were examined."""

    def explain(self, demand: Demand, *, may_solve: bool) -> Diagnosis | None:
        """Why not even the smallest useful part of the demand fits; None if unknown.

        The diagnosis of an equal demand costs almost nothing; a new one needs `may_solve`.
        """
        with self._session.respecting_nominations(demand.gang):
            return self._explain(demand, may_solve=may_solve)

    def _explain(self, demand: Demand, *, may_solve: bool) -> Diagnosis | None:
        part = smallest(demand)
        protected = self._protected(demand)
        key = (self._builder.key(part), protected, part.choice and part.choice.key)
        if key not in self._known and may_solve:
            self.count += 1
            self._known[key] = self._diagnose(part, protected)
        return self._known.get(key)

    def _protected(self, demand: Demand) -> frozenset[GangId]:
        """The gangs whose end must not be proposed to this demand.

        Its own gang. A demand for members that the gang can do without protects all gangs with such a
        demand, so that equal demands share a diagnosis.
        """
        if not demand.is_whole:
            return self._partial
        holds = self._session.assigned_nodes(demand.gang) or any(
            pod.holds_node for pod in demand.gang.members
        )
        return frozenset((demand.gang.id,)) if holds else frozenset()

    def _diagnose(self, demand: Demand, protected: frozenset[GangId]) -> Diagnosis:
        found = self._diagnose_in_cluster(demand, protected)
        if found.reason in _ABOUT_NODES and self._relaxed.fits_without_breaker(demand):
            return diagnoses.breaker_open(demand, self._session)
        if found.reason in _ABOUT_CAPACITY and self._relaxed.fits_without_capacity_holds(demand):
            return diagnoses.capacity_reserved(self._session)
        if found.reason in _ABOUT_CAPACITY and self._relaxed.fits_without_nominations(demand):
            return diagnoses.capacity_nominated(demand, self._session)
        if found.reason.category is Category.IMPOSSIBLE and self._is_any_node_unavailable:
            return self._diagnose_unavailable_nodes(demand) or found
        return found

    @cached_property
    def _is_any_node_unavailable(self) -> bool:
        return any(map(self._session.is_out_of_service, self._session.nodes))

    def _diagnose_unavailable_nodes(self, demand: Demand) -> Diagnosis | None:
        """A diagnosis if the demand fits the empty cluster with all nodes available."""
        available = self._relaxed.session_with_all_nodes(demand)
        if available is None:
            return None
        return diagnoses.nodes_unavailable(demand, self._session, available)

    def _diagnose_in_cluster(self, demand: Demand, protected: frozenset[GangId]) -> Diagnosis:
        nowhere = evidence.nowhere_eligible(demand, self._session)
        if nowhere is not None:
            without_terms = replace(demand, batches=(without_affinity_terms(nowhere),))
            if evidence.nowhere_eligible(without_terms, self._session) is None:
                return diagnoses.no_node_by_affinity(demand, nowhere, self._session)
            return diagnoses.no_eligible_node(demand, nowhere, self._session)
        problems = self._problems.build(demand)
        if fits_when_empty(problems.empty, limits=_LIMITS, answers=self._answers) is False:
            other = start_with_others(demand, self._place_when_empty)
            if other is not None:
                return self._diagnose_in_cluster(other[0], protected)
            facts = explain(problems.empty, limits=_LIMITS, answers=self._answers)
            return _impossible(Case(demand, problems.empty, facts, self._session))
        facts = explain(problems.now, empty=problems.empty, limits=_LIMITS, answers=self._answers)
        missing = _missing_capacity(facts)
        completions = self._completions.find(demand, protected=protected, missing=missing)
        return _waiting(Case(demand, problems.now, facts, self._session, completions))

    def _place_when_empty(self, demand: Demand) -> Placed | None:
        problem = self._problems.build(demand).empty
        if demand.is_whole:
            answer = place_when_empty(problem, limits=_LIMITS, answers=self._answers)
        else:
            answer = self._answers.place(problem, limits=_LIMITS)
        return answer if isinstance(answer, Placed) else None


def _missing_capacity(facts: Explanation) -> Relaxation | None:
    """The capacity that is missing on existing nodes."""
    for change in facts.relaxations:
        if change.kind is RelaxationKind.ADD_CAPACITY and not change.needs_new_node:
            return change
    return None


def _impossible(case: Case) -> Diagnosis:
    rule = _dominant_rule(case)
    if isinstance(rule, Budget):
        return diagnoses.above_queue_limit(case, rule)
    if isinstance(rule, SameDomain):
        return diagnoses.above_domain(case, rule)
    if rule is not None:
        return diagnoses.above_rule(case, rule)
    return diagnoses.above_cluster(case)


def _waiting(case: Case) -> Diagnosis:
    rule = _dominant_rule(case)
    if isinstance(rule, AffinityRule) or (rule is None and _may_be_affinity(case)):
        return diagnoses.pod_affinity(case, rule)
    if isinstance(rule, Budget):
        cells = case.session.cells.named_by(rule.name)
        return diagnoses.cells_reserved(case, cells) if cells else diagnoses.queue_limit(case, rule)
    if isinstance(rule, SameDomain):
        return diagnoses.no_domain(case, rule)
    if rule is not None:
        return diagnoses.no_subgroup_domain(case, rule)
    return diagnoses.insufficient(case)


def _may_be_affinity(case: Case) -> bool:
    """Whether ineligible nodes are in the conflict; other pods may be why they are ineligible."""
    return ELIGIBILITY in case.facts.conflict and has_affinity_terms(case.demand)


def _dominant_rule(case: Case) -> Budget | SameDomain | SubgroupRule | AffinityRule | None:
    """The rule of a conflict to name first: a limit, then a level of the gang, then a rule of some pods.

    If the conflict may not be irreducible, only rules count whose relaxation helps; without such a rule,
    no limit is named.
    """
    named = [rule for rule in case.problem.rules if rule.name in case.facts.conflict]
    if not case.facts.irreducible:
        changed = {change.rule for change in case.facts.relaxations}
        helping = [rule for rule in named if rule.name in changed]
        named = helping or [rule for rule in named if not isinstance(rule, Budget)]
    for rule in named:
        if isinstance(rule, Budget):
            return rule
    for rule in named:
        if isinstance(rule, SameDomain):
            return rule
    return next((rule for rule in named if isinstance(rule, SubgroupRule | AffinityRule)), None)


def smallest(demand: Demand) -> Demand:
    """The part of a demand to explain: all of it, or one pod if any single pod would help."""
    if demand.is_whole:
        return demand
    first = demand.batches[0]
    return replace(demand, batches=(Batch(name=first.name, pods=first.pods[:1], minimum=1),))
