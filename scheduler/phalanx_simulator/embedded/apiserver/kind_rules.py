"""Rules of kinds that go beyond the general ones, at create, update and delete."""

import re
from collections.abc import Mapping
from typing import ClassVar, Final

from phalanx_simulator.embedded.apiserver.errors import Cause
from phalanx_simulator.embedded.apiserver.kinds import ResourceType
from phalanx_simulator.embedded.apiserver.objects import Stamps, without
from phalanx_simulator.embedded.store import Object

_PERCENT: Final = re.compile(r"[0-9]+%")


class Rules:
    """The general rules.

    `on_create` may change `new` in place; all other objects share structure.
    """

    def on_create(self, new: Object, stamps: Stamps) -> None:
        """Set defaults and drop fields that clients may not set."""

    def check_create(self, new: Object) -> list[Cause]:
        """Errors of a new object."""
        return []

    def on_update(self, new: Object, old: Object) -> Object:
        """The object to store after a write to its main resource."""
        return new

    def check_update(self, new: Object, old: Object) -> list[Cause]:
        """Errors of a change."""
        return []

    is_graceful: ClassVar[bool] = False
    """Whether the deletion timestamp is written first, even if the deletion follows at once."""

    default_propagation: ClassVar[str] = ""
    """The propagation policy of a deletion that names none; empty is Background."""

    def grace_s(self, item: Object, asked: int | None) -> int:
        """Seconds from the delete request to the deletion; 0 deletes at once."""
        return 0

    def on_mark(self, item: Object) -> Object:
        """Change an object that gets its deletion timestamp."""
        return item

    def is_held(self, item: Object) -> bool:
        """Whether something other than metadata.finalizers delays the removal of the object."""
        return False


class StatusRules(Rules):
    """Rules of kinds whose status only the status subresource writes."""

    def on_create(self, new: Object, stamps: Stamps) -> None:
        new.pop("status", None)


class NamespaceRules(StatusRules):
    """Rules of namespaces: Active until deleted, removed once spec.finalizers is empty."""

    def on_create(self, new: Object, stamps: Stamps) -> None:
        new["status"] = {"phase": "Active"}
        new["spec"] = {**new.get("spec", {}), "finalizers": ["kubernetes"]}
        labels = new["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = new["metadata"]["name"]

    def on_update(self, new: Object, old: Object) -> Object:
        return {**new, "spec": old["spec"]}

    def on_mark(self, item: Object) -> Object:
        return {**item, "status": {**item["status"], "phase": "Terminating"}}

    def is_held(self, item: Object) -> bool:
        return bool(item["spec"].get("finalizers"))


class VolumeRules(StatusRules):
    """Rules of claims and volumes: Pending until bound.

    No finalizer protects them, since no controller here would remove it.
    """

    def on_create(self, new: Object, stamps: Stamps) -> None:
        new["status"] = {"phase": "Pending"}
        new["spec"].setdefault("volumeMode", "Filesystem")


class StorageClassRules(Rules):
    """Defaults of a storage class."""

    def on_create(self, new: Object, stamps: Stamps) -> None:
        new.setdefault("reclaimPolicy", "Delete")
        new.setdefault("volumeBindingMode", "Immediate")


class BudgetRules(StatusRules):
    """Rules of budgets: all counts are 0 at first."""

    def on_create(self, new: Object, stamps: Stamps) -> None:
        counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        new["status"] = dict.fromkeys(counts, 0)

    def check_create(self, new: Object) -> list[Cause]:
        spec = new.get("spec") or {}
        if "minAvailable" in spec and "maxUnavailable" in spec:
            why = "minAvailable and maxUnavailable cannot be both set"
            return [Cause("FieldValueInvalid", f"Invalid value: {why}", "spec")]
        rule = "a valid percent string must be a numeric string followed by an ending '%'"
        return [
            Cause("FieldValueInvalid", f'Invalid value: "{spec[field]}": {rule}', f"spec.{field}")
            for field in ("minAvailable", "maxUnavailable")
            if isinstance(spec.get(field), str) and not _PERCENT.fullmatch(spec[field])
        ]

    def check_update(self, new: Object, old: Object) -> list[Cause]:
        return self.check_create(new)


class CrdRules(StatusRules):
    """A CustomResourceDefinition is served at once. Its schema is not enforced."""

    def on_create(self, new: Object, stamps: Stamps) -> None:
        now, names = stamps.now(), new["spec"]["names"]
        names.setdefault("listKind", f"{names['kind']}List")
        names.setdefault("singular", names["kind"].lower())
        new["spec"].setdefault("conversion", {"strategy": "None"})
        new["status"] = {
            "conditions": [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
                _condition(
                    "Established", "InitialNamesAccepted", "the initial names have been accepted", now
                ),
            ],
            "acceptedNames": names,
            "storedVersions": [version["name"] for version in new["spec"]["versions"] if version["storage"]],
        }


def _condition(type_: str, reason: str, message: str, now: str) -> Object:
    return {"type": type_, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}


class PriorityClassRules(Rules):
    """Rules of PriorityClasses: the value is immutable."""

    def on_create(self, new: Object, stamps: Stamps) -> None:
        new.setdefault("value", 0)
        new.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def check_update(self, new: Object, old: Object) -> list[Cause]:
        why = "Forbidden: may not be changed in an update."
        changed = [name for name in ("value", "preemptionPolicy") if new.get(name) != old.get(name)]
        return [Cause("FieldValueForbidden", why, name) for name in changed]


class JobRules(StatusRules):
    """Defaults of a Job, and the labels by which its pods are found."""

    default_propagation = "Orphan"

    def on_create(self, new: Object, stamps: Stamps) -> None:
        new["status"] = {}
        metadata, spec = new["metadata"], new["spec"]
        if "parallelism" not in spec:
            spec.setdefault("completions", 1)
        for field, value in (("parallelism", 1), ("completionMode", "NonIndexed"), ("backoffLimit", 6)):
            spec.setdefault(field, value)
        policy = spec.get("podFailurePolicy")
        spec.setdefault("podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
        for rule in (policy or {}).get("rules") or []:
            for pattern in rule.get("onPodConditions") or []:
                pattern.setdefault("status", "True")
        for field in ("suspend", "manualSelector"):
            spec.setdefault(field, False)
        if spec["completionMode"] == "Indexed" or "completions" in spec:
            spec.setdefault("completions", spec["parallelism"])
        template = spec["template"].setdefault("metadata", {})
        for prefix in ("", "batch.kubernetes.io/"):
            template.setdefault("labels", {})[f"{prefix}controller-uid"] = metadata["uid"]
            template["labels"][f"{prefix}job-name"] = metadata["name"]
        metadata["labels"] = {**template["labels"], **metadata.get("labels", {})}
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}}

    def check_create(self, new: Object) -> list[Cause]:
        spec = new["spec"]
        restart, policy = (
            spec["template"].get("spec", {}).get("restartPolicy", "Always"),
            spec.get("podFailurePolicy"),
        )
        found: list[Cause] = []
        if restart not in ("OnFailure", "Never"):
            why = f'Required value: valid values: "OnFailure", "Never", not "{restart}"'
            found.append(Cause("FieldValueRequired", why, "spec.template.spec.restartPolicy"))
        if policy and restart == "OnFailure":
            why = 'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'
            found.append(Cause("FieldValueInvalid", why, "spec.template.spec.restartPolicy"))
        if policy and spec["podReplacementPolicy"] != "Failed":
            why = 'Unsupported value: "TerminatingOrFailed": supported values: "Failed"'
            found.append(Cause("FieldValueNotSupported", why, "spec.podReplacementPolicy"))
        return found


