"""S26: pods are bound after their claims, and where their volumes are; no volume has two claims.

L14: no claim waits for ever for a volume of the node that was selected for it.
"""

from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.invariants.bounds import VOLUME_WAIT_S
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.claim_facts import (
    COMPLETED,
    SELECTED,
    VOLUME_CLAIMS,
    VOLUMES,
    found,
    matches,
    volume_claims_of,
)
from phalanx_simulator.invariants.truth import Truth
from phalanx_simulator.invariants.undisturbed_leader import UndisturbedLeader


class VolumesAreBound(Check):
    """S26: claims are bound before their pods, each to a volume of its own that the node can mount.

    A bind is compared with the API when it is applied. Claims and volumes are never unbound.
    """

    name = "S26"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._claims: dict[str, Key] = {}
        """By volume, the claim that names it."""

    def on_change(self, change: Change) -> None:
        key = change.entry.key
        if key.resource != VOLUME_CLAIMS:
            return
        volume = change.entry.data["spec"].get("volumeName", "")
        if change.type is ChangeType.DELETED:
            if self._claims.get(volume) == key:
                del self._claims[volume]
        elif volume:
            other = self._claims.setdefault(volume, key)
            if other != key:
                self.violated(volume, f"bound to claim {key.path} and to claim {other.path}")

    def on_call(self, call: Call) -> None:
        if not call.is_bind or call.stage is not Stage.LANDED or not call.succeeded:
            return
        pod = found(self.context.store, Key("pods", call.key.namespace, call.key.name))
        for name in volume_claims_of(pod or {}):
            claim = found(self.context.store, Key(VOLUME_CLAIMS, call.key.namespace, name))
            if claim is None:
                self.violated(call.key.path, f"bound to {call.node} without its claim {name}")
            else:
                self._compare(call, claim)

    def _compare(self, call: Call, claim: Object) -> None:
        name = claim["metadata"]["name"]
        volume_name = claim["spec"].get("volumeName", "")
        if not volume_name or COMPLETED not in claim["metadata"].get("annotations", {}):
            self.violated(call.key.path, f"bound to {call.node} before its claim {name} was bound")
            return
        volume = found(self.context.store, Key(VOLUMES, "", volume_name))
        node = found(self.context.store, Key("nodes", "", call.node))
        if volume is None or node is None:
            return
        affinity = (volume["spec"].get("nodeAffinity") or {}).get("required")
        if not matches(affinity, node["metadata"].get("labels", {}), call.node):
            self.violated(call.key.path, f"bound to {call.node}, which cannot mount volume {volume_name}")


class NoEndlessVolumeWait(Check):
    """L14: a claim keeps its selected node for at most VOLUME_WAIT_S without a volume.

    The scheduler that selected it then gives the node up, so that the gang may go elsewhere, while nothing
    disturbs the leader.
    """

    name = "L14"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._leader = UndisturbedLeader(truth, context.clock.monotonic)
        self._selected: dict[Key, tuple[str, float]] = {}
        """By claim without a volume: its node, and since when."""

    def on_change(self, change: Change) -> None:
        key, claim = change.entry.key, change.entry.data
        if key.resource != VOLUME_CLAIMS:
            return
        node = claim["metadata"].get("annotations", {}).get(SELECTED, "")
        if change.type is ChangeType.DELETED or claim["spec"].get("volumeName") or not node:
            self._selected.pop(key, None)
        elif self._selected.get(key, ("", 0.0))[0] != node:
            self._selected[key] = (node, self.now)

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        self._leader.take(host)

    def on_tick(self) -> None:
        for key, (node, since) in list(self._selected.items()):
            if min(self.now - since, self._leader.seconds) > VOLUME_WAIT_S:
                self.violated(key.path, f"waits for a volume of {node} since {since:.0f} s")
                del self._selected[key]
