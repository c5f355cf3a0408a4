"""Rules between fields, in Python: those of `crds/`, which are in CEL there, and some of Kubernetes' own.

A rule is identified by its message in the schema. A test fails for a rule of `crds/` without an entry here.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from phalanx.model.resources import CPU, InvalidQuantity, capacity_amount

_NAME_MAX: Final = 63
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")

VALUES_BY_OPERATOR: Final = "In and NotIn need values, Exists and DoesNotExist must not have any"
ONE_VALUE: Final = "Gt and Lt need one value"


def _name_is_short(item: dict[str, Any]) -> bool:
    return len(item["metadata"]["name"]) <= _NAME_MAX


def _minimum_is_known(spec: dict[str, Any]) -> bool:
    return "minMember" in spec or bool(spec.get("subGroups"))


def _role_minimums_fit(spec: dict[str, Any]) -> bool:
    minimums = (role.get("minMember", role["count"]) for role in spec.get("roles", ()))
    return "minMember" not in spec or bool(sum(minimums) <= spec["minMember"])


def _traffic_names_roles(spec: dict[str, Any]) -> bool:
    names = {role["name"] for role in spec.get("roles", ())}
    return all(entry[key] in names for entry in spec.get("traffic", ()) for key in ("from", "to"))


def _min_sub_groups_fit(spec: dict[str, Any]) -> bool:
    roots = [group for group in spec.get("subGroups", ()) if "parent" not in group]
    return bool(spec.get("minSubGroups", 0) <= len(roots))


def _level_is_set(topology: dict[str, Any]) -> bool:
    return "required" in topology or "preferred" in topology


def _levels_differ(topology: dict[str, Any]) -> bool:
    return "required" not in topology or topology["required"] != topology.get("preferred")


def _levels_of_subgroup_differ(group: dict[str, Any]) -> bool:
    return "segmentSize" in group or _levels_differ(group.get("topology", {}))


def _role_minimum_fits(role: dict[str, Any]) -> bool:
    return bool(role.get("minMember", 0) <= role["count"])


def _parents_exist(groups: list[dict[str, Any]]) -> bool:
    names = {group["name"] for group in groups}
    return all("parent" not in group or group["parent"] in names for group in groups)


def _no_own_parents(groups: list[dict[str, Any]]) -> bool:
    return all(group.get("parent") != group["name"] for group in groups)


def _minimums_of_subgroups_are_known(groups: list[dict[str, Any]]) -> bool:
    parents = {group.get("parent") for group in groups}
    return all("minMember" in group or group["name"] in parents for group in groups)


def _runs_at_all(runtime: dict[str, Any]) -> bool:
    return all(_seconds(runtime[name]) > 0 for name in ("estimate", "max") if name in runtime)


def _estimate_fits(runtime: dict[str, Any]) -> bool:
    if "estimate" not in runtime or "max" not in runtime:
        return True
    return _seconds(runtime["estimate"]) <= _seconds(runtime["max"])


def _not_own_parent(queue: dict[str, Any]) -> bool:
    return bool(queue["spec"].get("parent") != queue["metadata"]["name"])


def _users_have_a_label(spec: dict[str, Any]) -> bool:
    return spec.get("ordering") != "FairUsers" or "userLabel" in spec


def _value_goes_with_order(spec: dict[str, Any]) -> bool:
    return spec.get("admission") != "MostValue" or spec.get("ordering", "PriorityFIFO") == "PriorityFIFO"


def _guarantee_fits(amounts: dict[str, Any]) -> bool:
    limit = amounts.get("limit", {})
    guarantee = amounts.get("guarantee", {})
    return all(
        _thousandths(guarantee[name]) <= _thousandths(limit[name]) for name in guarantee if name in limit
    )


def _values_fit_operator(requirement: dict[str, Any]) -> bool:
    has_values = bool(requirement.get("values"))
    if requirement["operator"] in ("In", "NotIn"):
        return has_values
    return not has_values or requirement["operator"] not in ("Exists", "DoesNotExist")


def _one_value(requirement: dict[str, Any]) -> bool:
    return requirement["operator"] not in ("Gt", "Lt") or len(requirement.get("values", ())) == 1


def _labels_differ(levels: list[dict[str, Any]]) -> bool:
    return len({level["nodeLabel"] for level in levels}) == len(levels)


def _seconds(duration: str) -> int:
    match = _DURATION.fullmatch(duration)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    return hours * 3600 + minutes * 60 + seconds


def _thousandths(quantity: int | str) -> int:
    """Convert a quantity to thousandths; an invalid one, which is reported elsewhere, counts as zero."""
    try:
        return capacity_amount(CPU, quantity)
    except InvalidQuantity:
        return 0


RULES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "metadata.name must have at most 63 characters, because pods carry it as the value of a label": (
        _name_is_short
    ),
    "set minMember, or subGroups from whose minimums it follows": _minimum_is_known,
    "the minMember of all roles (count where a role sets none) must not add up to more than spec.minMember": (
        _role_minimums_fit
    ),
    "from and to of traffic must be names of roles": _traffic_names_roles,
    "minSubGroups must not be larger than the number of subGroups that have no parent": _min_sub_groups_fit,
    "set required, preferred or both, or leave topology out": _level_is_set,
    "preferred must be a narrower level than required, not the same one": _levels_differ,
    "without segmentSize, preferred must be a narrower level than required, not the same one": (
        _levels_of_subgroup_differ
    ),
    "minMember of a role must not be larger than its count": _role_minimum_fits,
    "parent must be the name of another entry of subGroups": _parents_exist,
    "a subgroup must not be its own parent": _no_own_parents,
    "a subgroup needs minMember unless it contains other subgroups": _minimums_of_subgroups_are_known,
    "estimate and max must be longer than 0s": _runs_at_all,
    "estimate must not be longer than max": _estimate_fits,
    "a queue must not be its own parent": _not_own_parent,
    "ordering FairUsers needs userLabel, the label that names the user": _users_have_a_label,
    "admission MostValue needs ordering PriorityFIFO": _value_goes_with_order,
    "guarantee must not be larger than limit": _guarantee_fits,
    VALUES_BY_OPERATOR: _values_fit_operator,
    ONE_VALUE: _one_value,
    "two levels must not use the same nodeLabel": _labels_differ,
}
"""The rules by their message in the schema."""
