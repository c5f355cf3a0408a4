"""Create, update and delete of single objects, with the metadata rules of all kinds."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from phalanx_simulator.embedded.apiserver import errors
from phalanx_simulator.embedded.apiserver.admission import admit_create, conformed
from phalanx_simulator.embedded.apiserver.disruption_budgets import (
    budget_of,
    may_ignore,
    may_ignore_budgets,
    with_disruption,
)
from phalanx_simulator.embedded.apiserver.errors import Cause, Subject
from phalanx_simulator.embedded.apiserver.events import CoreEventRules, EventRules
from phalanx_simulator.embedded.apiserver.kind_rules import SPECIAL, Rules, general_rules, spec_of
from phalanx_simulator.embedded.apiserver.kinds import BUDGETS, ResourceType
from phalanx_simulator.embedded.apiserver.objects import (
    Stamps,
    disruption_target,
    is_deleting,
    rfc3339,
    seconds_of,
    set_condition,
    without,
)
from phalanx_simulator.embedded.apiserver.pods import PodRules, bound, check_binding, failed_precondition
from phalanx_simulator.embedded.apiserver.requests import Target
from phalanx_simulator.embedded.apiserver.validation import check_shape
from phalanx_simulator.embedded.store import Entry, Key, Object, Store

SIM_NAME_ATTEMPTS: Final = 8
"""Attempts to find a name for generateName before the create fails, as in the API server."""

_RULES: Final[Mapping[str, Rules]] = {
    **SPECIAL,
    "pods": PodRules(),
    "events": CoreEventRules(),
    "events.events.k8s.io": EventRules(),
}
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NAME_LENGTH_MAX: Final = 253
_NO_NEW_FINALIZERS: Final = "Forbidden: no new finalizers can be added if the object is being deleted"
_SERVER_OWNED: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_FINALIZER_OF_POLICY: Final = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}

Change = Callable[[Object], Object]


class Deleted(Struct, frozen=True):
    """Result of a delete: the object's last state, and whether it was removed."""

    entry: Entry
    gone: bool


def key_of(target: Target) -> Key:
    """The stored object that a path names."""
    return Key(target.type.resource, target.namespace, target.name)