class NativePodGroupRules(StatusRules):
    """Rules of Kubernetes' own PodGroups: all but minCount is immutable.

    No finalizer protects them, since no controller here would remove it.
    """

    def on_create(self, new: Object, stamps: Stamps) -> None:
        super().on_create(new, stamps)
        new["spec"].setdefault("disruptionMode", {"single": {}})

    def on_update(self, new: Object, old: Object) -> Object:
        return {**new, "spec": {"disruptionMode": {"single": {}}, **new["spec"]}}

    def check_create(self, new: Object) -> list[Cause]:
        given = [name for name in ("basic", "gang") if name in (new["spec"].get("schedulingPolicy") or {})]
        if len(given) == 1:
            return []
        why = "Invalid value: must specify exactly one of: `basic`, `gang`"
        return [Cause("FieldValueInvalid", why, "spec.schedulingPolicy")]

    def check_update(self, new: Object, old: Object) -> list[Cause]:
        fixed, before = _without_min_count(new["spec"]), _without_min_count(old["spec"])
        why = "Invalid value: field is immutable"
        return [
            Cause("FieldValueInvalid", why, f"spec.{name}")
            for name in sorted(fixed.keys() | before.keys())
            if fixed.get(name) != before.get(name)
        ]


def _without_min_count(spec: Object) -> Object:
    policy = spec.get("schedulingPolicy") or {}
    return {**spec, "schedulingPolicy": {**policy, "gang": {}} if policy.get("gang") else policy}


GENERAL: Final = Rules()
STATUS_ONLY: Final = StatusRules()

SPECIAL: Final[Mapping[str, Rules]] = {
    "namespaces": NamespaceRules(),
    "persistentvolumeclaims": VolumeRules(),
    "persistentvolumes": VolumeRules(),
    "storageclasses.storage.k8s.io": StorageClassRules(),
    "customresourcedefinitions.apiextensions.k8s.io": CrdRules(),
    "priorityclasses.scheduling.k8s.io": PriorityClassRules(),
    "poddisruptionbudgets.policy": BudgetRules(),
    "jobs.batch": JobRules(),
    "podgroups.scheduling.k8s.io": NativePodGroupRules(),
}


def spec_of(item: Object, *, custom: bool) -> Object:
    """The part of an object whose changes increase the generation."""
    return without(item, "metadata", "status") if custom else {"spec": item.get("spec")}


def general_rules(kind: ResourceType) -> Rules:
    """Rules of a kind that has no entry of its own."""
    return STATUS_ONLY if kind.custom and kind.status else GENERAL
