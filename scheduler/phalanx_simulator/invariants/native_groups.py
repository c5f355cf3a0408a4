"""PodGroups of other dialects as the checks need them, read independently of the scheduler's dialects."""

from typing import Final

from phalanx.model.gangs import Gang
from phalanx.model.names import API_GROUP, LABEL_QUEUE

from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.invariants.facts import (
    NATIVE_PREFIX,
    VOLCANO_PREFIX,
    YUNIKORN_PREFIX,
    GangKey,
    native_name,
)

GROUPS: Final = "podgroups.scheduling.phalanx.dev"
NATIVE_GROUPS: Final = "podgroups.scheduling.k8s.io"
VOLCANO_GROUPS: Final = "podgroups.scheduling.volcano.sh"
OF_DIALECTS: Final = (NATIVE_GROUPS, VOLCANO_GROUPS)

_PREFIXES: Final = {NATIVE_PREFIX: NATIVE_GROUPS, VOLCANO_PREFIX: VOLCANO_GROUPS}


def as_ours(resource: str, group: Object) -> Object:
    """A PodGroup of another dialect as the PodGroup of Phalanx that means the same."""
    return volcano_as_ours(group) if resource == VOLCANO_GROUPS else native_as_ours(group)


def volcano_as_ours(group: Object) -> Object:
    """A PodGroup of Volcano as the PodGroup of Phalanx that means the same, under its own kind of name.

    The API server names the queue `default` where nobody names one.
    """
    meta, spec = group["metadata"], group.get("spec") or {}
    wanted: Object = {"minMember": max(spec.get("minMember", 1), 1), "isBasic": False}
    if spec.get("priorityClassName"):
        wanted["priorityClassName"] = spec["priorityClassName"]
    if spec.get("queue") and spec["queue"] != "default":
        wanted["queue"] = spec["queue"]
    named = {**meta, "name": f"{VOLCANO_PREFIX}{meta['name']}", "ownerReferences": []}
    status = {"startedAt": "then"} if has_started_in_volcano(group) else {}
    return {"metadata": named, "spec": wanted, "status": status}


def has_started_in_volcano(group: Object) -> bool:
    """Whether the phase of a PodGroup of Volcano says that it has started."""
    return (group.get("status") or {}).get("phase") in ("Running", "Unknown", "Completed")


def native_as_ours(group: Object) -> Object:
    """A native PodGroup as the PodGroup of Phalanx that means the same, under its own kind of name.

    `isBasic`: each of its pods is scheduled like a pod without a PodGroup. Checks that look at started or
    evicted gangs see one gang with a minimum of one pod, which permits the same.
    """
    meta, spec = group["metadata"], group.get("spec") or {}
    policy, mode = spec.get("schedulingPolicy") or {}, spec.get("disruptionMode") or {}
    keys = [each["key"] for each in (spec.get("schedulingConstraints") or {}).get("topology") or ()]
    wanted: Object = {
        "minMember": (policy.get("gang") or {}).get("minCount", 1),
        "disruption": {"mode": "All" if "all" in mode else "Single"},
        "isBasic": "gang" not in policy and not keys and "all" not in mode,
    }
    if keys:
        wanted["topology"] = {"required": keys[0]}
    for field in ("priorityClassName", "preemptionPolicy"):
        if spec.get(field):
            wanted[field] = spec[field]
    if LABEL_QUEUE in (meta.get("labels") or {}):
        wanted["queue"] = meta["labels"][LABEL_QUEUE]
    named = {**meta, "name": native_name(meta["name"]), "ownerReferences": []}
    status = {"startedAt": "then"} if has_started_natively(group) else {}
    return {"metadata": named, "spec": wanted, "status": status}


def has_started_natively(group: Object) -> bool:
    """Whether the status of a native PodGroup says that it has started."""
    found = (group.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "PodGroupInitiallyScheduled" and each["status"] == "True" for each in found)


def group_object(key: GangKey) -> Key:
    """Where the PodGroup of a gang is stored."""
    for prefix, resource in _PREFIXES.items():
        if key.name.startswith(prefix):
            return Key(resource, key.namespace, key.name.removeprefix(prefix))
    return Key(GROUPS, key.namespace, key.name)


def is_start_reported(key: GangKey, group: Object) -> bool:
    """Whether the status of a PodGroup says that its gang has started."""
    if key.name.startswith(VOLCANO_PREFIX):
        return has_started_in_volcano(group)
    return bool((group.get("status") or {}).get("startedAt")) or has_started_natively(group)


def key_of(place: Key) -> GangKey:
    """The key of the gang of a PodGroup of another dialect."""
    return GangKey("group", place.namespace, f"{place.resource.removeprefix('podgroups.')}/{place.name}")


def group_key(gang: Gang) -> GangKey:
    """The key of a gang of the scheduler that has a PodGroup."""
    name = gang.name if gang.dialect == API_GROUP else f"{gang.dialect}/{gang.name}"
    return GangKey("group", gang.namespace, name)


def is_of_dialect(name: str) -> bool:
    """Whether the name of a group is that of a PodGroup of another dialect."""
    return name.startswith((*_PREFIXES, YUNIKORN_PREFIX))
