"""Bugs of evictions: too many, wrong victims, no beneficiary, capacity that others take (4.8)."""

from typing import Final

from tests.bugbank.bank import Mutant, Played


def _play(name: str) -> Played:
    return Played(f"plays_world_evictions:{name}")


EVICTIONS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="gangs of equal priority evict each other",
        issues=("Volcano #377",),
        module="phalanx_plugins.priority_preemption",
        edits={"victim.priority < gang.priority": "victim.priority <= gang.priority"},
        caught_by=_play("gangs_of_equal_priority_do_not_evict_each_other"),
    ),
    Mutant(
        name="preemptionPolicy Never is ignored",
        issues=("preemptionPolicy Never",),
        module="phalanx_plugins.priority_preemption",
        edits={"gang.may_preempt and victim.queue": "victim.queue"},
        caught_by=_play("preemption_policy_never_evicts_no_pod"),
    ),
    Mutant(
        name="a gang that is finishing is evicted for another",
        issues=("KAI #1968",),
        module="phalanx_plugins.disruption",
        edits={"finishing * 1000 + most if finishing else 0": "0"},
        caught_by=_play("a_finishing_gang_is_not_evicted"),
    ),
    Mutant(
        name="a member is evicted although its gang becomes incomplete",
        issues=("Volcano #3291",),
        module="phalanx.framework.evictions",
        edits={"excess = len(kept) - gang.min_member": "excess = len(kept)"},
        caught_by=_play("a_gang_is_evicted_completely"),
    ),
    Mutant(
        name="disruption budgets are ignored",
        issues=("KAI #1579", "Volcano #2947"),
        module="phalanx_plugins.disruption_budgets",
        edits={"count=max(0, budget.allowed - len(fresh))": "count=len(pods)"},
        caught_by=_play("a_budget_protects_from_eviction"),
    ),
    Mutant(
        name="a deletion that a budget has not counted yet is allowed twice",
        issues=("kubernetes #91492",),
        module="phalanx_plugins.disruption_budgets",
        edits={"budget.allowed - len(fresh)": "budget.allowed"},
        caught_by=_play("an_uncounted_deletion_reduces_the_budget"),
    ),
    Mutant(
        name="pods that are being deleted are evicted again",
        issues=("Kueue #9437",),
        module="phalanx.actions.preempt",
        edits={"not pod.assumed) and self._session.pod_state(pod) is PodState.BOUND": "not pod.assumed)"},
        caught_by=_play("a_terminating_pod_is_not_evicted_again"),
    ),
    Mutant(
        name="a nomination on a lost node is kept",
        issues=("kubernetes #95752",),
        module="phalanx.actions.preemption.nominations",
        edits={
            "now < each.until and self._is_usable(gang, each)": "now < each.until and gang in session.gangs"
        },
        caught_by=_play("a_nomination_ends_when_its_node_is_lost"),
    ),
    Mutant(
        name="a nomination never expires",
        issues=("kubernetes #106780",),
        module="phalanx.actions.preemption.nominations",
        edits={"each.usage and now < each.until": "each.usage"},
        caught_by=_play("a_nomination_expires"),
    ),
    Mutant(
        name="freed capacity is given to other gangs",
        issues=("kubernetes #72124", "kubernetes #55933"),
        module="phalanx.actions.preemption.nominations",
        edits={"self._hold(gang, statement, beyond)\n": "pass\n"},
        caught_by=_play("freed_capacity_is_held_for_the_beneficiary"),
    ),
    Mutant(
        name="reclaim ignores the victims' guarantee",
        issues=("Kueue #13662",),
        module="phalanx.framework.queues.guarantees",
        edits={"frozenset(self._cover(queue, selector, name))": "frozenset()"},
        caught_by=_play("a_guarantee_is_kept"),
    ),
    Mutant(
        name="borrowed capacity is never reclaimed",
        issues=("Kueue #11502",),
        module="phalanx_plugins.reclaim",
        edits={"if not any(all(part.get(": "if True or not any(all(part.get("},
        caught_by=_play("borrowed_capacity_is_reclaimed"),
    ),
    Mutant(
        name="a running gang is evicted, and a start of the same cycle stays",
        issues=("evictions that a decision which was not sent makes necessary",),
        module="phalanx.actions.preemption.starts",
        edits={
            "for some in (starts, [*starts, *victims]):": "for some in ():",
            "[start for start in starts if not is_ahead(start)]": "[]",
        },
        caught_by=_play("a_start_is_given_up_before_an_eviction"),
    ),
)