class Registry:
    """Objects of all kinds in one store, under Kubernetes' rules."""

    def __init__(self, *, store: Store, stamps: Stamps) -> None:
        self.store = store
        self.stamps = stamps

    def get(self, target: Target) -> Entry:
        """One object. Raises ApiError 404."""
        entry = self.store.get(key_of(target))
        if entry is None:
            raise errors.not_found(target.type.subject, target.name)
        return entry

    def create(self, target: Target, new: Object) -> Entry:
        """Store a new object; the server owns `new` afterwards.

        Raises ApiError.
        """
        kind, rules = target.type, rules_of(target.type)
        check_shape(kind, new)
        metadata = _begin_metadata(new, target)
        admit_create(kind, target.namespace, new, self.store)
        metadata["name"] = name = self._choose_name(target, metadata)
        metadata["uid"] = self.stamps.uid()
        metadata["creationTimestamp"] = self.stamps.now()
        if kind.generation:
            metadata["generation"] = 1
        causes = _name_causes(metadata)
        if not causes:
            rules.on_create(new, self.stamps)
            causes = rules.check_create(new)
        if causes:
            raise errors.invalid(kind.subject, name, causes)
        key = Key(kind.resource, target.namespace, name)
        if self.store.get(key) is not None:
            raise errors.already_exists(kind.subject, name)
        return self.store.put(key, _stored_form(new, kind))

    def check_uid(self, target: Target, uid: str) -> None:
        """Refuse to replace an object that has another UID.

        Raises ApiError 404 or 409.
        """
        entry = self.get(target)
        path = f"/registry/{target.type.plural}/{entry.key.path}"
        why = failed_precondition(path, entry.data["metadata"], {"uid": uid})
        if why:
            raise errors.conflict(target.type.subject, target.name, why)

    def update(self, target: Target, change: Change) -> Entry:
        """Change the main resource; status stays as it is. Raises ApiError."""
        kind, rules, entry = target.type, rules_of(target.type), self.get(target)
        old = entry.data
        new = self._next(target, entry, change)
        if kind.status:
            new = _with(new, "status", old.get("status"))
        new = rules.on_update(new, old)
        causes = rules.check_update(new, old)
        if causes:
            raise errors.invalid(kind.subject, target.name, causes)
        if kind.generation and spec_of(new, custom=kind.custom) != spec_of(old, custom=kind.custom):
            generation = old["metadata"].get("generation", 0) + 1
            new = {**new, "metadata": {**new["metadata"], "generation": generation}}
        return self._write(kind, entry, new)

    def update_status(self, target: Target, change: Change) -> Entry:
        """Change the status; everything else stays (built-in kinds also take labels and annotations)."""
        entry = self.get(target)
        new = self._next(target, entry, change)
        kept = dict(entry.data)
        if not target.type.custom:
            kept["metadata"] = {**new["metadata"], **_owners(entry.data["metadata"])}
        return self._write(target.type, entry, _with(kept, "status", new.get("status")))

    def bind(self, target: Target, binding: Object) -> Entry:
        """Bind a pod to the node of a Binding.

        Raises ApiError.
        """
        check_binding(binding, name=target.name)
        entry = self.get(target)
        node = self.store.get(Key("nodes", "", binding["target"]["name"]))
        node_data = None if node is None else node.data
        return self.store.put(entry.key, bound(entry.data, binding, node_data, self.stamps))

    def evict(self, target: Target, eviction: Object) -> None:
        """Delete a pod for an Eviction if its budget allows it.

        Raises ApiError.
        """
        if (eviction.get("metadata") or {}).get("name", target.name) != target.name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        pod, options = self.get(target).data, eviction.get("deleteOptions") or {}
        if not may_ignore_budgets(pod):
            budget = budget_of(pod, self.store)
            if budget is not None and not may_ignore(budget, pod):
                status = with_disruption(budget, target.name, now=self.stamps.now())
                where = Target(BUDGETS, target.namespace, budget["metadata"]["name"])
                self.update_status(where, lambda found: {**found, "status": status})
        _check_delete_preconditions(target.type, pod["metadata"], options.get("preconditions") or {})
        why = disruption_target("EvictionByEvictionAPI", "Eviction API: evicting", now=self.stamps.now())
        self.update_status(target, lambda found: _with_condition(found, why))
        self.delete(target, _with(options, "preconditions", _lasting(options.get("preconditions"))))

    def finalize(self, target: Target, change: Change) -> Entry:
        """Change the finalizers in a namespace's spec. Raises ApiError."""
        entry = self.get(target)
        new = {**entry.data, "spec": self._next(target, entry, change).get("spec", {})}
        return self._write(target.type, entry, new)

    def delete(self, target: Target, options: Object) -> Deleted:
        """Delete, or set the deletion timestamp if grace or finalizers require it.

        Raises ApiError.
        """
        entry, kind, rules = self.get(target), target.type, rules_of(target.type)
        _check_delete_preconditions(kind, entry.data["metadata"], options.get("preconditions") or {})
        marked = self._marked(rules, entry.data, options)
        held = self._is_held(kind, marked)
        if marked is not entry.data and (held or rules.is_graceful):
            entry = self.store.put(entry.key, marked)
        if held:
            return Deleted(entry, gone=False)
        return Deleted(self.store.remove(entry.key), gone=True)

    def _marked(self, rules: Rules, item: Object, options: Object) -> Object:
        """The object with its deletion announced, or itself where that changes nothing."""
        metadata, asked = item["metadata"], options.get("gracePeriodSeconds")
        if is_deleting(item):
            left = metadata["deletionGracePeriodSeconds"]
            if asked is None or asked >= left:
                return item
            asked_at = seconds_of(metadata["deletionTimestamp"]) - left
            sooner = {"deletionTimestamp": rfc3339((asked_at + asked) * 1000)}
            return {**item, "metadata": {**metadata, **sooner, "deletionGracePeriodSeconds": asked}}
        grace = rules.grace_s(item, asked)
        mark: Object = {
            "deletionTimestamp": self.stamps.now(later_s=grace),
            "deletionGracePeriodSeconds": grace,
        }
        finalizers = _finalizers(metadata, options.get("propagationPolicy") or rules.default_propagation)
        if finalizers:
            mark["finalizers"] = finalizers
        if "generation" in metadata:
            mark["generation"] = metadata["generation"] + 1
        return rules.on_mark({**item, "metadata": {**metadata, **mark}})

    def _choose_name(self, target: Target, metadata: Object) -> str:
        name: str = metadata.get("name") or ""
        prefix = metadata.get("generateName")
        if name or not prefix:
            return name
        for _ in range(SIM_NAME_ATTEMPTS):
            name = self.stamps.name(prefix)
            if self.store.get(Key(target.type.resource, target.namespace, name)) is None:
                break
        return name

    def _next(self, target: Target, entry: Entry, change: Change) -> Object:
        """The requested object with the metadata that only the server owns put back."""
        kind, old = target.type, entry.data["metadata"]
        new = _stored_form(change(entry.data), kind)
        check_shape(kind, new)
        metadata: Object = new.get("metadata") or {}
        _check_identity(target, metadata)
        _check_update_preconditions(kind, entry, metadata)
        for field in (*_SERVER_OWNED, "generation"):
            metadata = _with(metadata, field, old.get(field))
        if is_deleting(entry.data):
            _check_no_new_finalizers(kind, old, metadata)
        metadata = {**metadata, "name": target.name, "resourceVersion": old["resourceVersion"]}
        return {**new, "metadata": _with(metadata, "namespace", target.namespace or None)}

    def _write(self, kind: ResourceType, entry: Entry, new: Object) -> Entry:
        metadata = new["metadata"]
        if not metadata.get("finalizers") and "finalizers" in metadata:
            new = {**new, "metadata": without(metadata, "finalizers")}
        if new == entry.data:
            return entry
        if is_deleting(new) and not self._is_held(kind, new):
            return self.store.remove(entry.key)
        return self.store.put(entry.key, new)

    def _is_held(self, kind: ResourceType, item: Object) -> bool:
        metadata = item["metadata"]
        held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds", 0)
        return bool(held) or rules_of(kind).is_held(item)


