"""A thin client for the conformance cases: it adds and hides nothing of a server's responses."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from msgspec import Struct

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
PODGROUPS = "/apis/scheduling.phalanx.dev/v1alpha1"


class Answer(Struct, frozen=True):
    """Status code and decoded body."""

    code: int
    body: Any

    @property
    def refusal(self) -> tuple[int, str, str]:
        """Code, reason and message of a refused request. Fails if the request was not refused."""
        assert self.code >= 400, self
        assert self.body["kind"] == "Status"
        assert (self.body["apiVersion"], self.body["status"]) == ("v1", "Failure")
        assert self.body["code"] == self.code
        return self.code, self.body["reason"], self.body["message"]

    @property
    def object(self) -> Object:
        """The object of a request that succeeded."""
        assert self.code in (200, 201), self
        body: Object = self.body
        return body

    @property
    def metadata(self) -> Object:
        """Its metadata."""
        metadata: Object = self.object["metadata"]
        return metadata

    @property
    def names(self) -> list[str]:
        """Names of the items of a list."""
        return [item["metadata"]["name"] for item in self.object["items"]]


class Api:
    """One server, and a namespace for one test."""

    def __init__(self, session: aiohttp.ClientSession, namespace: str) -> None:
        self._session = session
        self.namespace = namespace
        self.root = f"/api/v1/namespaces/{namespace}"
        self.pods = f"{self.root}/pods"
        self.groups = f"{PODGROUPS}/namespaces/{namespace}/podgroups"
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        async with self._session.request(method, path, data=data, params=query, headers=headers) as answer:
            raw = await answer.read()
            is_json = answer.content_type == "application/json"
            return Answer(answer.status, json.loads(raw) if is_json else raw.decode())

    async def get(self, path: str, **query: str) -> Answer:
        return await self.call("GET", path, query=query)

    async def post(self, path: str, body: object) -> Answer:
        return await self.call("POST", path, body)

    async def put(self, path: str, body: object) -> Answer:
        return await self.call("PUT", path, body)

    async def patch(self, path: str, body: object, content_type: str = MERGE) -> Answer:
        return await self.call("PATCH", path, body, content_type=content_type)

    async def delete(self, path: str, body: object = None, **query: str) -> Answer:
        return await self.call("DELETE", path, body, query=query)

    async def create_pod(self, name: str, **spec: Any) -> Object:
        return (await self.post(self.pods, pod(name, **spec))).object

    async def bind(self, name: str, node: str, **metadata: Any) -> Answer:
        return await self.post(f"{self.pods}/{name}/binding", binding(name, node, **metadata))

    async def create_bound_pod(self, name: str, node: str = "node-a", **spec: Any) -> Object:
        await self.create_pod(name, **spec)
        assert (await self.bind(name, node)).code == 201
        return (await self.get(f"{self.pods}/{name}")).object

    async def create_group(self, name: str, **metadata: Any) -> Object:
        return (await self.post(self.groups, group(name, **metadata))).object

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> "AsyncIterator[Events]":
        options = {"watch": "true", **query}
        async with self._session.get(path, params=options) as answer:
            assert answer.status == 200, await answer.text()
            yield Events(answer)


class Events:
    """The events of one watch."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self) -> Object:
        """The next event; fails at the end of the stream."""
        line = await asyncio.wait_for(self._answer.content.readline(), timeout=30)
        assert line, "the watch has ended"
        event: Object = json.loads(line)
        return event

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Type and object name of the next few events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def rest(self) -> list[Object]:
        """All events until the server ends the watch."""
        return [json.loads(line) async for line in self._answer.content]


def pod(name: str, **spec: Any) -> Object:
    """A pod with one container of one CPU."""
    container = {"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "phalanx-conformance", "containers": [container], **spec},
    }


def labelled(item: Object, **labels: str) -> Object:
    """The object with labels."""
    return {**item, "metadata": {**item["metadata"], "labels": labels}}


def binding(name: str, node: str, **metadata: Any) -> Object:
    """A Binding of the pod to the node."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def group(name: str, **metadata: Any) -> Object:
    """A PodGroup, as an example of a custom resource."""
    return {
        "apiVersion": "scheduling.phalanx.dev/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, **metadata},
        "spec": {"minMember": 2},
    }
