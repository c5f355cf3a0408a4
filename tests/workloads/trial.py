"""One workload on a cluster of its own, with its real controller and a running scheduler."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from msgspec import Struct, structs
from phalanx_controlplane.controllers import api

from tests.e2e.pod_history import Pod
from tests.kwok import manifests
from tests.kwok.manifests import RUNTIME, Manifest
from tests.kwok.site import GENEROUS_S, LOOK_S, Environment, Site
from tests.workloads.catalog import Change, Workload

SETTLES_S = 2.0
"""By then a controller knows an object that was just created."""


class Trial(Struct, frozen=True):
    """A workload, and the namespace and the nodes for it. `site` changes nodes and pods."""

    workload: Workload
    site: Site
    nodes: list[str]
    suffix: str = ""
    """Of the name of the workload, where there are several."""
    difference: Change | None = None
    """How the workload differs from its file."""

    def copy(self, index: int) -> "Trial":
        """Another workload in the same namespace, of another name."""
        return structs.replace(self, suffix=f"-{index}")

    def changed(self, change: Change) -> "Trial":
        """The workload after this change of its file."""
        return structs.replace(self, difference=change)

    @asynccontextmanager
    async def other_tenant(self) -> AsyncIterator["Trial"]:
        """The same workload in another namespace."""
        site = await Site(self.environment, f"{self.site.name}-other").open()
        try:
            async with self.workload.beside(site):
                yield structs.replace(self, site=site)
        finally:
            await self.environment.delete(f"/api/v1/namespaces/{site.name}")

    def __str__(self) -> str:
        return f"{self.site.name}/{self.object_name}"

    @property
    def environment(self) -> Environment:
        """The control plane with its scheduler."""
        return self.site.environment

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session of an administrator."""
        return self.environment.session

    @property
    def manifests(self) -> list[Manifest]:
        """The documents of the workload's file."""
        found = self.workload.manifests(self.site.name)
        found[-1]["metadata"]["name"] += self.suffix
        if self.difference is not None:
            self.difference(found[-1])
        return found

    @property
    def object_name(self) -> str:
        """The name of the workload in its namespace."""
        name: str = self.manifests[-1]["metadata"]["name"]
        return name

    @property
    def ending(self) -> tuple[str, frozenset[tuple[str, str]]]:
        """The namespace and the labels of the pods that end by themselves."""
        assert self.workload.ends is not None, f"{self.workload.name} has no end"
        labels = {key: value.format(name=self.object_name) for key, value in self.workload.ends.items()}
        return self.site.name, frozenset(labels.items())

    async def submit(self) -> None:
        """Apply the file, as a user does."""
        *before, workload = self.manifests
        for manifest in before:
            await api.apply(self.session, manifest)
        try:
            await api.apply(self.session, workload)
        except api.Refused:
            if not before:
                raise
            await asyncio.sleep(SETTLES_S)  # its webhook does not know the objects before it yet
            await api.apply(self.session, workload)

    @asynccontextmanager
    async def others_on(self, nodes: Sequence[str]) -> AsyncIterator[None]:
        """Pods of somebody else that take all GPUs of these nodes."""
        others = await Site(self.environment, f"{self.site.name}-others").open()
        pods = [manifests.pod(self.site.name, node) for node in nodes]
        for made, node in zip(pods, nodes, strict=True):
            made["metadata"]["namespace"] = others.name
            made["spec"]["nodeName"] = node
        await self.site.create(*pods)
        await others.until(lambda: len(others.placed("")) == len(nodes), "the nodes to be full")
        yield
        await self.environment.delete(f"/api/v1/namespaces/{others.name}")

    async def delete(self) -> None:
        """Delete what the file created, the workload first."""
        for manifest in reversed(self.manifests):
            await api.delete(self.session, manifest)

    async def found(self) -> Manifest:
        """The workload as it is at the API server."""
        async with self.session.get(await self.path(), raise_for_status=True) as answer:
            found: Manifest = await answer.json()
            return found

    async def change(self, field: Sequence[str], value: Any) -> None:
        """Change a field of the workload, given by its path."""
        for name in reversed(field):
            value = {name: value}
        await self.environment.patch(await self.path(), value)

    async def path(self) -> str:
        """The path of the workload."""
        return await api.path_of(self.session, self.manifests[-1])

    def running(self) -> list[Pod]:
        """The pods that run now."""
        return [pod for pod in self.site.pods() if pod.status.phase == "Running"]

    async def all_run(self, size: int = 0) -> list[Pod]:
        """Wait until all pods exist and run, so many if the workload was scaled; the pods."""
        size = size or self.workload.pods

        def complete() -> bool:
            pods = self.site.pods()
            return len(pods) == size and all(pod.status.phase == "Running" for pod in pods)

        await self.site.until(complete, f"{size} pods of {self.workload.name} to run")
        return self.site.pods()

    async def runs_without(self, lost: set[str]) -> list[Pod]:
        """Wait until it runs with all pods again, none of them with these UIDs; the pods."""

        def is_replaced() -> bool:
            pods = self.site.pods()
            runs = len(pods) == self.workload.pods and all(pod.status.phase == "Running" for pod in pods)
            return runs and not lost & {pod.metadata.uid for pod in pods}

        await self.site.until(is_replaced, f"the lost pods of {self.workload.name} to be replaced")
        return self.site.pods()

    def replaceable(self, pods: Sequence[Pod]) -> Pod:
        """One of these pods that its controller replaces, on a node with such pods only."""
        labels = self.workload.replaced
        assert labels is not None, f"{self.workload.name} ends with a lost pod"
        lost = [pod for pod in pods if labels.items() <= pod.metadata.labels.items()]
        kept = {pod.spec.node_name for pod in pods if pod not in lost}
        return [pod for pod in lost if pod.spec.node_name not in kept][-1]

    async def finish(self) -> None:
        """Let the running pods that end by themselves end with success."""
        _, ends = self.ending
        body = {"metadata": {"annotations": {RUNTIME: "0s"}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        for pod in self.site.pods():
            if pod.status.phase == "Running" and ends <= pod.metadata.labels.items():
                path = self.site.pod_path(pod.metadata.name)
                async with self.session.patch(path, json=body, headers=headers) as answer:
                    assert answer.status in (200, 404), await answer.text()  # it may be gone

    async def done(self) -> None:
        """Wait until it has ended, or until it serves if it has no end."""
        await self.site.object_until(await self.path(), self.workload.done)

    async def is_done(self) -> bool:
        """Whether that is so now."""
        return self.workload.done(await self.found())

    async def objects(self) -> set[str]:
        """All objects in the namespace, of every kind that the API server serves, but events."""
        names: set[str] = set()
        for collection in await _collections(self.session):
            base, _, plural = collection.rpartition("/")
            path = f"{base}/namespaces/{self.site.name}/{plural}"
            items = (await _read(self.session, path))["items"]
            names |= {f"{plural}/{each['metadata']['name']}" for each in items}
        return names

    async def nothing_left(self) -> None:
        """Wait until the namespace is empty."""
        left: set[str] = set()
        try:
            async with asyncio.timeout(GENEROUS_S):
                while left := await self.objects():
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise AssertionError(f"{self.workload.name} leaves {sorted(left)}") from None


async def _read(session: aiohttp.ClientSession, path: str) -> Manifest:
    """What the API server answers; it answers 429 while it fills its cache of a new kind."""
    while True:
        async with session.get(path) as answer:
            if answer.status != 429:
                answer.raise_for_status()
                found: Manifest = await answer.json()
                return found
        await asyncio.sleep(LOOK_S)


async def _collections(session: aiohttp.ClientSession) -> list[str]:
    """The paths of all namespaced kinds that can be listed, in their preferred versions."""
    groups = (await _read(session, "/apis"))["groups"]
    bases = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    paths: list[str] = []
    for base in bases:
        paths += [
            f"{base}/{each['name']}"
            for each in (await _read(session, base))["resources"]
            if each["namespaced"] and "list" in each["verbs"] and each["name"] != "events"
        ]
    return paths
