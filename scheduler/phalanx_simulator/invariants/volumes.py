"""S26: pods are bound after their claims, and where their volumes are; no volume has two claims."""

from collections.abc import Iterator, Mapping

from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.truth import Truth

_CLAIMS = "persistentvolumeclaims"
_COMPLETED = "pv.kubernetes.io/bind-completed"


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
        if key.resource != _CLAIMS:
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
        pod = self._get(Key("pods", call.key.namespace, call.key.name))
        for name in _claims_of(pod or {}):
            claim = self._get(Key(_CLAIMS, call.key.namespace, name))
            if claim is not None:
                self._compare(call, claim)

    def _compare(self, call: Call, claim: Object) -> None:
        name = claim["metadata"]["name"]
        volume_name = claim["spec"].get("volumeName", "")
        if not volume_name or _COMPLETED not in claim["metadata"].get("annotations", {}):
            self.violated(call.key.path, f"bound to {call.node} before its claim {name} was bound")
            return
        volume = self._get(Key("persistentvolumes", "", volume_name))
        node = self._get(Key("nodes", "", call.node))
        if volume is None or node is None:
            return
        if not _is_accessible(volume, node["metadata"].get("labels", {})):
            self.violated(call.key.path, f"bound to {call.node}, which cannot mount volume {volume_name}")

    def _get(self, key: Key) -> Object | None:
        entry = self.context.store.get(key)
        return None if entry is None else entry.data


def _claims_of(pod: Object) -> Iterator[str]:
    for volume in pod.get("spec", {}).get("volumes") or []:
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}"


def _is_accessible(volume: Object, labels: Mapping[str, str]) -> bool:
    """Whether one of the required terms matches the labels; In and Exists are the operators of simulated
    volumes."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    return any(
        all(
            each["key"] in labels and (each["operator"] == "Exists" or labels[each["key"]] in each["values"])
            for each in term.get("matchExpressions") or []
        )
        for term in required["nodeSelectorTerms"]
    )
