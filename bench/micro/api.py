"""An in-memory API server of negligible cost: it answers at once, and its watches show every bind.

CPU time measured with it is that of the scheduler alone, without HTTP, TLS and other processes.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct
from phalanx.kube.decode import INITIAL_EVENTS_END
from phalanx.model.api.kinds import KINDS
from phalanx.ports import Response

from tests.fake_objects import fake_node, fake_pod

NAMESPACE = "micro"
STARTED = "2026-01-01T00:00:00Z"
LISTED = "1000"
"""The resourceVersion of all initial objects."""

_PODS = KINDS["Pod"].path()
_VERSION = f'"resourceVersion":"{LISTED}"'.encode()
_NOT_FOUND = Response(404, b'{"kind":"Status","reason":"NotFound","message":"none","code":404}')

encode = msgspec.json.Encoder().encode


class Load(Struct, frozen=True):
    """`gangs` gangs of `size` pods of one core, on `nodes` nodes of 32 cores in racks of 16."""

    nodes: int
    gangs: int
    size: int

    @property
    def pods(self) -> int:
        """The number of pods."""
        return self.gangs * self.size


class QuickApi:
    """A Transport over fixed objects. The watch shows a bound pod twice: with its node, and running."""

    def __init__(self, load: Load) -> None:
        self.bound = 0
        self.all_bound = asyncio.Event()
        self._expected = load.pods
        self._lists: Mapping[str, list[bytes]] = {
            _PODS: encoded(pods(load)),
            KINDS["Node"].path(): encoded(nodes(load)),
            KINDS["PodGroup"].path(): encoded(pod_groups(load)),
        }
        self._pods = {name_of(pod): pod for pod in self._lists[_PODS]}
        self._pod_lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._versions = itertools.count(int(LISTED) + 1)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float,
    ) -> Response:
        """See Transport: writes are accepted, and reads of single objects return 404."""
        await asyncio.sleep(0)
        if method == "GET":
            return _NOT_FOUND
        if path.endswith("/binding"):
            self._bind(path.split("/")[-2], body or b"")
            return Response(201, b"{}")
        return Response(200, b'{"metadata":{"name":"any","resourceVersion":"%d"}}' % next(self._versions))

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], idle_timeout: float
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        """See Transport: the initial list, then the events."""
        yield 200, self._lines(path)

    async def close(self) -> None:
        """Nothing to close."""

    async def _lines(self, path: str) -> AsyncIterator[bytes]:
        for item in self._lists.get(path, ()):
            yield b'{"type":"ADDED","object":' + item + b"}"
        yield _end_of_list()
        while path == _PODS:
            yield await self._pod_lines.get()
        await asyncio.Event().wait()

    def _bind(self, name: str, body: bytes) -> None:
        binding = msgspec.json.decode(body)
        node, annotations = binding["target"]["name"], encode(binding["metadata"].get("annotations", {}))
        bound = self._pods[name].replace(b'"spec":{', b'"spec":{"nodeName":"%b",' % node.encode(), 1)
        bound = bound.replace(b'"metadata":{', b'"metadata":{"annotations":%b,' % annotations, 1)
        self._show(bound)
        self._show(
            bound.replace(b'"phase":"Pending"', b'"phase":"Running","startTime":"2026-01-01T00:00:00Z"')
        )
        self.bound += 1
        if self.bound == self._expected:
            self.all_bound.set()

    def _show(self, pod: bytes) -> None:
        version = b'"resourceVersion":"%d"' % next(self._versions)
        self._pod_lines.put_nowait(b'{"type":"MODIFIED","object":' + pod.replace(_VERSION, version, 1) + b"}")


def encoded(objects: Iterable[dict[str, Any]]) -> list[bytes]:
    """Each object as one line of JSON."""
    return [encode(each) for each in objects]


def name_of(written: bytes) -> str:
    """The name in the metadata of an encoded object."""
    return str(msgspec.json.decode(written)["metadata"]["name"])


def nodes(load: Load) -> list[dict[str, Any]]:
    """Nodes as an API server lists them when their kubelets are ready, with uneven memory."""
    listed = [
        _admitted(
            fake_node(
                f"node-{index:05}",
                labels={"cloud.provider.com/topology-rack": f"rack-{index // 16}"},
                allocatable={"memory": f"{256 * 1024**2 - 4 * (index % 97)}Ki"},
            )
        )
        for index in range(load.nodes)
    ]
    for node in listed:
        node["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": STARTED}]
    return listed


def pod_groups(load: Load) -> list[dict[str, Any]]:
    """A PodGroup for each gang that needs all its pods."""
    return [
        _admitted(
            {
                "metadata": {"name": f"gang-{gang:05}", "namespace": NAMESPACE},
                "spec": {"minMember": load.size},
            }
        )
        for gang in range(load.gangs)
    ]


def pods(load: Load) -> list[dict[str, Any]]:
    """Pods as an API server lists them, gang by gang: about 2 KB each."""
    listed = [
        _admitted(
            fake_pod(
                f"pod-{gang:05}-{index:04}",
                namespace=NAMESPACE,
                labels={"scheduling.phalanx.dev/pod-group": f"gang-{gang:05}"},
                requests={"cpu": "1", "memory": "1Gi"},
            )
        )
        for gang in range(load.gangs)
        for index in range(load.size)
    ]
    for pod in listed:
        pod["spec"] = {**_POD_DEFAULTS, **pod["spec"]}
        pod["spec"]["containers"] = [{**each, **_CONTAINER_DEFAULTS} for each in pod["spec"]["containers"]]
        pod["status"] = {"phase": "Pending", "qosClass": "Burstable"}
    return listed


def _admitted(written: dict[str, Any]) -> dict[str, Any]:
    name = written["metadata"]["name"]
    managed = {"manager": "bench", "operation": "Update", "fieldsV1": {"f:spec": {"f:field": "x" * 700}}}
    metadata = {
        **written["metadata"],
        "uid": f"uid-of-{name}",
        "resourceVersion": LISTED,
        "creationTimestamp": STARTED,
        "managedFields": [managed],
    }
    return {**written, "metadata": metadata}


_CONTAINER_DEFAULTS = {
    "imagePullPolicy": "Always",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_POD_DEFAULTS = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "restartPolicy": "Always",
    "securityContext": {},
    "serviceAccount": "default",
    "serviceAccountName": "default",
    "terminationGracePeriodSeconds": 30,
    "tolerations": [
        {
            "key": f"node.kubernetes.io/{what}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for what in ("not-ready", "unreachable")
    ],
}


def _end_of_list() -> bytes:
    metadata = {"resourceVersion": LISTED, "annotations": {INITIAL_EVENTS_END: "true"}}
    return encode({"type": "BOOKMARK", "object": {"metadata": metadata}})
