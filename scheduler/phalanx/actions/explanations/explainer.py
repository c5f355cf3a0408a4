"""Explain why a demand does not fit: one dominant reason, its evidence, and what would help.

The solver examines the cluster as the cycle leaves it and the same cluster while it is empty. A demand that
does not fit the empty cluster is impossible. A demand that does, or that may start with other subgroups that
do, is waiting. An irreducible set of conflicting rules gives the reason (an irreducible infeasible subset,
Chinneck 2008); the single relaxations that help, and the holders of capacity whose end helps, give the next
step.
"""

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property, partial
from typing import Final

from msgspec.structs import replace

from phalanx.actions import formatting
from phalanx.actions.demands.demand import Batch, Demand, smallest_parts, without_affinity_terms
from phalanx.actions.demands.gang_demands import with_all_choices
from phalanx.actions.demands.member_choice import start_with_others
from phalanx.actions.explanations import diagnoses, evidence, hold_diagnoses, limit_diagnoses
from phalanx.actions.explanations.advice import Advice
from phalanx.actions.explanations.advice_search import AdviceSearch, Question
from phalanx.actions.explanations.claim_diagnoses import (
    above_limit_of_shared_claims,
    limit_of_shared_claims,
    with_claims,
)
from phalanx.actions.explanations.completions import Completions, CompletionSearch
from phalanx.actions.explanations.deletion_filter import necessary
from phalanx.actions.explanations.diagnoses import Case, Diagnosis
from phalanx.actions.explanations.exclusion_causes import AFFINITY, ANTI_AFFINITY
from phalanx.actions.explanations.explanation_problems import ExplanationProblems, ProblemPair
from phalanx.actions.explanations.fitting_pods import FittingPods, fitting_pods, with_any_members
from phalanx.actions.explanations.relaxed_clusters import EmptyCluster, RelaxedClusters, StayingUsage
from phalanx.actions.explanations.supply_diagnoses import above_supply, scarce_supply
from phalanx.actions.explanations.trials import Change, TrialProblems, Trials
from phalanx.actions.problems.device_choices import best_by_choice, sharing_of
from phalanx.actions.problems.problem_builder import ProblemBuilder
from phalanx.framework.session import Session
from phalanx.limits import EXPLANATION_DETERMINISTIC_LIMIT
from phalanx.model.gangs import kind_of
from phalanx.model.names import GangId
from phalanx.model.reasons import Category, Reason
from phalanx.model.supplies.devices.session.session_devices import claimed_devices
from phalanx.rules.budget import budgets_in
from phalanx.rules.problem import Obstacle, PlacementProblem, Rule
from phalanx.solver.answer import Placed, SolveLimits
from phalanx.solver.answer_cache import AnswerCache
from phalanx.solver.infeasibility.explain import (
    Explanation,
    explain,
    fits_when_empty,
    place_when_empty,
)
from phalanx.solver.infeasibility.feasibility import FeasibilityOracle, feasibility_problem
from phalanx.solver.infeasibility.largest_fit import LargestFit, largest_fit

ADVICE_SOLVES_MAX: Final = 64
"""Solves to verify the advice of one verdict: each kind of advice takes one to ten. As many again to leave
out what is needless of several fields or of several actions together, and for the amounts of these."""

ADVICE_KINDS_MAX: Final = 4096
"""Kinds of pods that all solves for the advice of one verdict read, on all nodes. A gang of up to 64 kinds
gets all solves, and one of 4,096 kinds a single one: all tenants share the cycle."""