def rules_of(kind: ResourceType) -> Rules:
    """The rules of this kind."""
    return _RULES.get(kind.subject.qualified) or general_rules(kind)


def _begin_metadata(new: Object, target: Target) -> Object:
    metadata: Object = new.get("metadata") or {}
    for field in (*_SERVER_OWNED, "generation", "managedFields", "selfLink"):
        metadata.pop(field, None)
    if metadata.get("resourceVersion"):
        raise errors.ApiError(500, "", "resourceVersion should not be set on objects to be created")
    if target.namespace:
        if metadata.setdefault("namespace", target.namespace) != target.namespace:
            raise _wrong_namespace()
    else:
        metadata.pop("namespace", None)
    new["metadata"] = metadata
    return metadata


def _wrong_namespace() -> errors.ApiError:
    message = "the namespace of the provided object does not match the namespace sent on the request"
    return errors.bad_request(message)


def _name_causes(metadata: Object) -> list[Cause]:
    name = metadata["name"]
    if not name:
        required = "Required value: name or generateName is required"
        return [Cause("FieldValueRequired", required, "metadata.name")]
    if not _NAME.fullmatch(name):
        return [Cause("FieldValueInvalid", f'Invalid value: "{name}": {_NAME_RULE}', "metadata.name")]
    if len(name) > _NAME_LENGTH_MAX:
        too_long = f'Invalid value: "{name}": must be no more than {_NAME_LENGTH_MAX} characters'
        return [Cause("FieldValueInvalid", too_long, "metadata.name")]
    return []


