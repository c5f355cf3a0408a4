"""The ephemeral volume controller of kube-controller-manager: makes the claims of generic ephemeral volumes.

The garbage collector deletes them with their pods.
"""

from phalanx_simulator.embedded.apiserver.objects import is_deleting
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.controllers.volumes import CLAIMS
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue


class EphemeralClaims:
    """Makes a claim for each generic ephemeral volume of a pod, unless its name is taken."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queue = WorkQueue(self._sync)
        self._queue.follow(client, "pods")

    def close(self) -> None:
        """Make nothing more."""
        self._queue.close()

    def _sync(self, key: Key) -> None:
        pod = self._client.get(key)
        if pod is None or is_deleting(pod):
            return
        for volume in pod["spec"].get("volumes") or ():
            if "ephemeral" in volume:
                self._make(pod, f"{key.name}-{volume['name']}", volume["ephemeral"]["volumeClaimTemplate"])

    def _make(self, pod: Object, name: str, template: Object) -> None:
        meta = pod["metadata"]
        if self._client.get(Key(CLAIMS, meta["namespace"], name)) is not None:
            return
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        metadata = {
            "name": name,
            "namespace": meta["namespace"],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": dict(template["spec"]),
        }
        self._client.create(CLAIMS, meta["namespace"], claim)
