"""Bugs about evictions: too many, of the wrong ones, for nobody, and capacity that others take (4.8)."""

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
        caught_by=_play("equals_do_not_evict_each_other"),
    ),
    Mutant(
        name="the policy Never is not asked",
        issues=("preemptionPolicy Never",),
        module="phalanx_plugins.priority_preemption",
        edits={"gang.may_preempt and victim.queue": "victim.queue"},
        caught_by=_play("who_says_never_evicts_nobody"),
    ),
    Mutant(
        name="a gang that is finishing is evicted for another",
        issues=("KAI #1968",),
        module="phalanx.actions.preemption.victims",
        edits={"session.gangs.values() if not gang.is_finishing]": "session.gangs.values()]"},
        caught_by=_play("a_finishing_gang_is_left_alone"),
    ),
    Mutant(
        name="a member without which its gang is broken goes alone",
        issues=("Volcano #3291",),
        module="phalanx.actions.preemption.victims",
        edits={
            "len(holders) <= gang.min_member:": "not holders:",
            "and len(kept) > gang.min_member:": "and kept:",
            "if part and gang.minimum.is_reached(rest):": "if part:",
        },
        caught_by=_play("a_gang_goes_whole"),
    ),
    Mutant(
        name="budgets are not asked",
        issues=("KAI #1579", "Volcano #2947"),
        module="phalanx_plugins.disruption_budgets",
        edits={"count=max(0, budget.allowed - len(fresh))": "count=len(pods)"},
        caught_by=_play("a_budget_protects_from_eviction"),
    ),
    Mutant(
        name="a budget that has not counted a deletion allows it again",
        issues=("kubernetes #91492",),
        module="phalanx_plugins.disruption_budgets",
        edits={"budget.allowed - len(fresh)": "budget.allowed"},
        caught_by=_play("a_deletion_that_a_budget_has_not_counted_counts"),
    ),
    Mutant(
        name="who is being deleted is evicted again",
        issues=("Kueue #9437",),
        module="phalanx.actions.preempt",
        edits={"if not pod.assumed and self._session.pod_state(pod) is PodState.BOUND": "if not pod.assumed"},
        caught_by=_play("who_leaves_is_not_evicted_again"),
    ),
    Mutant(
        name="capacity is waited for on a node whose kubelet is dead",
        issues=("kubernetes #95752",),
        module="phalanx.actions.preemption.nominations",
        edits={"gang in session.gangs and self._is_usable(each)": "gang in session.gangs"},
        caught_by=_play("capacity_is_looked_for_again_when_its_node_dies"),
    ),
    Mutant(
        name="a nomination never ends",
        issues=("kubernetes #106780",),
        module="phalanx.actions.preemption.nominations",
        edits={"each.usage and now < each.until": "each.usage"},
        caught_by=_play("capacity_that_never_comes_is_looked_for_elsewhere"),
    ),
    Mutant(
        name="what was freed is taken by who comes by",
        issues=("kubernetes #72124", "kubernetes #55933"),
        module="phalanx.actions.preemption.nominations",
        edits={"self._hold(gang, statement, beyond)\n": "pass\n"},
        caught_by=_play("what_was_freed_is_not_for_others"),
    ),
    Mutant(
        name="a queue takes what another is guaranteed",
        issues=("Kueue #13662",),
        module="phalanx_plugins.reclaim",
        edits={"_beyond(evictable, share.guarantee)": "{}"},
        caught_by=_play("a_guarantee_is_kept"),
    ),
    Mutant(
        name="what was borrowed is not given back",
        issues=("Kueue #11502",),
        module="phalanx_plugins.reclaim",
        edits={"return self._known[victim.queue]": "return False"},
        caught_by=_play("what_is_borrowed_comes_back"),
    ),
)
