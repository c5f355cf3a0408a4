"""S27, S28: devices have one user, pods are bound after their claims, and claims are given back."""

from typing import Final

from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.invariants.bounds import RESERVED_S
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.claim_facts import (
    DEVICE_CLAIMS,
    SLICES,
    Device,
    consumers_of,
    device_claims_of,
    devices_of,
    found,
    matches,
    unready_devices,
)
from phalanx_simulator.invariants.preparations import Preparations
from phalanx_simulator.invariants.shares import overused
from phalanx_simulator.invariants.truth import Truth
from phalanx_simulator.invariants.undisturbed_leader import UndisturbedLeader

_PERIOD_S: Final = 10.0


class DevicesHaveOneUser(Check):
    """S27: no device is allocated to two claims, unless these have shares that consume no more than it has;
    and pods are bound after their claims, where these are, and after the drivers have prepared their devices.

    A bind is compared with the API when it is applied.
    """

    name = "S27"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._users: dict[Device, dict[str, Object]] = {}
        """By device, the claims to which it is allocated, by UID."""
        self._devices: dict[str, tuple[Device, ...]] = {}
        """By UID of a claim."""

    def on_change(self, change: Change) -> None:
        if change.entry.key.resource != DEVICE_CLAIMS:
            return
        claim = change.entry.data
        uid = claim["metadata"]["uid"]
        before = self._devices.pop(uid, ())
        for device in before:
            del self._users[device][uid]
        devices = () if change.type is ChangeType.DELETED else tuple(dict.fromkeys(devices_of(claim)))
        for device in devices:
            self._users.setdefault(device, {})[uid] = claim
            problem = overused(device, self._users[device].values(), self.context.store)
            if problem and device not in before:
                self.violated(change.entry.key.path, f"{'/'.join(device)} {problem}")
        if devices:
            self._devices[uid] = devices

    def on_call(self, call: Call) -> None:
        if not call.is_bind or call.stage is not Stage.LANDED or not call.succeeded:
            return
        pod = found(self.context.store, Key("pods", call.key.namespace, call.key.name))
        for name in device_claims_of(pod or {}):
            claim = found(self.context.store, Key(DEVICE_CLAIMS, call.key.namespace, name)) if name else None
            problem = self._problem(call, claim)
            if problem:
                self.violated(call.key.path, f"bound to {call.node}, and its claim {name} {problem}")

    def _problem(self, call: Call, claim: Object | None) -> str:
        allocation = ((claim or {}).get("status") or {}).get("allocation")
        if claim is None or not allocation:
            return "is not allocated"
        if call.uid not in consumers_of(claim):
            return "is not reserved for it"
        node = found(self.context.store, Key("nodes", "", call.node))
        labels = node["metadata"].get("labels", {}) if node is not None else None
        if labels is not None and not matches(allocation.get("nodeSelector"), labels, call.node):
            return "is allocated for other nodes"
        unready = next(unready_devices(claim), "") or self._without_conditions(allocation)
        return f"has a device that is not ready: {unready}" if unready else ""

    def _without_conditions(self, allocation: Object) -> str:
        """A device of the allocation whose driver publishes binding conditions that it does not have."""
        for each in allocation["devices"].get("results") or ():
            if each.get("bindingConditions") is None and self._prepared(each):
                return f"{each['device']} (its conditions were not written)"
        return ""

    def _prepared(self, result: Object) -> bool:
        place = (result["driver"], result["pool"])
        return any(
            "bindingConditions" in device
            for entry in self.context.store.entries(SLICES)
            if (entry.data["spec"]["driver"], entry.data["spec"]["pool"]["name"]) == place
            for device in entry.data["spec"]["devices"]
            if device["name"] == result["device"]
        )


class ClaimsAreGivenBack(Check):
    """S28: no claim stays reserved or allocated for pods that do not run.

    A claim that is reserved for a pod without a node is given back within RESERVED_S, while nothing disturbs
    the leader; within PREPARED_S while its gang waits for devices that their drivers prepare. At rest no
    claim is reserved for a pod that has ended, and none is allocated for nobody. The claim controller takes
    claims back from pods that have ended; a scheduler must not reserve them again.
    """

    name = "S28"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._leader = UndisturbedLeader(truth, context.clock.monotonic)
        self._waiting: dict[tuple[str, str], float] = {}
        """By UIDs of claim and pod: since when it is reserved for the pod, which has no node."""
        self._preparations = Preparations(truth, self._leader)
        self._next = _PERIOD_S

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        self._leader.take(host)

    def on_tick(self) -> None:
        if self.now < self._next:
            return
        self._next = self.now + _PERIOD_S
        before, self._waiting = self._waiting, {}
        entries = list(self.context.store.entries(DEVICE_CLAIMS))
        preparing = self._preparations.gangs(entries, self.now)
        for entry in entries:
            for uid in consumers_of(entry.data):
                pod = self.truth.pods.get(uid)
                if pod is None or pod.node or pod.is_finished:
                    continue
                key = (entry.data["metadata"]["uid"], uid)
                since = self._waiting[key] = self.now if pod.gang in preparing else before.get(key, self.now)
                if min(self.now - since, self._leader.seconds) > RESERVED_S:
                    self.violated(entry.key.path, f"reserved for {pod}, which has had no node for long")
                    del self._waiting[key]

    def at_rest(self) -> None:
        for entry in self.context.store.entries(DEVICE_CLAIMS):
            users = [self.truth.pods.get(uid) for uid in consumers_of(entry.data)]
            if any(pod is None or pod.is_finished for pod in users):
                self.violated(entry.key.path, "is reserved for a pod that has ended")
            if not users and any(devices_of(entry.data)):
                self.violated(entry.key.path, "is allocated for nobody")

    def at_end(self) -> None:
        for entry in self.context.store.entries(DEVICE_CLAIMS):
            self.violated(entry.key.path, "is left although everything was deleted")