CYCLE_EXPLANATION_SOLVES: Final = 128
"""Solves after which a cycle begins no further explanation: six to ten explanations, each in about 40 ms on
1,000 nodes."""

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

    def __init__(
        self,
        session: Session,
        answers: AnswerCache,
        failed: Iterable[Demand] = (),
        *,
        defers_advice: bool = False,
    ) -> None:
        """`failed` are all failed demands of the cycle. `defers_advice`: without advice until
        `begin_advice`."""
        self._session = session
        self._defers_advice = defers_advice
        self._answers = answers
        self._builder = ProblemBuilder(session, may_grow=True)
        self._empty = EmptyCluster(session)
        self._problems = ExplanationProblems(session, self._empty)
        self._relaxed = RelaxedClusters(session)
        self._completions = CompletionSearch(session, self._builder, answers, limits=_LIMITS)
        staying = StayingUsage(session, lambda: self._completions.holders)
        self._trial_problems = TrialProblems(session, self._builder, staying)
        self._partial = frozenset(demand.gang.id for demand in failed if not demand.is_whole)
        self._known: dict[Hashable, tuple[Diagnosis, Demand]] = {}
        """The diagnoses, each with the demand that was examined."""
        self.count = 0
        """The number of distinct demands that were examined."""
        self._given_before = answers.given

    @property
    def has_solves(self) -> bool:
        """Whether the solves of a cycle are not used up."""
        return self._answers.given - self._given_before < CYCLE_EXPLANATION_SOLVES

    def begin_advice(self) -> None:
        """Explain with advice from now on."""
        self._defers_advice, self._known = False, {}

    def explain(self, demand: Demand, *, may_solve: bool) -> Diagnosis | None:
        """Why not even the smallest useful part of the demand fits; None if unknown.

        Of several parts of which each would help alone, the first one is examined that is possible.
        The diagnosis of an equal demand costs almost nothing; a new one needs `may_solve`.
        """
        with self._session.respecting_nominations(demand.gang):
            return self._explain(demand, may_solve=may_solve)

    def _explain(self, demand: Demand, *, may_solve: bool) -> Diagnosis | None:
        parts = self._parts(demand)
        protected = self._protected(demand)
        problems = tuple(map(self._builder.key, parts))
        key = (problems, protected, demand.choice and demand.choice.key, _advised(demand))
        if key not in self._known and may_solve:
            self.count += 1
            part = self._first_possible(parts)
            found = replace(self._diagnose(part, protected), subgroup=part.outer_subgroup)
            self._known[key] = found, demand
        known = self._known.get(key)
        return _about(demand, *known) if known is not None else None

    def _parts(self, demand: Demand) -> tuple[Demand, ...]:
        """What may start alone: all of the demand or single pods of it; for a subgroup then other ones.

        Members of subgroups that have started go before other subgroups.
        """
        others = self._trial_problems.beside(demand) if demand.outer_subgroup else ()
        names = ("", demand.outer_subgroup)
        return (*smallest_parts(demand), *(other for other in others if other.outer_subgroup not in names))

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

    def _first_possible(self, parts: Sequence[Demand]) -> Demand:
        """The first part that may fit the empty cluster; the first of all if none may."""
        if len(parts) == 1:
            return parts[0]
        possible = (part for part in parts if self._may_fit_empty(self._problems.build(part)))
        return next(possible, parts[0])

    def _may_fit_empty(self, problems: ProblemPair) -> bool:
        return fits_when_empty(problems.empty, limits=_LIMITS, answers=self._answers) is not False

    def _diagnose(self, demand: Demand, protected: frozenset[GangId]) -> Diagnosis:
        found = with_claims(self._diagnose_in_cluster(demand, protected), demand)
        if found.reason in _ABOUT_NODES and self._relaxed.fits_without_breaker(demand):
            return diagnoses.breaker_open(demand, self._session)
        if found.reason in _ABOUT_CAPACITY and self._relaxed.fits_without_capacity_holds(demand):
            return hold_diagnoses.capacity_reserved(self._session)
        if found.reason in _ABOUT_CAPACITY and self._relaxed.fits_without_nominations(demand):
            return diagnoses.capacity_nominated(demand, self._session)
        if found.reason.category is Category.IMPOSSIBLE and self._is_any_node_unavailable:
            return self._diagnose_unavailable_nodes(demand, found) or found
        return found

    def _with_devices_that_fit(self, demand: Demand) -> tuple[ProblemPair, bool]:
        """The problems, and whether the demand may fit the empty cluster, for the first devices of the claims
        that its gang shares for which it may."""
        sharing = sharing_of(self._session, demand)

        def may_fit(problems: ProblemPair) -> int:
            return demand.count if self._may_fit_empty(problems) else 0

        if sharing is None:
            problems = self._problems.build(demand)
            return problems, bool(may_fit(problems))
        devices = claimed_devices(self._empty.session_for(demand.gang))
        devices.needs.know(sharing.need, claimed_devices(self._session).needs)
        found = best_by_choice(
            devices.shared, sharing, lambda: self._problems.build(demand), may_fit, most=may_fit
        )
        return found.answer, found.is_bounded or bool(may_fit(found.answer))

    @cached_property
    def _is_any_node_unavailable(self) -> bool:
        return any(map(self._session.is_out_of_service, self._session.nodes))

    def _diagnose_unavailable_nodes(self, demand: Demand, found: Diagnosis) -> Diagnosis | None:
        """A diagnosis if the demand fits the empty cluster with all nodes available."""
        record, place = self._session.records.of(demand.gang), self._place_on_all_nodes
        anyone = with_all_choices(demand, record)
        if place(demand) is None and start_with_others(anyone, place) is None:
            return None
        available = self._relaxed.session_with_all_nodes(demand)
        return diagnoses.nodes_unavailable(demand, self._session, available, found.advice)

    def _place_on_all_nodes(self, demand: Demand) -> Placed | None:
        return self._place(demand, self._problems.build_with_all_nodes(demand))

    def _diagnose_in_cluster(
        self, demand: Demand, protected: frozenset[GangId], asked: Demand | None = None
    ) -> Diagnosis:
        """`asked`: the demand of which this one has other members, if it has."""
        problems, may_fit_empty = self._with_devices_that_fit(demand)
        is_first = not may_fit_empty and asked is None
        other = start_with_others(demand, self._place_when_empty) if is_first else None
        if other is not None:
            is_other_set = demand.choice is not None and not demand.choice.subgroups
            return self._diagnose_in_cluster(other[0], protected, demand if is_other_set else None)
        without_terms = replace(demand, batches=tuple(map(without_affinity_terms, demand.batches)))
        nowhere = evidence.nowhere_eligible(without_terms, self._session)
        if nowhere is not None:
            return self._diagnose_no_eligible_node(demand, without_terms, nowhere)
        scarce = scarce_supply(demand, self._session)
        if scarce is not None:
            return scarce
        if not may_fit_empty:
            facts = explain(
                problems.empty,
                exclusions=problems.exclusions_when_empty,
                limits=_LIMITS,
                answers=self._answers,
            )
            fitting = self._fitting(asked or demand, facts if asked is None else None, when_empty=True)
            advice = self._advice(Question(demand, facts, is_impossible=True, fitting=fitting))
            return _impossible(Case(demand, problems.empty, facts, self._session, fitting, advice=advice))
        return self._diagnose_waiting(demand, problems, protected, asked or demand)

    def _diagnose_no_eligible_node(self, demand: Demand, without_terms: Demand, nowhere: Batch) -> Diagnosis:
        """Another reason if it is too large for the nodes that could take it if they were available."""
        available = self._relaxed.session_with_all_nodes(demand) if self._is_any_node_unavailable else None
        always = evidence.nowhere_eligible(without_terms, available) if available is not None else None
        if available is not None and always is None:
            problem = self._problems.build_with_all_nodes(demand)
            facts = explain(problem, limits=_LIMITS, answers=self._answers)
            if facts.conflict:
                advice = self._advice(Question(demand, facts, is_impossible=True))
                fitting = self._fitting(demand, None, when_empty=True)
                return _impossible(
                    Case(demand, problem, facts, self._session, fitting, available, advice=advice)
                )
        fitting = self._fitting(demand, None, when_empty=True)
        advice = self._advice(Question(demand, facts=None, is_impossible=True, fitting=fitting))
        if available is not None and always is not None:
            return diagnoses.no_eligible_node(demand, always, self._session, advice, available)
        return diagnoses.no_eligible_node(demand, nowhere, self._session, advice)

    def _diagnose_waiting(
        self, demand: Demand, problems: ProblemPair, protected: frozenset[GangId], asked: Demand
    ) -> Diagnosis:
        facts = explain(
            problems.now,
            empty=problems.empty,
            exclusions=problems.exclusions,
            limits=_LIMITS,
            answers=self._answers,
        )
        fitting = self._fitting(asked, facts if asked is demand else None, when_empty=False)
        completions: Completions = ()
        if not self._defers_advice:
            found = self._completions.find(demand, protected=protected, missing=facts.missing)
            completions = self._needed(demand, found)
        advice = self._advice(
            Question(demand, facts, is_impossible=False, fitting=fitting, completions=completions)
        )
        return _waiting(
            Case(demand, problems.now, facts, self._session, fitting, completions=completions, advice=advice)
        )

    def _fitting(self, demand: Demand, facts: Explanation | None, *, when_empty: bool) -> FittingPods:
        """How many pods of the demand fit. `facts`, if known, are about its own pods only."""
        wanted, estimated = with_any_members(demand), self._is_estimated(demand)
        is_alone = demand.choice is None or bool(demand.choice.subgroups)
        if demand.count == 1:
            return FittingPods((), needed=1, is_most=True)
        if facts is not None and is_alone and facts.most_proven and not estimated:
            known = LargestFit(facts.most, (), proven=True)
            return fitting_pods(demand, wanted, known, is_exact=True)
        pair = self._problems.build(wanted, only_certain=True)
        problem = pair.empty if when_empty else pair.now
        core = replace(feasibility_problem(problem), roles=problem.roles)
        found = largest_fit(core, partial(self._answers.place, limits=_LIMITS))
        return fitting_pods(demand, wanted, found, is_exact=not estimated)

    def _needed(self, demand: Demand, found: Completions) -> Completions:
        """Those that must end. Other members or subgroups may start after fewer have ended."""
        trials = Trials(self._trial_problems, FeasibilityOracle(self._answers, _LIMITS))
        if not trials.has_others(demand):
            return found
        return tuple(necessary(found, lambda fewer: trials.starts(Change(demand, ended=fewer))))

    def _is_estimated(self, demand: Demand) -> bool:
        """Whether of pods with different claims or needs only those count that fit for certain."""
        shapes = [batch.pods[0].shape for batch in demand.batches]
        return any(supply.is_estimated(shapes) for supply in self._session.supplies) or any(
            evidence.is_mixed(each, demand) for each in self._session.facts.open_supplies
        )

    def _advice(self, question: Question) -> Advice:
        if self._defers_advice:
            return Advice(is_pending=True)
        solves = min(ADVICE_SOLVES_MAX, ADVICE_KINDS_MAX // max(1, len(question.demand.batches)))
        oracle = FeasibilityOracle(self._answers, _LIMITS, solves=solves)
        trials = Trials(self._trial_problems, oracle)
        return AdviceSearch(self._session, trials, question).find()

    def _place_when_empty(self, demand: Demand) -> Placed | None:
        return self._place(demand, self._problems.build(demand).empty)

    def _place(self, demand: Demand, problem: PlacementProblem) -> Placed | None:
        """The demand on nodes without pods."""
        if demand.is_whole:
            answer = place_when_empty(problem, limits=_LIMITS, answers=self._answers)
        else:
            answer = self._answers.place(problem, limits=_LIMITS)
        return answer if isinstance(answer, Placed) else None


def _advised(demand: Demand) -> Hashable:
    """What an advice may depend on beside the problem, so that demands that share it share the advice."""
    gang, pods = demand.gang, [pod for batch in demand.batches for pod in batch.pods]
    kinds = {kind_of(pod) for pod in gang.members if pod.is_waiting}
    has_others = demand.choice is not None or not kinds.issubset(map(kind_of, pods))
    own = gang.id if has_others or gang.active else ""
    roles = tuple((role.name, role.min_member) for role in gang.roles)
    return (own, gang.kind, gang.min_member, roles, demand.cause)


def _impossible(case: Case) -> Diagnosis:
    rules = _named_rules(case)
    if limited := _limited(case, rules[:1], is_empty=True):
        return limited
    if case.facts.obstacle is Obstacle.AFFINITY:
        return diagnoses.above_rule(case, _affinity(case, rules)[1])
    if rules and rules[0].gang_level:
        return diagnoses.above_domain(case, rules[0].gang_level)
    return diagnoses.above_rule(case, rules[0].name) if rules else diagnoses.above_cluster(case)


def _waiting(case: Case) -> Diagnosis:
    rules = _named_rules(case)
    if limited := _limited(case, rules[:1], is_empty=False):
        return limited
    if case.facts.obstacle is Obstacle.AFFINITY:
        return diagnoses.pod_affinity(case, *_affinity(case, rules))
    if rules and rules[0].gang_level:
        return diagnoses.no_domain(case, rules[0].gang_level)
    return diagnoses.no_rule(case, rules[0].name) if rules else diagnoses.insufficient(case)


def _limited(case: Case, first: Sequence[Rule], *, is_empty: bool) -> Diagnosis | None:
    """What the first rule says if it has words of its own or is a budget."""
    for words in [rule.words for rule in first if rule.words is not None]:
        return limit_diagnoses.plugin_limit(case, words, is_empty=is_empty)
    for budget in budgets_in(first):
        supply = case.session.supply_of(budget)
        if supply is not None and supply.counts_for_users:
            return above_supply(case.demand, budget, supply)
        if supply is not None:
            return diagnoses.above_cluster(case) if is_empty else diagnoses.insufficient(case)
        if is_empty:
            claims = above_limit_of_shared_claims(case, budget)
            return claims or limit_diagnoses.above_queue_limit(case, budget)
        return limit_of_shared_claims(case, budget) or limit_diagnoses.queue_limit(case, budget)
    return None


def _named_rules(case: Case) -> list[Rule]:
    """The rules in the conflict that are part of the obstacle; levels of the whole gang come first."""
    rules = [rule for rule in case.conflicting if rule.obstacle is case.facts.obstacle]
    return sorted(rules, key=lambda rule: not rule.gang_level)


def _affinity(case: Case, rules: Sequence[Rule]) -> tuple[Reason, str]:
    """The reason and the name of the affinity or anti-affinity in the conflict."""
    if ANTI_AFFINITY in case.facts.conflict:
        return Reason.POD_ANTI_AFFINITY, ANTI_AFFINITY
    return (rules[0].reason, rules[0].name) if rules else (Reason.POD_AFFINITY, AFFINITY)


def _about(demand: Demand, diagnosis: Diagnosis, examined: Demand) -> Diagnosis:
    """The diagnosis of an equal demand, with the pods of this one where evidence names pods."""
    if demand is examined or not demand.is_whole:
        return diagnosis
    pairs = zip(examined.batches, demand.batches, strict=True)
    named = {formatting.named_pods(old.pods): formatting.named_pods(new.pods) for old, new in pairs}
    found = [replace(each, subject=named.get(each.subject, each.subject)) for each in diagnosis.evidence]
    return replace(diagnosis, evidence=tuple(found))
