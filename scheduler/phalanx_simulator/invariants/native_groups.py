"""Native PodGroups as the checks need them, read independently of the scheduler's dialects."""

from typing import Final

from phalanx.model.gangs import Gang
from phalanx.model.names import API_GROUP, LABEL_QUEUE

from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.invariants.facts import NATIVE_PREFIX, GangKey, native_name

GROUPS: Final = "podgroups.scheduling.phalanx.dev"
NATIVE_GROUPS: Final = "podgroups.scheduling.k8s.io"


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
    if is_native(key.name):
        return Key(NATIVE_GROUPS, key.namespace, key.name.removeprefix(NATIVE_PREFIX))
    return Key(GROUPS, key.namespace, key.name)


def is_start_reported(group: Object) -> bool:
    """Whether the status of a PodGroup says that its gang has started."""
    return bool((group.get("status") or {}).get("startedAt")) or has_started_natively(group)


def native_key(group: Object) -> GangKey:
    """The key of the gang of a native PodGroup."""
    return GangKey("group", group["metadata"]["namespace"], native_name(group["metadata"]["name"]))


def group_key(gang: Gang) -> GangKey:
    """The key of a gang of the scheduler that has a PodGroup."""
    name = gang.name if gang.dialect == API_GROUP else native_name(gang.name)
    return GangKey("group", gang.namespace, name)


def is_native(name: str) -> bool:
    """Whether the name of a group is that of a native PodGroup."""
    return name.startswith(NATIVE_PREFIX)
