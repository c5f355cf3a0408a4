"""The volume controller of kube-controller-manager, and a provisioner of volumes.

The controller makes volumes available, and binds a claim to the volume that names it: first the phase of the
volume, then the claim. It does not choose volumes itself; schedulers do. A volume whose claim is gone is
Released, or deleted if it was provisioned.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.limits import SIM_VOLUME_BIND_S
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"


class VolumeController:
    """Binds claims to volumes that name them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queue = WorkQueue(self._sync)
        self._queue.follow(client, VOLUMES, CLAIMS)

    def close(self) -> None:
        """Bind nothing more."""
        self._queue.close()

    def _sync(self, key: Key) -> None:
        if key.resource == CLAIMS:
            for volume in self._client.keys(VOLUMES):
                if self._names(volume, key):
                    self._sync_volume(volume)
            return
        self._sync_volume(key)

    def _names(self, volume: Key, claim: Key) -> bool:
        reference = (self._client.get(volume) or {"spec": {}})["spec"].get("claimRef") or {}
        return (reference.get("namespace"), reference.get("name")) == (claim.namespace, claim.name)

    def _sync_volume(self, key: Key) -> None:
        volume = self._client.get(key)
        if volume is None:
            return
        reference, phase = volume["spec"].get("claimRef"), volume.get("status", {}).get("phase", "Pending")
        if reference is None:
            if phase != "Available":
                self._client.update_status(key, phase="Available")
            return
        claim_key = Key(CLAIMS, reference["namespace"], reference["name"])
        claim = self._client.get(claim_key)
        if claim is None or reference.get("uid", "") not in ("", claim["metadata"]["uid"]):
            self._release(key, volume, phase)
        elif phase in ("Pending", "Available"):
            self._queue.call_later(SIM_VOLUME_BIND_S, partial(self._bind, key, claim_key))

    def _release(self, key: Key, volume: Object, phase: str) -> None:
        if _PROVISIONED_BY in volume["metadata"].get("annotations", {}):
            self._client.delete(key, uid=volume["metadata"]["uid"])
        elif phase != "Released":
            self._client.update_status(key, phase="Released")

    def _bind(self, key: Key, claim_key: Key) -> None:
        """Bind them, if the volume still names the claim and the claim has none."""
        volume, claim = self._client.get(key), self._client.get(claim_key)
        if volume is None or claim is None or claim["spec"].get("volumeName"):
            return
        reference = volume["spec"].get("claimRef") or {}
        if reference.get("uid", "") not in ("", claim["metadata"]["uid"]) or not reference:
            return
        self._client.update_status(key, phase="Bound")
        self._client.update(claim_key, partial(_with_volume, name=key.name))
        self._client.update_status(claim_key, phase="Bound")


class Provisioner:
    """Creates a volume for the selected node of a claim after a while, or gives up."""

    def __init__(
        self,
        client: Client,
        *,
        driver: str,
        delay_s: float,
        gives_up: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`gives_up`: whether no volume can be created for this node now."""
        self._client = client
        self._driver = driver
        self._delay_s = delay_s
        self._gives_up = gives_up
        self.failures = 0
        """Claims for which it has given up."""
        self._queue = WorkQueue(self._sync)
        self._queue.follow(client, CLAIMS)

    def close(self) -> None:
        """Create nothing more."""
        self._queue.close()

    def _sync(self, key: Key) -> None:
        if self._node_of(self._client.get(key)):
            self._queue.call_later(self._delay_s, partial(self._serve, key))

    def _node_of(self, claim: Object | None) -> str:
        """The selected node of a claim that waits for a volume of this driver."""
        if claim is None or claim["spec"].get("volumeName"):
            return ""
        name = Key("storageclasses.storage.k8s.io", "", claim["spec"].get("storageClassName", ""))
        found = self._client.get(name)
        node: str = claim["metadata"].get("annotations", {}).get(SELECTED_NODE, "")
        return node if found is not None and found.get("provisioner") == self._driver else ""

    def _serve(self, key: Key) -> None:
        claim = self._client.get(key)
        node = self._node_of(claim)
        if claim is None or not node:
            return
        name = f"pvc-{claim['metadata']['uid']}"
        if self._client.get(Key(VOLUMES, "", name)) is not None:
            return
        if self._gives_up(node):
            self.failures += 1
            self._client.update(key, _without_node)
            return
        self._client.create(VOLUMES, "", _volume(name, claim, node, self._driver))


def _with_volume(claim: Object, *, name: str) -> Object:
    annotations = {**claim["metadata"].get("annotations", {}), BIND_COMPLETED: "yes"}
    meta = {**claim["metadata"], "annotations": annotations}
    return {**claim, "metadata": meta, "spec": {**claim["spec"], "volumeName": name}}


def _without_node(claim: Object) -> Object:
    annotations = {**claim["metadata"].get("annotations", {})}
    annotations.pop(SELECTED_NODE, None)
    return {**claim, "metadata": {**claim["metadata"], "annotations": annotations}}


def _volume(name: str, claim: Object, node: str, driver: str) -> Object:
    meta, spec = claim["metadata"], claim["spec"]
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {_PROVISIONED_BY: driver}},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "storageClassName": spec["storageClassName"],
            "csi": {"driver": driver, "volumeHandle": name},
            "claimRef": {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }
