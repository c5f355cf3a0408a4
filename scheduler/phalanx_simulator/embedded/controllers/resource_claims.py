"""The resource claim controller, as kube-controller-manager's ResourceClaim controller.

It makes claims of templates, takes devices back from pods that have ended, and deletes the claims that they
own: those that it made, and those that a scheduler made for extended resources. As in Kubernetes 1.37, the
latter are found by the status of the pod; without it, the garbage collector deletes them with the pod.
`serve` adds the API group to a server, which does not serve it otherwise.
"""

from typing import Final

from phalanx_simulator.embedded.apiserver.kinds import ResourceType
from phalanx_simulator.embedded.apiserver.objects import is_deleting
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.pod_claims import claim_names
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

GROUP: Final = "resource.k8s.io"
CLAIMS: Final = f"resourceclaims.{GROUP}"
TEMPLATES: Final = f"resourceclaimtemplates.{GROUP}"
SLICES: Final = f"resourceslices.{GROUP}"

DEVICE_TYPES: Final = (
    ResourceType(GROUP, "v1", "resourceclaims", "ResourceClaim", True, status=True),
    ResourceType(GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True),
    ResourceType(GROUP, "v1", "deviceclasses", "DeviceClass", False),
    ResourceType(GROUP, "v1", "resourceslices", "ResourceSlice", False),
    ResourceType(GROUP, "v1", "devicetaintrules", "DeviceTaintRule", False),
)
"""The kinds of Dynamic Resource Allocation."""


def serve(server: ApiServer) -> None:
    """Serve the API group from now on."""
    for kind in DEVICE_TYPES:
        server.types.add(kind)


class ResourceClaims:
    """Makes, frees and deletes claims. The API group must be served."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queue = WorkQueue(self._sync)
        self._queue.follow(client, "pods", CLAIMS)
        self._unsubscribe = client.subscribe("pods", self._pod_changed)

    def close(self) -> None:
        """Stop."""
        self._unsubscribe()
        self._queue.close()

    def _pod_changed(self, change: Change) -> None:
        """Check the claims that a pod which has ended names."""
        pod = change.entry.data
        if change.type is ChangeType.DELETED or _has_ended(pod):
            for name in filter(None, claim_names(pod)):
                self._queue.add(Key(CLAIMS, change.entry.key.namespace, name))

    def _sync(self, key: Key) -> None:
        if key.resource == CLAIMS:
            claim = self._client.get(key)
            if claim is not None:
                self._free(key, claim)
            return
        pod = self._client.get(key)
        if pod is not None and not is_deleting(pod) and not _has_ended(pod):
            self._make_claims(key, pod)

    def _make_claims(self, key: Key, pod: Object) -> None:
        made = {each["name"] for each in pod.get("status", {}).get("resourceClaimStatuses", ())}
        statuses = list(pod.get("status", {}).get("resourceClaimStatuses", ()))
        for entry in pod["spec"].get("resourceClaims", ()):
            name = entry.get("resourceClaimTemplateName")
            template = self._client.get(Key(TEMPLATES, key.namespace, name)) if name else None
            if template is None or entry["name"] in made:
                continue
            claim = f"{key.name}-{entry['name']}-{pod['metadata']['uid'][-5:]}"
            owner = {"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": pod["metadata"]["uid"]}
            new = {
                "apiVersion": f"{GROUP}/v1",
                "kind": "ResourceClaim",
                "metadata": {
                    "name": claim,
                    "namespace": key.namespace,
                    "ownerReferences": [{**owner, "controller": True}],
                },
                "spec": template["spec"]["spec"],
            }
            if self._client.get(Key(CLAIMS, key.namespace, claim)) is None:
                self._client.create(CLAIMS, key.namespace, new)
            statuses.append({"name": entry["name"], "resourceClaimName": claim})
        if len(statuses) > len(made):
            self._client.update_status(key, resourceClaimStatuses=statuses)

    def _free(self, key: Key, claim: Object) -> None:
        status, meta = claim.get("status", {}), claim["metadata"]
        consumers = status.get("reservedFor") or []
        rest = [each for each in consumers if self._uses(key.namespace, each["name"], each["uid"])]
        if len(rest) < len(consumers):
            allocation = status.get("allocation") if rest else None
            # Without an allocation, the API server drops what drivers have reported.
            dropped: Object = {"devices": []} if status.get("devices") and allocation is None else {}
            self._client.update_status(key, reservedFor=rest, allocation=allocation, **dropped)
            if allocation is None:
                self._client.update(key, _without_finalizers)
            return
        if not status.get("allocation") and meta.get("finalizers") and is_deleting(claim):
            self._client.update(key, _without_finalizers)
        owners = meta.get("ownerReferences", ())
        if owners and not is_deleting(claim):
            (owner,) = owners
            if not self._uses(key.namespace, owner["name"], owner["uid"]):
                self._client.delete(key, uid=meta["uid"])

    def _uses(self, namespace: str, name: str, uid: str) -> bool:
        pod = self._client.get(Key("pods", namespace, name))
        return pod is not None and pod["metadata"]["uid"] == uid and not _has_ended(pod)


def _has_ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _without_finalizers(claim: Object) -> Object:
    return {**claim, "metadata": {**claim["metadata"], "finalizers": []}}
