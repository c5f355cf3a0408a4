"""Why a demand finds no place: one dominant reason, its evidence, and what would change it.

The solver is asked about the cluster as the cycle leaves it and about the same cluster with nothing running.
What does not fit the empty cluster is impossible here; what does, or may start with other subgroups that do,
is waiting. The rules that conflict give the reason; the single changes that would make it fit, and the gangs
whose end would, the next step.
"""

from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from phalanx.actions.demands.demand import Batch, Demand, has_affinity_terms, without_affinity_terms
from phalanx.actions.demands.subgroup_choice import start_with_other_subgroups
from phalanx.actions.explanations import diagnoses as findings
from phalanx.actions.explanations import evidence
from phalanx.actions.explanations.completions import CompletionSearch
from phalanx.actions.explanations.diagnoses import Case, Diagnosis
from phalanx.actions.explanations.explanation_problems import Questions
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

_OF_ROOM: Final = (Reason.INSUFFICIENT_CAPACITY, Reason.NO_DOMAIN_FITS)
"""Reasons that may have another behind them: that the room is kept for somebody."""

_OF_NODES: Final = (
    *_OF_ROOM,
    Reason.NO_ELIGIBLE_NODE,
    Reason.ABOVE_CLUSTER_CAPACITY,
    Reason.ABOVE_DOMAIN_CAPACITY,
)
"""Reasons that may come from nodes which are not trusted for now."""

_LIMITS = SolveLimits(deterministic=EXPLANATION_DETERMINISTIC_LIMIT)


class Explainer:
    """Explains refusals of one session, at its end; each distinct demand once. `failed`: all of them."""

    def __init__(self, session: Session, answers: AnswerCache, failed: Iterable[Demand] = ()) -> None:
        self._session = session
        self._answers = answers
        self._problems = ProblemBuilder(session)
        self._questions = Questions(session)
        self._what_if = RelaxedClusters(session)
        self._endings = CompletionSearch(session, answers, limits=_LIMITS)
        self._partial = frozenset(demand.gang.id for demand in failed if not demand.is_whole)
        self._known: dict[Hashable, Diagnosis] = {}
        self.count = 0
        """How many distinct demands were looked at so far."""

    def explain(self, demand: Demand, *, may_think: bool) -> Diagnosis | None:
        """Why not even the smallest useful part of the demand fits; None when that is not known yet.

        A demand equal to one that was explained costs next to nothing; others need leave to think.
        """
        wanted = smallest(demand)
        spared = self._own_room(demand)
        key = (self._problems.key(wanted), spared, wanted.subgroup_choices and wanted.gang.id)
        if key not in self._known and may_think:
            self.count += 1
            self._known[key] = self._find(wanted, spared)
        return self._known.get(key)

    def _own_room(self, demand: Demand) -> frozenset[GangId]:
        """The gangs that no explanation of this demand may send away.

        Itself; where it is about members that a gang can do without, all gangs with such a demand, so that
        their equal demands share an explanation.
        """
        if not demand.is_whole:
            return self._partial
        holds = self._session.assigned_nodes(demand.gang) or any(
            pod.holds_node for pod in demand.gang.members
        )
        return frozenset((demand.gang.id,)) if holds else frozenset()

    def _find(self, demand: Demand, spared: frozenset[GangId]) -> Diagnosis:
        finding = self._find_in_cluster(demand, spared)
        if finding.reason in _OF_NODES and self._what_if.fits_without_breaker(demand):
            return findings.breaker_open(demand, self._session)
        if finding.reason in _OF_ROOM and self._what_if.fits_without_claims(demand):
            return findings.room_kept(self._session)
        if finding.reason.category is Category.IMPOSSIBLE and self._is_any_node_out_of_service:
            return self._without_nodes(demand) or finding
        return finding

    @cached_property
    def _is_any_node_out_of_service(self) -> bool:
        return any(map(self._session.is_out_of_service, self._session.nodes))

    def _without_nodes(self, demand: Demand) -> Diagnosis | None:
        """It would fit the empty cluster if all nodes were in service."""
        there = self._what_if.session_in_service(demand)
        return findings.nodes_out_of_service(demand, self._session, there) if there is not None else None

    def _find_in_cluster(self, demand: Demand, spared: frozenset[GangId]) -> Diagnosis:
        nowhere = evidence.nowhere_eligible(demand, self._session)
        if nowhere is not None:
            others = replace(demand, batches=(without_affinity_terms(nowhere),))
            if evidence.nowhere_eligible(others, self._session) is None:
                return findings.kept_apart(demand, nowhere, self._session)
            return findings.no_eligible_node(demand, nowhere, self._session)
        question = self._questions.ask(demand)
        if fits_when_empty(question.empty, limits=_LIMITS, answers=self._answers) is False:
            other = start_with_other_subgroups(demand, self._place_when_empty)
            if other is not None:
                return self._find_in_cluster(other[0], spared)
            facts = explain(question.empty, limits=_LIMITS, answers=self._answers)
            return _impossible(Case(demand, question.empty, facts, self._session))
        facts = explain(question.now, empty=question.empty, limits=_LIMITS, answers=self._answers)
        ending = self._endings.find(demand, spared=spared, room=_missing_room(facts))
        return _waiting(Case(demand, question.now, facts, self._session, ending))

    def _place_when_empty(self, demand: Demand) -> Placed | None:
        answer = place_when_empty(self._questions.ask(demand).empty, limits=_LIMITS, answers=self._answers)
        return answer if isinstance(answer, Placed) else None


def _missing_room(facts: Explanation) -> Relaxation | None:
    """What is missing on nodes that are there."""
    for change in facts.relaxations:
        if change.kind is RelaxationKind.ADD_CAPACITY and not change.needs_new_node:
            return change
    return None


def _impossible(case: Case) -> Diagnosis:
    rule = _dominant_rule(case)
    if isinstance(rule, Budget):
        return findings.above_queue_limit(case, rule)
    if isinstance(rule, SameDomain):
        return findings.above_domain(case, rule)
    if rule is not None:
        return findings.above_rule(case, rule)
    return findings.above_cluster(case)


def _waiting(case: Case) -> Diagnosis:
    rule = _dominant_rule(case)
    if isinstance(rule, AffinityRule) or (rule is None and _is_kept_away(case)):
        return findings.no_company(case, rule)
    if isinstance(rule, Budget):
        cells = case.session.cells.named_by(rule.name)
        return findings.cells_kept(case, cells) if cells else findings.queue_limit(case, rule)
    if isinstance(rule, SameDomain):
        return findings.no_domain(case, rule)
    if rule is not None:
        return findings.no_subgroup_domain(case, rule)
    return findings.insufficient(case)


def _is_kept_away(case: Case) -> bool:
    """Whether nodes are part of it that the pods may not use, some of them maybe for the pods there."""
    return ELIGIBILITY in case.facts.conflict and has_affinity_terms(case.demand)


def _dominant_rule(case: Case) -> Budget | SameDomain | SubgroupRule | AffinityRule | None:
    """The rule of a conflict to name first: a limit, then a level of the gang, then that of some pods.

    Where not all that is named is to blame, what would help by itself; a limit only if it would.
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
    """The part of a demand whose failure is to be explained: all of it, or one pod where any would help."""
    if demand.is_whole:
        return demand
    first = demand.batches[0]
    return replace(demand, batches=(Batch(name=first.name, pods=first.pods[:1], minimum=1),))
