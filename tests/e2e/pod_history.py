"""The events of a watch of all pods, in the order in which the API server committed them.

Independent of the scheduler's code: pods are decoded into a few fields of separate types.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import msgspec
from msgspec import Struct
from phalanx_controlplane.controlplane import ControlPlane

GROUP_LABEL = "scheduling.phalanx.dev/pod-group"
FINISHED = ("Succeeded", "Failed")
WATCH_BUFFER_BYTES = 1 << 22


class Metadata(Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    labels: dict[str, str] = {}
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int = 0


class Resources(Struct, frozen=True):
    requests: dict[str, str] = {}


class Container(Struct, frozen=True):
    resources: Resources = Resources()


class Spec(Struct, frozen=True, rename="camel"):
    containers: list[Container]
    node_name: str = ""
    scheduler_name: str = ""


class Condition(Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class Status(Struct, frozen=True):
    phase: str = "Pending"
    conditions: list[Condition] = []


class Pod(Struct, frozen=True):
    """The fields of a pod that the tests use."""

    metadata: Metadata
    spec: Spec
    status: Status

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def version(self) -> int:
        """The resourceVersion of this state; it grows over all pods."""
        return int(self.metadata.resource_version)

    @property
    def gang(self) -> str:
        """Namespace and name of its PodGroup; empty for a pod without one."""
        label = self.metadata.labels.get(GROUP_LABEL)
        return f"{self.metadata.namespace}/{label}" if label else ""


class Seen(Struct, frozen=True):
    """One event: a pod as it was after a commit, and when the event arrived (seconds since the epoch)."""

    kind: str
    pod: Pod
    at: float


class _Event(Struct):
    type: str
    object: msgspec.Raw


class _ListMeta(Struct, rename="camel"):
    resource_version: str


class _PodList(Struct):
    metadata: _ListMeta
    items: list[Pod]


_event_of = msgspec.json.Decoder(_Event).decode
_pod_of = msgspec.json.Decoder(Pod).decode
_list_of = msgspec.json.Decoder(_PodList).decode


class PodHistory:
    """All events so far, the latest state of each pod by UID, and the first event that showed it bound."""

    def __init__(self) -> None:
        self.events: list[Seen] = []
        self.pods: dict[str, Pod] = {}
        self.bound: dict[str, Seen] = {}
        self._news = asyncio.Event()
        self._ended: asyncio.Task[None] | None = None

    def take(self, kind: str, pod: Pod) -> None:
        """Record one event of the watch."""
        seen = Seen(kind, pod, time.time())
        self.events.append(seen)
        self.pods[pod.metadata.uid] = pod
        if kind == "DELETED":
            del self.pods[pod.metadata.uid]
        if pod.spec.node_name:
            self.bound.setdefault(pod.metadata.uid, seen)
        self._news.set()

    def end(self, task: asyncio.Task[None]) -> None:
        """Record that no events will follow."""
        self._ended = task
        self._news.set()

    async def until(self, so: Callable[[], bool], *, timeout: float = 240.0) -> None:
        """Wait until the condition holds; the timeout only ends a test that would never end."""
        async with asyncio.timeout(timeout):
            while not so():
                if self._ended is not None:
                    self._ended.result()
                self._news.clear()
                await self._news.wait()

    async def until_bound(self, count: int, *, timeout: float = 240.0) -> None:
        """Wait until so many pods were observed as bound."""
        try:
            await self.until(lambda: len(self.bound) >= count, timeout=timeout)
        except TimeoutError:
            raise AssertionError(f"only {len(self.bound)} of {count} pods bound in {timeout:.0f} s") from None

    def members(self, gang: str) -> list[Pod]:
        """The existing pods of a gang."""
        return [pod for pod in self.pods.values() if pod.gang == gang]


@asynccontextmanager
async def watching(plane: ControlPlane) -> AsyncIterator[PodHistory]:
    """The history of all pods from now on, while the context lasts; survives a restart of the API server."""
    history = PodHistory()
    async with plane.session() as session:
        task = asyncio.create_task(_follow(session, history))
        task.add_done_callback(history.end)
        try:
            yield history
        finally:
            task.cancel()


async def _follow(session: aiohttp.ClientSession, history: PodHistory) -> None:
    """Resume after the last event; if that resourceVersion has expired, list all pods again."""
    version = ""
    while True:
        try:
            if not version:
                version = await _list(session, history)
            async for event in _events(session, version):
                if event.type == "ERROR":
                    version = ""
                    break
                pod = _pod_of(event.object)
                history.take(event.type, pod)
                version = pod.metadata.resource_version
        except aiohttp.ClientResponseError:
            version = ""
            await asyncio.sleep(0.1)
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError):  # a killed server may cut a line
            await asyncio.sleep(0.1)


async def _list(session: aiohttp.ClientSession, history: PodHistory) -> str:
    """Record what changed since the last event, as events; return the version of the list."""
    async with session.get("/api/v1/pods", raise_for_status=True) as answer:
        found = _list_of(await answer.read())
    present = {pod.metadata.uid for pod in found.items}
    for pod in [pod for uid, pod in history.pods.items() if uid not in present]:
        history.take("DELETED", pod)
    for pod in found.items:
        if history.pods.get(pod.metadata.uid) != pod:
            history.take("MODIFIED", pod)
    return found.metadata.resource_version


async def _events(session: aiohttp.ClientSession, version: str) -> AsyncIterator[_Event]:
    query = {"watch": "true", "resourceVersion": version}
    forever = aiohttp.ClientTimeout(total=None)
    async with session.get(
        "/api/v1/pods", params=query, timeout=forever, read_bufsize=WATCH_BUFFER_BYTES, raise_for_status=True
    ) as answer:
        async for line in answer.content:
            yield _event_of(line)
