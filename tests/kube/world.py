"""Helpers of tests that create and read objects in their own namespace."""

import asyncio
from typing import Any

import msgspec
from phalanx.kube.client import Client, Patch
from phalanx.kube.errors import AlreadyExists, ApiError, NotFound
from phalanx.model.api.kinds import KINDS
from phalanx.model.decisions import Bind
from phalanx.model.names import NodeName, PodUid
from phalanx.ports import Transport

from tests.crds.files import definitions
from tests.fake_objects import fake_pod

TIMEOUT = 30.0
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class World:
    def __init__(self, transport: Transport, *, namespace: str) -> None:
        self.namespace = namespace
        self.client = Client(transport)

    async def create_namespace(self) -> None:
        await self.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    async def remove(self) -> None:
        """Delete the namespace, and what keeps it: the namespace controller would try again for ever."""
        for kind in ("PersistentVolumeClaim", "ResourceClaim"):
            await self._drop_finalizers(kind)
        namespace = await self.get(f"/api/v1/namespaces/{self.namespace}")
        await self.client.delete(
            f"/api/v1/namespaces/{self.namespace}", uid=namespace["metadata"]["uid"], timeout=TIMEOUT
        )

    async def _drop_finalizers(self, kind: str) -> None:
        body = msgspec.json.encode({"metadata": {"finalizers": None}})
        try:
            listed = await self.get(self.path(kind))
        except NotFound:
            return  # the embedded API server serves fewer kinds
        for found in listed["items"]:
            if found["metadata"].get("finalizers"):
                path = self.path(kind, found["metadata"]["name"])
                await self.client.patch(path, body, how=Patch.MERGE, timeout=TIMEOUT)

    async def create(self, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = msgspec.json.decode(
            await self.client.create(path, msgspec.json.encode(manifest), timeout=TIMEOUT)
        )
        return answer

    async def get(self, path: str) -> dict[str, Any]:
        answer: dict[str, Any] = await self.client.get(path, msgspec.json.decode)
        return answer

    def path(self, kind: str, name: str = "", subresource: str = "") -> str:
        return KINDS[kind].path(namespace=self.namespace, name=name, subresource=subresource)

    async def pod(self, name: str, **options: Any) -> str:
        """Create a pod and return its UID."""
        created = await self.create(self.path("Pod"), fake_pod(name, namespace=self.namespace, **options))
        uid: str = created["metadata"]["uid"]
        return uid

    async def get_pod(self, name: str) -> dict[str, Any]:
        return await self.get(self.path("Pod", name))

    async def node_of(self, name: str) -> str:
        node: str = (await self.get_pod(name))["spec"].get("nodeName", "")
        return node

    async def bind_elsewhere(self, name: str, node: str) -> None:
        uid = (await self.get_pod(name))["metadata"]["uid"]
        bind = Bind(PodUid(uid), self.namespace, name, NodeName(node))
        await self.client.bind(bind, timeout=TIMEOUT)

    async def delete_pod(self, name: str) -> None:
        """Delete it at once, without a grace period."""
        path = self.path("Pod", name)
        uid = (await self.get(path))["metadata"]["uid"]
        await self.client.delete(path, uid=uid, timeout=TIMEOUT)

    async def label(self, kind: str, name: str, **labels: str) -> None:
        body = msgspec.json.encode({"metadata": {"labels": labels}})
        await self.client.patch(self.path(kind, name), body, how=Patch.MERGE, timeout=TIMEOUT)

    async def install_crds(self) -> None:
        """Install our CRDs unless they exist; returns when they are served."""
        for crd in definitions().values():
            try:
                await self.create(_CRDS, crd)
            except AlreadyExists:
                continue
        for kind in ("PodGroup", "Queue", "Topology"):
            while not await self._is_served(kind):
                await asyncio.sleep(0.05)

    async def _is_served(self, kind: str) -> bool:
        try:
            await self.get(KINDS[kind].path())
        except (NotFound, ApiError):
            return False
        return True

    async def pod_group(self, name: str, **spec: Any) -> dict[str, Any]:
        body = {
            "apiVersion": KINDS["PodGroup"].api_version,
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"minMember": 1, **spec},
        }
        return await self.create(self.path("PodGroup"), body)

    async def events_of(self, pod: str) -> list[dict[str, Any]]:
        listed = await self.get(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")
        return [event for event in listed["items"] if event["regarding"]["name"] == pod]
