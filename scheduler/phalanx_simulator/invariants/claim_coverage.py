"""Coverage points of claims to volumes and devices; reports no violations."""

from typing import Final

from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.devices.limits import DEVICE_BIND_TIMEOUT_S

from phalanx_simulator.embedded.pod_claims import is_for_extended
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.claim_facts import (
    DEVICE_CLAIMS,
    SELECTED,
    SLICES,
    VOLUME_CLAIMS,
    VOLUMES,
    consumers_of,
    device_claims_of,
    devices_of,
    found,
    has_failed,
    owner_of,
    unready_devices,
    volume_claims_of,
)
from phalanx_simulator.invariants.truth import Truth

_LATE_S: Final = 60.0
_REFUSED_S: Final = 5.0
_CONFLICT: Final = 409
_CREATED: Final = ("201", str(_CONFLICT))
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"


class ClaimCoverage(Check):
    """Coverage points of volumes, devices, and the claims to them."""

    name = "coverage of claims"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._selected_at: dict[Key, float] = {}
        self._allocated_at: dict[Key, float] = {}
        """Claims with devices that are not ready."""
        self._leader = ""
        self._bound: dict[str, float] = {}
        """Bound pods with claims to devices that have not started, with the time of the bind."""
        self._unselected: dict[Key, None] = {}
        """Claims whose selected node was removed, and it is not known by whom."""

    def on_change(self, change: Change) -> None:
        resource = change.entry.key.resource
        if resource == VOLUME_CLAIMS:
            self._claim_changed(change)
        elif resource == SLICES and change.previous is not None:
            self._slice_changed(change)
        elif resource == DEVICE_CLAIMS:
            self._devices_changed(change)

    def _devices_changed(self, change: Change) -> None:
        """Devices are allocated, ready, cannot be prepared, or are given back."""
        key, claim = change.entry.key, change.entry.data
        if change.type is ChangeType.DELETED or not any(devices_of(claim)):
            if self.now - self._allocated_at.pop(key, self.now) > DEVICE_BIND_TIMEOUT_S:
                self.reached("devices-prepared-too-late")
        elif any(unready_devices(claim)):
            self._allocated_at.setdefault(key, self.now)
            if has_failed(claim) and not (change.previous and has_failed(change.previous.data)):
                self.reached("device-not-preparable")
        elif self._allocated_at.pop(key, None) is not None:
            self.reached("devices-prepared")

    def _claim_changed(self, change: Change) -> None:
        key, claim = change.entry.key, change.entry.data
        is_selected = SELECTED in claim["metadata"].get("annotations", {})
        if change.type is ChangeType.DELETED:
            self._selected_at.pop(key, None)
        elif claim["spec"].get("volumeName"):
            selected_at = self._selected_at.pop(key, self.now)
            if self.now - selected_at > _LATE_S:
                self.reached("volume-late")
        elif is_selected:
            self._selected_at.setdefault(key, self.now)
        elif self._selected_at.pop(key, None) is not None:
            self._unselected[key] = None

    def _slice_changed(self, change: Change) -> None:
        before = change.previous.data["spec"] if change.previous is not None else {}
        after = change.entry.data["spec"] if change.type is not ChangeType.DELETED else {"devices": []}
        left = {each["name"]: each for each in after["devices"]}
        place = (before["driver"], before["pool"]["name"])
        used = {
            device for entry in self.context.store.entries(DEVICE_CLAIMS) for device in devices_of(entry.data)
        }
        for each in before["devices"]:
            if (*place, each["name"]) not in used:
                continue
            if each["name"] not in left:
                self.reached("device-withdrawn")
            elif left[each["name"]].get("taints") and not each.get("taints"):
                self.reached("device-tainted")

    def on_call(self, call: Call) -> None:
        if call.key.resource == DEVICE_CLAIMS and call.verb == "create":
            self._claim_created(call)
        if not call.succeeded or call.stage is not Stage.LANDED:
            return
        if call.key in self._unselected and call.is_write:
            del self._unselected[call.key]
            self.reached("volume-given-up")
        elif call.is_bind:
            self._pod_bound(call)
        elif call.key.resource == DEVICE_CLAIMS and call.verb == "delete":
            self.reached("special-claim-given-back")
        elif call.key.resource == DEVICE_CLAIMS and call.is_write:
            status = call.body.get("status") or {}
            if "allocation" in status and status["allocation"] is None:
                self.reached("devices-given-back")

    def _claim_created(self, call: Call) -> None:
        if call.stage is Stage.LANDED and call.exchange.response is not None:
            if call.exchange.response.status == _CONFLICT:
                self.reached("special-claim-made-before")
        elif call.stage is Stage.ANSWERED and call.exchange.outcome not in _CREATED:
            self.reached("special-claim-refused")

    def _pod_bound(self, call: Call) -> None:
        store, namespace = self.context.store, call.key.namespace
        pod = found(store, Key("pods", namespace, call.key.name)) or {}
        for name in volume_claims_of(pod):
            claim = found(store, Key(VOLUME_CLAIMS, namespace, name)) or {"spec": {}}
            volume = found(store, Key(VOLUMES, "", claim["spec"].get("volumeName", ""))) or {"metadata": {}}
            is_new = _PROVISIONED_BY in volume["metadata"].get("annotations", {})
            self.reached("volume-provisioned" if is_new else "volume-reserved")
        for name in device_claims_of(pod):
            self._bound[call.uid] = self.now
            claim = found(store, Key(DEVICE_CLAIMS, namespace, name)) or {}
            self.reached("claim-shared" if len(list(consumers_of(claim))) > 1 else "devices-reserved")
            if is_for_extended(claim or {"metadata": {}}):
                self.reached("special-claim-used")

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        entries = self.context.store.entries(DEVICE_CLAIMS)
        if host != self._leader:
            self._leader = host
            held = [entry.data for entry in entries if self._is_held(entry.data)]
            if held:
                self.reached("devices-left-by-leader")
            if any(any(unready_devices(each)) for each in held):
                self.reached("devices-prepared-at-failover")
            if any(map(is_for_extended, held)):
                self.reached("special-claim-left-by-leader")
        places = any(bind.grants for placement in result.placements for bind in placement.binds)
        if places and self._is_a_pool_incomplete():
            self.reached("pool-incomplete")

    def _is_held(self, claim: Object) -> bool:
        owners = (owner_of(claim),) if is_for_extended(claim) else ()
        pods = [self.truth.pods.get(uid) for uid in (*consumers_of(claim), *owners)]
        return any(pod is not None and pod.is_waiting for pod in pods)

    def _is_a_pool_incomplete(self) -> bool:
        generations: dict[tuple[str, str], set[int]] = {}
        for entry in self.context.store.entries(SLICES):
            spec = entry.data["spec"]
            name = (spec["driver"], spec["pool"]["name"])
            generations.setdefault(name, set()).add(spec["pool"]["generation"])
        return any(len(each) > 1 for each in generations.values())

    def on_tick(self) -> None:
        for _ in self._unselected:
            self.reached("provisioner-failed")
        self._unselected.clear()
        for uid, at in list(self._bound.items()):
            pod = self.truth.pods.get(uid)
            if pod is None or pod.phase != "Pending" or pod.is_deleting:
                del self._bound[uid]
            elif self.now - at > _REFUSED_S and pod.node not in self.truth.bad_nodes:
                self.reached("claims-refused")
                del self._bound[uid]
