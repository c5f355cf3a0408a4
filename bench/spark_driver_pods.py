"""Simulates driver pods that create the other members of their gang when they run, like Spark drivers.

A driver creates its executors shortly after it runs. It makes progress while enough of them run; when it has
finished, it succeeds and its executors are deleted.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from phalanx.model.names import LABEL_POD_GROUP, LABEL_ROLE
from phalanx_simulator.embedded.apiserver.objects import is_deleting
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.kubelets.kubelet import Kubelets
from phalanx_simulator.embedded.manifests import Manifest, pod, pod_group
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

DRIVER: Final = "driver"
EXECUTOR: Final = "executor"
_DONE: Final = "Completed"


class Plan(Struct, frozen=True, kw_only=True):
    """The behaviour of a driver: number and time of its executors, how many must run, and for how long."""

    executors: int
    least: int
    requests: Mapping[str, str]
    begins_s: float = 2.0
    works_s: float = 60.0


def query(name: str, plan: Plan, *, reserves: bool) -> list[Manifest]:
    """A driver and its PodGroup, with or without capacity reserved for the required executors."""
    executors = {"name": EXECUTOR, "count": plan.executors, "requests": dict(plan.requests)}
    least = plan.least if reserves else 0
    group = pod_group(
        name,
        min_member=1 + least,
        roles=[{"name": DRIVER, "count": 1}, {**executors, "minMember": least}],
        startWhen="Reserved" if reserves else "Arrived",
    )
    return [group, pod(f"{name}-{DRIVER}", group=name, role=DRIVER, requests=plan.requests)]


class Drivers:
    """Runs all drivers of a cluster on the current event loop."""

    def __init__(self, client: Client, kubelets: Kubelets, plan: Plan) -> None:
        self._client = client
        self._kubelets = kubelets
        self._plan = plan
        self._executors: dict[Key, tuple[Key, ...]] = {}
        self._working: dict[Key, float] = {}
        self._queue = WorkQueue(self._look_at)
        self._queue.follow(client, "pods")

    def close(self) -> None:
        """Stop all drivers."""
        self._queue.close()

    def _look_at(self, key: Key) -> None:
        item = self._client.get(key)
        role = item["metadata"].get("labels", {}).get(LABEL_ROLE) if item is not None else None
        if item is not None and role == EXECUTOR:
            self._queue.add(_driver_of(item))
        elif item is not None and role == DRIVER and _runs(item):
            self._go_on(key, item)

    def _go_on(self, key: Key, driver: Object) -> None:
        if key not in self._executors:
            self._executors[key] = ()
            self._queue.call_later(self._plan.begins_s, lambda: self._begin(key, driver))
        running = sum(1 for each in self._executors[key] if _runs(self._client.get(each)))
        if running < self._plan.least:
            self._working.pop(key, None)
        elif key not in self._working:
            began = self._working[key] = asyncio.get_running_loop().time()
            self._queue.call_later(self._plan.works_s, lambda: self._end(key, began))

    def _begin(self, key: Key, driver: Object) -> None:
        made = [self._client.create("pods", key.namespace, each) for each in self._members(driver)]
        self._executors[key] = tuple(Key("pods", key.namespace, each["metadata"]["name"]) for each in made)

    def _members(self, driver: Object) -> list[Manifest]:
        meta = driver["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        group = meta["labels"][LABEL_POD_GROUP]
        found = [
            pod(f"{group}-{EXECUTOR}-{index}", group=group, role=EXECUTOR, requests=self._plan.requests)
            for index in range(self._plan.executors)
        ]
        for each in found:
            each["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        return found

    def _end(self, key: Key, began: float) -> None:
        """Finish the query, unless executors were lost since then."""
        if self._working.get(key) == began and self._kubelets.fail(key, exit_code=0, reason=_DONE):
            for each in self._executors[key]:
                item = self._client.get(each)
                if item is not None:
                    self._client.delete(each, uid=item["metadata"]["uid"])


def _driver_of(executor: Object) -> Key:
    meta = executor["metadata"]
    return Key("pods", meta["namespace"], meta["ownerReferences"][0]["name"])


def _runs(item: Object | None) -> bool:
    return item is not None and item["status"].get("phase") == "Running" and not is_deleting(item)
