"""Bugs with claims to devices: allocated twice, kept for nobody, from pools that are not complete."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_ALLOCATOR: Final = "phalanx.model.supplies.devices.allocator"
_POOLS: Final = "phalanx.model.supplies.devices.pools"
_TABLES: Final = "phalanx.cache.devices.tables"
_DOCUMENTS: Final = "phalanx.kube.devices.claim_documents"


def _played(name: str) -> Played:
    return Played(f"plays_world_devices:{name}")


DEVICES: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a decided device is free until the API shows its allocation",
        issues=("kubernetes #133602", "kubernetes #136269"),
        module=_TABLES,
        edits={
            "        if claim is None or claim.allocation is not None or claim.uid not in self._assumed:\n": (
                "        if claim is None or claim.uid:\n"
            )
        },
        caught_by=_played("a_decided_allocation_counts"),
    ),
    Mutant(
        name="an allocation in flight outlives the placement that was given up",
        issues=("Volcano #5103",),
        module=_TABLES,
        edits={"                del self._assumed[claim]\n": "                claims = ()\n"},
        caught_by=_played("a_placement_that_was_given_up_leaves_nothing"),
    ),
    Mutant(
        name="an allocation that was seen is assumed again",
        issues=("kubernetes #140269",),
        module=_TABLES,
        edits={
            "            if each.allocation is not None and not self._is_allocated(each)\n": (
                "            if each.allocation is not None\n"
            )
        },
        caught_by=_played("an_allocation_that_was_seen_is_not_assumed_again"),
    ),
    Mutant(
        name="new slices of a driver do not let pods be tried",
        issues=("kubernetes #126807",),
        module=_TABLES,
        edits={
            "_old: object, _new: object, log: ChangeLog) -> None:\n"
            "        self._view = None\n"
            "        log.mark_supply_changed(self.name, do_gangs_wait=self._pods.do_wait)\n": (
                "_old: object, _new: object, log: ChangeLog) -> None:\n        self._view = None\n"
            )
        },
        caught_by=_played("new_devices_let_gangs_be_tried"),
    ),
    Mutant(
        name="a deleted claim does not let pods be tried",
        issues=("kubernetes #140831",),
        module="phalanx.cache.devices.users",
        edits={
            "    if new is None or new.allocation is None:\n": (
                "    if new is None:\n        return False\n    if new.allocation is None:\n"
            )
        },
        caught_by=_played("a_deleted_claim_lets_gangs_be_tried"),
    ),
    Mutant(
        name="an incomplete pool of devices is used",
        issues=("kubernetes #130043", "Kueue #14573"),
        module=_POOLS,
        edits={"        if len(everything) != expected:\n": "        if not everything:\n"},
        caught_by=_played("a_pool_is_replaced_slice_by_slice"),
    ),
    Mutant(
        name="slices of an old generation count",
        issues=("Kueue #14573",),
        module=_POOLS,
        edits={
            "            if each.generation > known[0].generation:\n": (
                "            if each.generation < known[0].generation:\n"
            )
        },
        caught_by=_played("a_withdrawn_device_is_not_used"),
    ),
    Mutant(
        name="taints of devices are not compared with tolerations",
        issues=("Karpenter #3233",),
        module=_ALLOCATOR,
        edits={
            "        is_right = request.tolerates(device.taints)\n": "        is_right = True\n",
        },
        caught_by=_played("a_tainted_device_is_not_used"),
    ),
    Mutant(
        name="counters of a device that was refused for its taint stay taken",
        issues=("kubernetes #140431",),
        module=_ALLOCATOR,
        edits={
            "            if counted:\n"
            "                self._counters.give_back(each.pool.id, device)\n"
            "            return False\n": "            return False\n",
        },
        caught_by=_played("counters_of_a_refused_device_are_free"),
    ),
    Mutant(
        name="counters of devices that are in use are free for the next claim",
        issues=("kubernetes #139034",),
        module="phalanx.model.supplies.devices.counters",
        edits={
            "                    if device.consumes and (*pool.id, device.name) in used:\n": (
                "                    if device.consumes is None:\n"
            )
        },
        caught_by=_played("counters_of_devices_in_use_are_taken"),
    ),
    Mutant(
        name="each share of a device uses its counters again",
        issues=("kubernetes #134100", "kubernetes #140433"),
        module=_ALLOCATOR,
        edits={
            "        counted = not (device.allows_shares and self._shares.is_shared(each.id))\n": (
                "        counted = True\n"
            )
        },
        caught_by=_played("a_second_share_needs_no_counters"),
    ),
    Mutant(
        name="counters of devices of which shares are in use are free",
        issues=("kubernetes #139034",),
        module="phalanx.model.supplies.devices.counters",
        edits={"devices_used(in_use) if counted else": "frozenset(in_use) if counted else"},
        caught_by=_played("shares_in_use_use_counters"),
    ),
    Mutant(
        name="a constraint keeps the values of devices that were given back",
        issues=("kubernetes #140300",),
        module=_ALLOCATOR,
        edits={
            "        self._constraints[claim].remove(request, each.device)\n        if last.counted:\n": (
                "        if last.counted:\n"
            )
        },
        caught_by=_played("a_constraint_forgets_what_was_given_back"),
    ),
    Mutant(
        name="an alternative for all devices that failed keeps those that it had",
        issues=("kubernetes #131660",),
        module=_ALLOCATOR,
        edits={"            self._taken[each.id].discard(claim)\n": "            pass\n"},
        caught_by=_played("an_alternative_that_failed_leaves_its_devices"),
    ),
    Mutant(
        name="the devices of one member are not chosen so that the others fit",
        issues=("kubernetes #138765",),
        module="phalanx.model.supplies.devices.slots",
        edits={"        while count < most and exact:\n": "        while count < 0:\n"},
        caught_by=_played("members_leave_devices_to_each_other"),
    ),
    Mutant(
        name="tolerations of a request are not written with its allocation",
        issues=("kubernetes #134434",),
        module=_DOCUMENTS,
        edits={'            result["tolerations"] = tolerations\n': "            pass\n"},
        caught_by=_played("tolerations_are_written"),
    ),
    Mutant(
        name="devices that other pods of a shared claim use are given back",
        issues=("kubernetes #122415",),
        module=_DOCUMENTS,
        edits={
            "        not rest\n        and grant.allocation is not None\n": (
                "        grant.allocation is not None\n"
            )
        },
        caught_by=_played("the_allocation_stays_for_the_other_consumers"),
    ),
    Mutant(
        name="claims that an earlier leader reserved for waiting pods are kept",
        issues=("kubernetes #118613",),
        module="phalanx.cache.devices.leftover_claims",
        edits={
            "    return (claim.owner,) if is_held else tuple(dict.fromkeys(claim.reserved_for))\n": (
                "    return ()\n"
            )
        },
        caught_by=Played("named_devices:kubernetes_118613"),
    ),
)
