"""Bugs of queues and ordering: limits and ledgers that drift, starvation, hot loops."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_LIMIT: Final = Played("plays_world_queues:a_limit_is_used_up_to_its_end")
_ORDER: Final = Played("plays_world_queues:higher_priority_and_older_gangs_are_first")
_SAID: Final = Played("plays_world_queues:a_refusal_is_not_solved_again")
_QUIET: Final = Played("plays_world_queues:a_waiting_gang_triggers_no_cycles")

QUEUES: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a limit is compared with the new request only",
        issues=("Kueue #11210",),
        module="phalanx_plugins.queue_limits",
        edits={"amount - used.get(resource, 0)": "amount"},
        caught_by=Played("plays_world_queues:running_pods_count_against_limits"),
    ),
    Mutant(
        name="a queue's limit does not apply to its children",
        issues=("Kueue #4165",),
        module="phalanx.framework.queues.ledger",
        edits={
            "self._totals[queue] = tuple((ancestor.name, None) for ancestor in path)": (
                "self._totals[queue] = tuple((ancestor.name, None) for ancestor in path[:1])"
            )
        },
        caught_by=Played("plays_world_queues:a_parent_limits_all_its_children"),
    ),
    Mutant(
        name="placed pods are counted twice in the ledger",
        issues=("Volcano #5100", "Volcano #5130", "Volcano #5253"),
        module="phalanx.framework.statement",
        edits={"_book(gang.queue, node, load)": "_book(gang.queue, node, add(load, load))"},
        caught_by=Played("plays_world_queues:surplus_uses_a_limit_up_to_its_end"),
    ),
    Mutant(
        name="placed pods are not counted before the next cycle",
        issues=("Kueue #14646", "Volcano #5180"),
        module="phalanx.framework.statement",
        edits={"_book(gang.queue, node, load)": "_book(gang.queue, node, {})"},
        caught_by=_LIMIT,
    ),
    Mutant(
        name="overlapping flavors are counted once",
        issues=("Kueue #11210",),
        module="phalanx.framework.queues.ledger",
        edits={
            "in self._flavored[queue] if node in nodes)": "in self._flavored[queue][:1] if node in nodes)"
        },
        caught_by=Played("plays_world_queues:overlapping_flavors_both_count"),
    ),
    Mutant(
        name="deleting a queue ends the scheduler",
        issues=("Kueue #5138", "Kueue #5292"),
        module="phalanx.framework.queues.queue_tree",
        edits={"return self._paths.get(name, ())": "return self._paths[name]"},
        caught_by=Played("plays_world_queues:a_queue_with_gangs_is_deleted"),
    ),
    Mutant(
        name="cycles of queues are not detected",
        issues=("cyclic queues",),
        module="phalanx.model.conversion.queues",
        edits={"    if queue.name in cycles:\n": "    if not by_name:\n"},
        caught_by=Played("plays_world_queues:cyclic_queues_accept_no_gangs"),
    ),
    Mutant(
        name="lower priorities are placed first",
        issues=("kubernetes #55933",),
        module="phalanx_plugins.priority",
        edits={"return GangOrder(rank=-gang.priority)": "return GangOrder(rank=gang.priority)"},
        caught_by=_ORDER,
    ),
    Mutant(
        name="the newest gangs are placed first, and the oldest starve",
        issues=("scheduler-plugins #713", "koordinator #1919"),
        module="phalanx_plugins.fifo",
        edits={"key=(view.records.queued_since(gang),": "key=(-view.records.queued_since(gang),"},
        caught_by=_ORDER,
    ),
    Mutant(
        name="a changed value of a priority class is ignored",
        issues=("Kueue #9661",),
        module="phalanx.cache.gangs",
        edits={"if group.priority_class == name:": "if group.priority_class == name and group.started:"},
        caught_by=Played("plays_world_queues:a_priority_class_gets_another_value"),
    ),
    Mutant(
        name="the first gang that does not fit blocks the queue",
        issues=("Kueue #11502",),
        module="phalanx.actions.allocate",
        edits={"if allocation.is_held_back(demand):": "if cycle.outcome.failures:"},
        caught_by=Played("plays_world_queues:a_large_gang_does_not_block_small_ones"),
    ),
    Mutant(
        name="a refusal is solved again in every cycle",
        issues=("Kueue #12002", "Kueue #6570"),
        module="phalanx.framework.retry",
        edits={"self._snapshot.capacity_version, keys.all": "self._snapshot.now, keys.all"},
        caught_by=_SAID,
    ),
    Mutant(
        name="a refusal is explained again in every cycle",
        issues=("Kueue #12002",),
        module="phalanx.actions.verdicts",
        edits={
            "if failure.remembered is not None and failure.remembered.explained:": (
                "if failure.remembered is not None and not failure.tried:"
            )
        },
        caught_by=_SAID,
    ),
    Mutant(
        name="waiting gangs trigger the next cycle at once",
        issues=("Kueue #12002", "Kueue #10478"),
        module="phalanx.actions.context",
        edits={"if not self.is_complete:": "if not self.is_complete or self.session.verdicts:"},
        caught_by=_QUIET,
    ),
    Mutant(
        name="node heartbeats trigger cycles and clear refusals",
        issues=("Kueue #6570", "Kueue #8452"),
        module="phalanx.cache.nodes",
        edits={
            "        if self._written.get(key) != relevant:\n": (
                "        log.mark_capacity_grew()\n        if self._written.get(key) != relevant:\n"
            )
        },
        caught_by=Played("plays_world_queues:heartbeats_trigger_no_cycles"),
    ),
    Mutant(
        name="the scheduler's own conditions trigger cycles",
        issues=("Kueue #12002",),
        module="phalanx.cache.gangs",
        edits={"structs.replace(old, scheduled=new.scheduled, nominated=new.nominated) != new": "old != new"},
        caught_by=Played("plays_world_queues:own_conditions_trigger_no_cycles"),
    ),
    Mutant(
        name="a namespace that becomes selected does not trigger a cycle",
        issues=("Kueue #13734", "Kueue #13656"),
        module="phalanx.cache.cluster_objects",
        edits={
            "        log.mark_cluster_changed()\n        self._namespace_changed(": (
                "        self._namespace_changed("
            )
        },
        caught_by=Played("plays_world_queues:a_namespace_becomes_selected"),
    ),
    Mutant(
        name="namespace selectors of parent queues are ignored",
        issues=("Kueue #14617",),
        module="phalanx_plugins.queues",
        edits={
            "if not queue.accepts(labels):": "if queue.name == path[0].name and not queue.accepts(labels):"
        },
        caught_by=Played("plays_world_queues:a_parent_queue_selects_no_namespace"),
    ),
    Mutant(
        name="a queue with older gangs starves the others",
        issues=("starvation between queues",),
        module="phalanx_plugins.drf",
        edits={"dominant_share(above, self._totals) / max(1, queue.weight)": "Fraction(0)"},
        caught_by=Played("plays_world_queues:queues_take_turns"),
    ),
    Mutant(
        name="surplus of one gang is placed before the minimum of another",
        issues=("Volcano #2462",),
        module="phalanx.actions.demands.demand_queue",
        edits={"    if not minimums:\n": "    if minimums or heads:\n"},
        caught_by=Played("plays_world_queues:surplus_is_placed_after_the_minimum_of_others"),
    ),
    Mutant(
        name="pods with scheduling gates are bound",
        issues=("Kueue #14118",),
        module="phalanx.actions.demands.gang_demands",
        edits={"if pod.is_waiting and not pod.gated]": "if pod.is_waiting]"},
        caught_by=Played("plays_world_queues:gated_pods_are_not_bound"),
    ),
    Mutant(
        name="an unknown PersistentVolumeClaim counts as absent",
        issues=("Volcano #5596",),
        module="phalanx_plugins.volumes",
        edits={'why = "it does not exist"': 'why = ""'},
        caught_by=Played("plays_world_queues:a_claim_is_observed_later_than_its_pod"),
    ),
)
