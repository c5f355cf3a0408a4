"""S30: no bind of a gang is sent before a record that counts its member is stored where no tenant writes."""

from typing import Any, Final

import msgspec

from phalanx_simulator.embedded.store import Change, ChangeType, Object
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.facts import NATIVE_PREFIX, VOLCANO_PREFIX, GangKey, PodFact
from phalanx_simulator.invariants.native_groups import GROUPS
from phalanx_simulator.invariants.truth import Truth

CONFIG_MAPS: Final = "configmaps"
_NAME: Final = "phalanx-records"
_ABOUT: Final = "_about"


class BindsAreRecorded(Check):
    """S30: a record counts at least as many members as processes have bound that hold their nodes.

    A PodGroup with a new UID begins a new record: members that were bound for the one before do not count.
    Nor do pods that were moved to another gang, also when they are moved back.
    Gangs of a single pod have no record. Applications of YuniKorn are not checked: no object names them.
    """

    name = "S30"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._in_status: dict[str, int] = {}
        """Bound members by the UID of the PodGroup."""
        self._in_config_map: dict[str, int] = {}
        """Bound members by the ID of the gang."""
        self._bound: dict[str, str] = {}
        """The UID of the PodGroup, empty for other gangs, by the UID of a pod that a process has bound."""

    def on_change(self, change: Change) -> None:
        key, data = change.entry.key, change.entry.data
        is_there = change.type is not ChangeType.DELETED
        if key.resource == GROUPS:
            record = (data.get("status") or {}).get("record") or {}
            self._in_status[data["metadata"]["uid"]] = _recorded(record) if is_there else 0
        elif key.resource == CONFIG_MAPS and key.name == _NAME:
            self._in_config_map = _stored(data.get("data") or {}) if is_there else {}
        changed = self.truth.changed_pod
        if changed is None or changed.before is None or changed.after is None:
            return
        if changed.before.gang != changed.after.gang:
            self._bound.pop(changed.after.uid, None)

    def on_call(self, call: Call) -> None:
        if not call.is_bind:
            return
        if call.stage is Stage.LANDED and call.succeeded:
            bound = self.truth.pods.get(call.uid)
            self._bound[call.uid] = self._group_uid(bound.gang) if bound is not None else ""
        pod = self.truth.pods.get(call.uid)
        if call.stage is not Stage.SENT or pod is None or not self._has_record(pod.gang):
            return
        group = self._group_uid(pod.gang)
        others = sum(
            1 for each in self.truth.members(pod.gang) if each is not pod and self._holds(each, group)
        )
        known = self._recorded(pod)
        if known < others + 1:
            self.violated(pod, f"bind sent although a record counts {known} members, and {others} have nodes")

    def _holds(self, pod: PodFact, group: str) -> bool:
        return self._bound.get(pod.uid) == group and pod.holds_node and not pod.is_deleting

    def _group_uid(self, gang: GangKey) -> str:
        group = self.truth.group_of(gang) if gang.kind == "group" else None
        return group.uid if group is not None else ""

    def _has_record(self, gang: GangKey) -> bool:
        if gang.kind == "group":
            group = self.truth.group_of(gang)
            is_known = "/" not in gang.name or gang.name.startswith((NATIVE_PREFIX, VOLCANO_PREFIX))
            return group is not None and is_known and not group.spec.get("isBasic")
        return gang.kind != "pod" and self.truth.min_member(gang) > 1

    def _recorded(self, pod: PodFact) -> int:
        gang = pod.gang
        if gang.kind == "label":
            return self._in_config_map.get(f"{gang.namespace}/{gang.name}", 0)
        if gang.kind == "job":
            return self._in_config_map.get(f"Job.batch:{gang.namespace}/{gang.name}", 0)
        uid = self._group_uid(gang)
        return max(self._in_status.get(uid, 0), self._in_config_map.get(uid, 0))


def _recorded(record: Object) -> int:
    return sum(each.get("bound", 0) for each in record.get("placed") or ())


def _stored(data: Object) -> dict[str, int]:
    texts = (text for name, text in data.items() if name != _ABOUT)
    return {
        gang: sum(members[3] for members in entry[2])
        for text in texts
        for gang, entry in _gangs(text).items()
    }


def _gangs(text: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(text)["gangs"]
    return found
