"""Bugs of gangs: partial starts, members that are never replaced, wrong releases (faults: 4.2)."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

GANGS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="binds are sent before a complete placement exists",
        issues=("Volcano #6010", "Volcano #2462", "scheduler-plugins #930"),
        module="phalanx.actions.demands.gang_demands",
        edits={
            "START, batches_of(gang, chosen, whole=True))": "START, batches_of(gang, chosen, whole=False))"
        },
        caught_by=Played("named:scheduler_plugins_930"),
    ),
    Mutant(
        name="gangs hold partial capacity and wait for the rest",
        issues=("scheduler-plugins #114", "scheduler-plugins #117", "koordinator #872"),
        module="phalanx.actions.demands.demand",
        edits={"minimum=len(group) if whole else 0": "minimum=1 if whole else 0"},
        caught_by=Played("named:scheduler_plugins_117"),
    ),
    Mutant(
        name="a gang starts before its minimum of members exists",
        issues=("scheduler-plugins #930", "Volcano #2462"),
        module="phalanx.actions.demands.gang_demands",
        edits={
            "    missing = needed.members - len(chosen)\n    if missing > 0:": (
                "    missing = 0\n    if missing > 0:"
            )
        },
        caught_by=Played("named:scheduler_plugins_930"),
    ),
    Mutant(
        name="a later subgroup starts with some of its pods",
        issues=("KAI-Scheduler design min-subgroups",),
        module="phalanx.actions.demands.gang_demands",
        edits={
            "batches_of(gang, chosen, whole=True), outer_subgroup=name)": (
                "batches_of(gang, chosen, whole=False), outer_subgroup=name)"
            )
        },
        caught_by=Played("plays_world_topology:a_minimum_of_subgroups_starts"),
    ),
    Mutant(
        name="a gang that starts with other members places their pods twice",
        issues=("KAI-Scheduler design min-subgroups",),
        module="phalanx.actions.allocate",
        edits={
            "        self._outcome.with_other_members.add(demand.gang.id)\n        return True": (
                "        return True"
            )
        },
        caught_by=Played("plays_world_topology:a_minimum_of_subgroups_starts"),
    ),
    Mutant(
        name="an edited PodGroup is not read again",
        issues=("Volcano #6010",),
        module="phalanx.cache.gangs",
        edits={"            self._stale[gang] = None\n": "            pass\n"},
        caught_by=Played("named:volcano_6010"),
    ),
    Mutant(
        name="a recreated PodGroup counts as the old gang",
        issues=("Volcano #6010", "Kueue #13612"),
        module="phalanx.model.conversion.pod_groups",
        edits={"GangId(group.uid if group is not None else f": "GangId(key.name if group is not None else f"},
        caught_by=Played("plays_binding:recreated_group"),
    ),
    Mutant(
        name="a partly bound gang holds its nodes forever",
        issues=("Volcano #5805", "koordinator #1919"),
        module="phalanx.actions.release",
        edits={"            _release(gang, session)\n": "            continue\n"},
        caught_by=Played("plays_binding:half_refused"),
    ),
    Mutant(
        name="the grace period of an incomplete gang restarts in each cycle",
        issues=("koordinator #1919", "Kueue #11654"),
        module="phalanx.actions.release",
        edits={"min(now, known.get(gang.id, now))": "now"},
        caught_by=Played("plays_binding:half_refused"),
    ),
    Mutant(
        name="a finishing gang is released",
        issues=("KAI #1968",),
        module="phalanx.actions.release",
        edits={" or gang.is_finishing": ""},
        caught_by=Played("plays_binding:refused_while_finishing"),
    ),
    Mutant(
        name="the cache hides members that have succeeded",
        issues=("KAI #1968",),
        module="phalanx.cache.pods",
        edits={
            "        self._make_way(key, pod.uid, log)\n": (
                "        self._make_way(key, pod.uid, log)\n"
                '        if pod.phase == "Succeeded":\n'
                '            self.delete(key, "", log)\n'
                "            return\n"
            )
        },
        caught_by=Played("named:kai_1968"),
    ),
    Mutant(
        name="members that have succeeded do not count",
        issues=("KAI #1968", "Volcano #3296"),
        module="phalanx.model.gangs",
        edits={"return self.succeeded > 0": "return self.succeeded == len(self.members)"},
        caught_by=Played("plays_binding:refused_while_finishing"),
    ),
    Mutant(
        name="members that have failed count",
        issues=("Volcano #5805", "Kueue #14118"),
        module="phalanx.model.pods",
        edits={" and not self.deleting and self.phase is not PodPhase.FAILED": " and not self.deleting"},
        caught_by=Played("plays_views:member_fails_at_start"),
    ),
    Mutant(
        name="a single recreated member never reaches the minimum",
        issues=("scheduler-plugins #358", "Volcano #5805"),
        module="phalanx.actions.demands.gang_demands",
        edits={
            "        if record.is_running\n": "        if False\n",
            "    missing = needed.members - len(chosen)\n": "    missing = gang.min_member - len(chosen)\n",
        },
        caught_by=Played("plays_views:failed_member_is_replaced"),
    ),
    Mutant(
        name="a gang that lost members has no precedence over others of its priority",
        issues=("Volcano #5805",),
        module="phalanx.actions.demands.gang_demands",
        edits={"Demand(gang, Stage.REPAIR, REPLACE": "Demand(gang, Stage.SURPLUS, REPLACE"},
        caught_by=Played("named:volcano_5805"),
    ),
    Mutant(
        name="fillers take the capacity held for lost members",
        issues=("Volcano #5805",),
        module="phalanx.actions.reservations.capacity_holds",
        edits={
            "    return CAPACITY_HOLD_WITHOUT_MEMBERS_MS if is_over else CAPACITY_HOLD_MS": (
                "    return 1 if is_over else 1"
            )
        },
        caught_by=Played("named:volcano_5805"),
    ),
    Mutant(
        name="a waiting gang gets no report",
        issues=("Kueue #11502",),
        module="phalanx.service.reporter",
        edits={"        if report != self._reports.get(gang):\n": "        if False:\n"},
        caught_by=Played("named:scheduler_plugins_930"),
    ),
    Mutant(
        name="a gang that lost all members starts again in parts",
        issues=("Volcano #2462", "scheduler-plugins #358"),
        module="phalanx.framework.member_records",
        edits={"return self.has_members and (": "return self.is_placed or ("},
        caught_by=Played("plays_views:all_members_are_lost"),
    ),
    Mutant(
        name="a gang starts without its leader role",
        issues=("Volcano #4803", "Kueue #13766"),
        module="phalanx.model.gangs",
        edits={"{role: count for role, count in missing.items() if count > 0}": "{}"},
        caught_by=Played("plays_views:role_is_missing"),
    ),
)
