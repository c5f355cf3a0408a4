"""Bugs with absurd objects, and with objects that imitate others."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

INPUT: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a negative request adds capacity",
        issues=("Kueue #12715", "Volcano #5621"),
        module="phalanx.model.resources",
        edits={"    if numerator < 0:\n": "    if numerator < -(1 << 63):\n"},
        caught_by=Played("plays_world_input:a_negative_request_adds_no_capacity"),
    ),
    Mutant(
        name="an invalid amount counts as zero",
        issues=("Kueue #11182", "Volcano #5621"),
        module="phalanx.model.conversion.requests",
        edits={"            amounts[name] = POD_REQUEST_MAX\n": "            amounts[name] = 0\n"},
        caught_by=Played("plays_world_input:an_invalid_amount_is_not_zero"),
    ),
    Mutant(
        name="amounts wrap at 32 bits",
        issues=("Kueue #11137", "Kueue #11139", "Kueue #14108"),
        module="phalanx.model.conversion.requests",
        edits={
            "{name: min(amount, POD_REQUEST_MAX) for name, amount in sorted(": (
                "{name: min(amount, POD_REQUEST_MAX) % (1 << 32) for name, amount in sorted("
            )
        },
        caught_by=Played("plays_world_input:a_huge_request_does_not_wrap"),
    ),
    Mutant(
        name="amounts wrap at 64 bits",
        issues=("Kueue #12897", "Kueue #12909", "Kueue #14112"),
        module="phalanx.model.resources",
        edits={
            "return min(-(-_not_negative(numerator, quantity) // denominator), AMOUNT_MAX)": (
                "return -(-_not_negative(numerator, quantity) // denominator) % (1 << 64)"
            )
        },
        caught_by=Played("plays_world_input:a_huge_request_does_not_wrap"),
    ),
    Mutant(
        name="a PodGroup with minMember 0 is accepted",
        issues=("Kueue #10478", "Kueue #6501"),
        module="phalanx.model.conversion.pod_groups",
        edits={
            "return max(spec.min_member, 1)": "return spec.min_member",
            "    if least < 1:\n": "    if least < -9:\n",
        },
        caught_by=Played("plays_world_input:a_pod_group_with_min_member_0_is_refused"),
    ),
    Mutant(
        name="one unreadable object hides its complete list",
        issues=("Kueue #4971", "Kueue #12807"),
        module="phalanx.kube.decode",
        edits={"            return self._page_one_by_one(body)\n": "            raise\n"},
        caught_by=Played("plays_world_input:one_bad_object_in_a_list"),
    ),
    Mutant(
        name="an unreadable object counts as deleted",
        issues=("Kueue #14657",),
        module="phalanx.cache.table",
        edits={"(key_of(event.kind, namespace, name) for namespace, name in event.unreadable)": "()"},
        caught_by=Played("plays_world_input:a_pod_that_becomes_unreadable"),
    ),
    Mutant(
        name="shapes collide because their hash is cut",
        issues=("KAI: collisions of truncated hashes (changelog)",),
        module="phalanx.model.conversion.shapes",
        edits={"_KEY_BYTES: Final = 16": "_KEY_BYTES: Final = 1"},
        caught_by=Played("plays_world_input:many_shapes_stay_distinct"),
    ),
    Mutant(
        name="a pod joins the group of another owner by its name",
        issues=("Kueue #14617",),
        module="phalanx.model.conversion.pod_groups",
        edits={"group.controller is None or group.controller.uid in pod.owners": "bool(group.uid)"},
        caught_by=Played("plays_world_input:a_foreign_pod_names_a_pod_group"),
    ),
    Mutant(
        name="a pod joins a group of another namespace by its name",
        issues=("Kueue #14617", "KAI: PodGang with pods of other namespaces (changelog)"),
        module="phalanx.model.conversion.pod_groups",
        edits={
            "GangKey(GangKind.POD_GROUP, pod.namespace, pod.group, pod.dialect)": (
                'GangKey(GangKind.POD_GROUP, "default", pod.group, pod.dialect)'
            )
        },
        caught_by=Played("plays_world_input:a_group_of_another_namespace"),
    ),
)
