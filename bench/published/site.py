"""A cluster on which a case is played, through its API alone: the simulated one, or a real control plane."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

import msgspec
from msgspec import Struct
from phalanx.ports import Response
from phalanx_controlplane.components import FAKE_NODE_ANNOTATION
from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.manifests import Manifest

from tests.fake_objects import collection_path

PODS_PATH: Final = "/api/v1/namespaces/default/pods"
NODES_PATH: Final = "/api/v1/nodes"
MERGE: Final = "application/merge-patch+json"
ENDED: Final = ("Succeeded", "Failed")

_NOT_FOUND: Final = 404
_ERRORS: Final = 400
_NODES_WITHIN_S: Final = 60.0

T = TypeVar("T")


Api = Callable[[Request], Awaitable[Response]]
"""Sends a request to an API server, and returns the answer, also when it is an error."""


class Refused(Exception):
    """The API server refused a request; the message carries its answer."""


class _Meta(Struct, rename="camel", frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _PodSpec(Struct, rename="camel", frozen=True):
    node_name: str = ""


class _PodStatus(Struct, frozen=True):
    phase: str = "Pending"


class Pod(Struct, frozen=True):
    """What the cases look at."""

    metadata: _Meta = _Meta()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def runs(self) -> bool:
        """Whether its containers run, and nothing stops it."""
        return self.status.phase == "Running" and self.metadata.deletion_timestamp is None

    @property
    def holds(self) -> bool:
        """Whether it holds capacity of a node."""
        return bool(self.spec.node_name) and self.status.phase not in ENDED


class _NodeSpec(Struct, frozen=True):
    taints: tuple[msgspec.Raw, ...] = ()


class _Node(Struct, frozen=True):
    spec: _NodeSpec = _NodeSpec()


class Listed(Struct, frozen=True):
    """A list of objects as they are."""

    items: list[dict[str, Any]] = []


class _Pods(Struct, frozen=True):
    items: tuple[Pod, ...] = ()


class _Nodes(Struct, frozen=True):
    items: tuple[_Node, ...] = ()


class Pace(Struct, frozen=True, kw_only=True):
    """How fast time passes on a cluster: seconds that a second of a case takes there, and between looks.

    `patience_s`: how long nothing may happen at least before a case counts as deadlocked. A busy machine may
    do nothing for long.
    """

    second: float = 1.0
    look_s: float = 0.5
    patience_s: float = 0.0


class Site:
    """A cluster with one scheduler. `knows_gangs`: PodGroups and Queues of Phalanx are served and obeyed.

    Objects are in the default namespace.
    """

    def __init__(self, api: Api, *, scheduler: str, knows_gangs: bool, pace: Pace) -> None:
        self.scheduler = scheduler
        self.knows_gangs = knows_gangs
        self.pace = pace
        self._api = api

    # --- time ----------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds of this cluster's clock."""
        return asyncio.get_running_loop().time()

    def takes(self, seconds: float) -> float:
        """How long so many seconds of a case take here."""
        return seconds * self.pace.second

    def patience(self, seconds: float) -> float:
        """How long nothing may happen here before a case counts as deadlocked."""
        return max(self.takes(seconds), self.pace.patience_s)

    async def looks(self, *, for_s: float) -> AsyncIterator[float]:
        """The time at each look, for so long at most."""
        end = self.now() + for_s
        while (now := self.now()) < end:
            yield now
            await asyncio.sleep(self.pace.look_s)

    # --- reading -------------------------------------------------------------------------------------------

    async def pods(self, namespace: str = "default") -> tuple[Pod, ...]:
        """All pods of a namespace."""
        return (await self.read(f"/api/v1/namespaces/{namespace}/pods", _Pods)).items

    async def read(self, path: str, struct: type[T], *, query: Mapping[str, str] | None = None) -> T:
        """GET, decoded. Raises Refused."""
        return msgspec.json.decode(_accepted(await self._api(Request("GET", path, query or {}))), type=struct)

    async def find(self, path: str) -> dict[str, Any] | None:
        """One object as it is; None if it does not exist."""
        answer = await self._api(Request("GET", path))
        if answer.status == _NOT_FOUND:
            return None
        found: dict[str, Any] = msgspec.json.decode(_accepted(answer))
        return found

    # --- writing -------------------------------------------------------------------------------------------

    async def create(self, *manifests: Manifest, can_exist: bool = False) -> None:
        """Create objects one after the other. Raises Refused."""
        for manifest in manifests:
            path = collection_path(manifest)
            answer = await self._api(Request("POST", path, body=msgspec.json.encode(manifest)))
            if not (can_exist and answer.status == 409):
                _accepted(answer)

    async def create_nodes(self, *manifests: Manifest) -> None:
        """Create nodes, and wait until pods may use all nodes."""
        for manifest in manifests:
            annotations = {**manifest["metadata"].get("annotations", {}), FAKE_NODE_ANNOTATION: "fake"}
            await self.create({**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}})
        async for _ in self.looks(for_s=_NODES_WITHIN_S):
            nodes = (await self.read(NODES_PATH, _Nodes)).items
            if len(nodes) >= len(manifests) and not any(node.spec.taints for node in nodes):
                return
        raise Refused("the nodes did not become ready")

    async def patch(self, path: str, change: Manifest) -> bool:
        """Merge a change into an object; False if it is gone. Raises Refused."""
        body = msgspec.json.encode(change)
        answer = await self._api(Request("PATCH", path, body=body, content_type=MERGE))
        return answer.status != _NOT_FOUND and bool(_accepted(answer))

    async def end(self, pod: Pod) -> None:
        """Let the containers of a pod end with success."""
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/status"
        await self.patch(path, {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Succeeded"}})

    async def delete(self, path: str) -> bool:
        """Delete an object and what it owns; False if it is gone. Raises Refused."""
        body = msgspec.json.encode({"propagationPolicy": "Background"})
        answer = await self._api(Request("DELETE", path, body=body))
        return answer.status != _NOT_FOUND and bool(_accepted(answer))


def _accepted(answer: Response) -> bytes:
    if answer.status >= _ERRORS:
        raise Refused(f"{answer.status}: {answer.body.decode(errors='replace')}")
    return answer.body


class Played(Struct, frozen=True, kw_only=True):
    """How a case went: its figures by name, and what was not as it must be."""

    figures: Mapping[str, float | int | str]
    wrong: tuple[str, ...] = ()


class Play(Protocol):
    """Plays a case on a cluster without nodes."""

    async def __call__(self, site: Site) -> Played:
        """What came out."""