def _check_identity(target: Target, metadata: Object) -> None:
    name = metadata.get("name") or target.name
    if name != target.name:
        message = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise errors.bad_request(message)
    if target.namespace and (metadata.get("namespace") or target.namespace) != target.namespace:
        raise _wrong_namespace()


def _check_no_new_finalizers(kind: ResourceType, old: Object, new: Object) -> None:
    added = [name for name in new.get("finalizers") or [] if name not in old.get("finalizers", [])]
    if added:
        listed = ", ".join(f'"{name}"' for name in added)
        why = f"{_NO_NEW_FINALIZERS}, found new finalizers []string{{{listed}}}"
        cause = Cause("FieldValueForbidden", why, "metadata.finalizers")
        raise errors.invalid(kind.subject, old["name"], [cause])


def _check_update_preconditions(kind: ResourceType, entry: Entry, metadata: Object) -> None:
    old, name = entry.data["metadata"], entry.key.name
    uid = metadata.get("uid", old["uid"])
    if uid != old["uid"]:
        why = f'Invalid value: "{uid}": field is immutable'
        raise errors.invalid(kind.subject, name, [Cause("FieldValueInvalid", why, "metadata.uid")])
    version = metadata.get("resourceVersion")
    if not version and not kind.unconditional:
        why = "Invalid value: 0: must be specified for an update"
        cause = Cause("FieldValueInvalid", why, "metadata.resourceVersion")
        raise errors.invalid(Subject(kind.plural, kind.plural, kind.group), name, [cause])
    if version and version != old["resourceVersion"]:
        raise errors.conflict(kind.subject, name, errors.MODIFIED)


def _check_delete_preconditions(kind: ResourceType, metadata: Object, wanted: Mapping[str, Any]) -> None:
    subject = Subject(kind.kind, kind.kind, kind.group)
    if wanted.get("uid") and wanted["uid"] != metadata["uid"]:
        why = (
            f"the UID in the precondition ({wanted['uid']}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated"
        )
        raise errors.conflict(subject, metadata["name"], why)
    version = wanted.get("resourceVersion")
    if version and version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in "
            f"record ({metadata['resourceVersion']}). The object might have been modified"
        )
        raise errors.conflict(subject, metadata["name"], why)


def _lasting(preconditions: Object | None) -> Object | None:
    """Preconditions that still apply after the eviction has written the condition.

    The version has changed by then.
    """
    return None if preconditions is None else without(preconditions, "resourceVersion")


def _with_condition(item: Object, condition: Object) -> Object:
    status = item["status"]
    return {
        **item,
        "status": {**status, "conditions": set_condition(status.get("conditions", []), condition)},
    }


def _finalizers(metadata: Object, policy: str | None) -> list[str]:
    finalizers = list(metadata.get("finalizers", []))
    wanted = _FINALIZER_OF_POLICY.get(policy or "")
    if wanted and wanted not in finalizers:
        finalizers.append(wanted)
    return finalizers


def _owners(metadata: Object) -> Object:
    return {"ownerReferences": metadata["ownerReferences"]} if "ownerReferences" in metadata else {}


def _with(item: Object, field: str, value: object) -> Object:
    """A copy with the field set, or removed where the value is None."""
    return without(item, field) if value is None else {**item, field: value}


def _stored_form(item: Object, kind: ResourceType) -> Object:
    """Store built-in kinds with spec and status, without apiVersion and kind."""
    if kind.custom:
        typed = {"apiVersion": kind.api_version, "kind": kind.kind, **without(item, "apiVersion", "kind")}
        return conformed(kind.schema, typed)
    stored = without(item, "apiVersion", "kind")
    return {"spec": {}, "status": {}, **stored} if kind.status else stored
