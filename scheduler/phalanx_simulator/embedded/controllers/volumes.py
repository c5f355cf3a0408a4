"""The volume controller of kube-controller-manager.

The controller makes volumes available, and binds a claim to the volume that names it: first the phase of the
volume, then the claim. It does not choose volumes itself; schedulers do. A volume whose claim is gone is
Released, or deleted if it was provisioned.
"""

from functools import partial
from typing import Final

from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.provisioned_volumes import PROVISIONED_BY
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

SIM_VOLUME_BIND_S: Final = 3.0
"""Seconds from the change of a volume until its claim is bound. Long, so that much can happen meanwhile."""

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"


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
        reference, phase = (
            volume["spec"].get("claimRef") or {},
            volume.get("status", {}).get("phase", "Pending"),
        )
        name = Key(CLAIMS, reference.get("namespace", ""), reference.get("name", ""))
        claim = self._client.get(name) if reference else None
        if claim is None and not reference.get("uid"):
            # Without a UID it is for a claim that may be created later.
            if phase != "Available":
                self._client.update_status(key, phase="Available")
        elif claim is None or reference.get("uid", "") not in ("", claim["metadata"]["uid"]):
            self._release(key, volume, phase)
        elif phase in ("Pending", "Available"):
            self._queue.call_later(SIM_VOLUME_BIND_S, partial(self._bind, key, name))

    def _release(self, key: Key, volume: Object, phase: str) -> None:
        if PROVISIONED_BY in volume["metadata"].get("annotations", {}):
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


def _with_volume(claim: Object, *, name: str) -> Object:
    annotations = {**claim["metadata"].get("annotations", {}), BIND_COMPLETED: "yes"}
    meta = {**claim["metadata"], "annotations": annotations}
    return {**claim, "metadata": meta, "spec": {**claim["spec"], "volumeName": name}}
