"""A cluster of 10,000 nodes and 100,000 pods, as one reading."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from phalanx.cli.verbs.nodes import EVERYWHERE
from phalanx.cli.verbs.read import Wanted, read_cluster
from phalanx.clock import SystemClock
from phalanx.kube.errors import NotFound
from phalanx.limits import LIST_PAGE_OBJECTS
from phalanx.model.api.kinds import KINDS as ALL_KINDS
from phalanx_dashboard.facts import Event, Facts
from phalanx_dashboard.reading import KINDS, prepare

from tests.cli.verbs.conftest import ago, gpu_node, gpu_pod, pod_group, queue, waiting_status
from tests.fake_objects import Manifest, namespace

NODES, RACK, GANG, GANGS, WAITING = 10_000, 16, 80, 1_250, 250
"""1,000 running gangs of 80 pods, one pod of all GPUs on each node in eight, and 250 waiting gangs."""


class Lists:
    """A client whose server has these objects and nothing else."""

    def __init__(self, objects: Iterable[Manifest]) -> None:
        needed = [kind.path() for kind in ALL_KINDS.values() if not kind.optional]
        self._pages: dict[str, list[list[Manifest]]] = {path: [[]] for path in needed}
        paths = {kind.name: kind.path() for kind in ALL_KINDS.values()}
        for item in objects:
            pages = self._pages.setdefault(paths[item["kind"]], [[]])
            if len(pages[-1]) >= LIST_PAGE_OBJECTS:
                pages.append([])
            pages[-1].append(item)

    def pages(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[bytes]:
        if path not in self._pages:
            raise NotFound(code=404, reason="NotFound", message=path)
        for page in self._pages[path]:
            yield json.dumps({"items": page}).encode()

    def stop(self) -> None:
        pass


def objects() -> Iterator[Manifest]:
    """Nodes in racks of 16 in rows of 40 racks; gangs of 80 pods of one GPU, ten on a node."""
    levels = [{"name": "row", "nodeLabel": "row"}, {"name": "rack", "nodeLabel": "rack"}]
    yield {
        **meta("Topology", "default"),
        "apiVersion": "scheduling.phalanx.dev/v1alpha1",
        "spec": {"levels": levels},
    }
    yield namespace("team")
    yield queue("all", status={"allocated": {"nvidia.com/gpu": "80000"}})
    for number in range(NODES):
        node = gpu_node(f"node-{number:05}", rack=f"r{number // RACK:03}", gpus=10)
        node["metadata"]["labels"]["row"] = f"row-{number // (RACK * 40):02}"
        if number % 500 == 499:
            node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        yield stamped(node, f"n{number}")
    for number in range(GANGS):
        yield from gang(number)


def gang(number: int) -> Iterator[Manifest]:
    name, waits = f"gang-{number:04}", number >= GANGS - WAITING
    status = (
        waiting_status("InsufficientCapacity", "80 needed, 4 free", position=number, step="Wait")
        if waits
        else {"phase": "Running", "queue": "all", "startedAt": ago(600)}
    )
    yield stamped(pod_group(name, space="team", status=status, minMember=GANG), f"g{number}")
    for index in range(GANG):
        node = "" if waits else f"node-{(number * 10 + index // 8) % NODES:05}"
        pod = gpu_pod(f"{name}-{index}", space="team", group=name, node=node, gpus=1)
        yield stamped(pod, f"p{number}-{index}")


def meta(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}}


def stamped(item: Manifest, uid: str) -> Manifest:
    """With what an API server adds."""
    added = {"uid": uid, "creationTimestamp": ago(900), "resourceVersion": "1"}
    item["metadata"] = added | item["metadata"]
    return item


class ListReader:
    """Reads these objects."""

    def __init__(self, found: Iterable[Manifest], events: Sequence[Event] = ()) -> None:
        self.client: Any = Lists(found)
        self.events = events

    def read(self) -> Facts:
        wanted = Wanted(kinds=KINDS, namespace="", everywhere=EVERYWHERE)
        facts = Facts(read_cluster(self.client, wanted, now_ms=SystemClock().now_ms()), self.events)
        prepare(facts)
        return facts

    def close(self) -> None:
        pass
