"""The provisioner of a CSI driver, and one of local volumes, which exist already.

A provisioner creates a volume for the selected node of a claim after a while. Where it cannot, it removes
the annotation, so that the scheduler selects another node. With a limited space it publishes what is left.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from phalanx.model.resources import capacity_amount

from phalanx_simulator.embedded.apiserver.objects import without
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.controllers.volumes import CLAIMS, VOLUMES
from phalanx_simulator.embedded.provisioned_volumes import (
    HOSTNAME,
    PROVISIONED_BY,
    SELECTED_NODE,
    provisioned_volume,
    selected_node,
)
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

SIM_CAPACITY_PUBLISHED_S: Final = 5.0
"""Seconds until a provisioner publishes what is left on a node. Meanwhile a scheduler must count itself."""

SIM_VOLUME_CLEANED_S: Final = 5.0
"""Seconds until a released local volume is clean and available again."""

CLASSES: Final = "storageclasses.storage.k8s.io"
CAPACITIES: Final = "csistoragecapacities.storage.k8s.io"
PROVISIONING_SECONDS: Final = "sim.phalanx.dev/provisioning-seconds"
"""Annotation of a StorageClass: seconds until a volume is created, instead of the provisioner's own."""
PROVISIONING_FAILS: Final = "sim.phalanx.dev/provisioning-fails"
"""Annotation of a StorageClass: nodes, separated by commas, for which no volume can be created now."""
_GIB: Final = 1 << 30
_NAMESPACE: Final = "kube-system"


class Provisioner:
    """Serves all StorageClasses that name its driver."""

    def __init__(
        self,
        client: Client,
        *,
        driver: str,
        delay_s: float,
        gives_up: Callable[[str], bool] = lambda _: False,
        space_gib: int = 0,
    ) -> None:
        """`gives_up`: whether no volume can be created for this node now. `space_gib`: on each node; 0 for no
        limit."""
        self._client = client
        self._driver = driver
        self._delay_s = delay_s
        self._gives_up = gives_up
        self._space = space_gib * _GIB
        self.failures = 0
        """Claims for which it has given up."""
        self._used: dict[str, tuple[str, int]] = {}
        """By volume: its node and bytes."""
        self._queue = WorkQueue(self._sync)
        self._queue.follow(client, CLAIMS, CLASSES)
        if space_gib:
            self._queue.follow(client, "nodes", VOLUMES)

    def close(self) -> None:
        """Create nothing more."""
        self._queue.close()

    def _sync(self, key: Key) -> None:
        if key.resource == VOLUMES:
            self._count(key)
        elif key.resource == "nodes":
            self._publish(key.name)
        elif key.resource == CLASSES:
            for claim in self._client.keys(CLAIMS):
                self._queue.add(claim)
        elif node := self._node_of(self._client.get(key)):
            delay_s = self._written(key, PROVISIONING_SECONDS)
            self._queue.call_later(float(delay_s or self._delay_s), partial(self._serve, key, node, delay_s))

    def _node_of(self, claim: Object | None) -> str:
        """The selected node of a claim that waits for a volume of this driver."""
        if claim is None or claim["spec"].get("volumeName"):
            return ""
        found = self._client.get(_class_of(claim))
        node = selected_node(claim)
        return node if found is not None and found.get("provisioner") == self._driver else ""

    def _written(self, key: Key, annotation: str) -> str:
        """An annotation of the claim's class."""
        claim = self._client.get(key)
        found = self._client.get(_class_of(claim)) if claim is not None else None
        annotations: dict[str, str] = found["metadata"].get("annotations", {}) if found is not None else {}
        return annotations.get(annotation, "")

    def _serve(self, key: Key, node: str, delay_s: str) -> None:
        """Create the volume, unless the claim, its node or the time that it takes is another one now."""
        claim = self._client.get(key)
        if (
            claim is None
            or self._node_of(claim) != node
            or self._written(key, PROVISIONING_SECONDS) != delay_s
        ):
            return
        volume = provisioned_volume(claim, node, self._driver)
        if self._client.get(Key(VOLUMES, "", volume["metadata"]["name"])) is not None:
            return
        if not self._can_serve(key, claim, node):
            self.failures += 1
            self._client.update(key, _without_node)
            return
        self._client.create(VOLUMES, "", volume)

    def _can_serve(self, key: Key, claim: Object, node: str) -> bool:
        if self._gives_up(node) or node in self._written(key, PROVISIONING_FAILS).split(","):
            return False
        return not self._space or self._left(node) >= _bytes(claim["spec"]["resources"]["requests"])

    def _left(self, node: str) -> int:
        return self._space - sum(size for where, size in self._used.values() if where == node)

    def _count(self, key: Key) -> None:
        """Note what a volume uses, and publish a moment later what is left on its node."""
        volume = self._client.get(key)
        before = self._used.pop(key.name, None)
        if (
            volume is not None
            and volume["metadata"].get("annotations", {}).get(PROVISIONED_BY) == self._driver
        ):
            self._used[key.name] = (_host_of(volume), _bytes(volume["spec"]["capacity"]))
        changed = {each[0] for each in (before, self._used.get(key.name)) if each is not None}
        if before != self._used.get(key.name):
            for node in sorted(changed):
                self._queue.call_later(SIM_CAPACITY_PUBLISHED_S, partial(self._publish, node))

    def _publish(self, node: str) -> None:
        """One CSIStorageCapacity for each class and node, as the external provisioner keeps them."""
        exists = self._client.get(Key("nodes", "", node)) is not None
        for name in self._client.keys(CLASSES):
            found = self._client.get(name)
            if found is None or found.get("provisioner") != self._driver:
                continue
            key = Key(CAPACITIES, _NAMESPACE, f"{name.name}-{node}")
            now = self._client.get(key)
            if not exists:
                if now is not None:
                    self._client.delete(key, uid=now["metadata"]["uid"])
                continue
            left = f"{max(0, self._left(node)) // _GIB}Gi"
            if now is None:
                self._client.create(CAPACITIES, _NAMESPACE, _capacity(key.name, name.name, node, left))
            elif now["capacity"] != left:
                self._client.update(key, partial(_with_capacity, left=left))


class LocalVolumes:
    """Cleans released volumes that exist already, and offers them again, as a local volume provisioner."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queue = WorkQueue(self._sync)
        self._queue.follow(client, VOLUMES)

    def close(self) -> None:
        """Clean nothing more."""
        self._queue.close()

    def _sync(self, key: Key) -> None:
        volume = self._client.get(key)
        if volume is None or PROVISIONED_BY in volume["metadata"].get("annotations", {}):
            return
        if volume.get("status", {}).get("phase") == "Released":
            self._client.delete(key, uid=volume["metadata"]["uid"])
            self._queue.call_later(SIM_VOLUME_CLEANED_S, partial(self._offer, key, volume))

    def _offer(self, key: Key, volume: Object) -> None:
        if self._client.get(key) is None:
            meta = {"name": key.name, "labels": volume["metadata"].get("labels", {})}
            self._client.create(
                VOLUMES,
                "",
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": meta,
                    "spec": without(volume["spec"], "claimRef"),
                },
            )


def _host_of(volume: Object) -> str:
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    host: str = term["matchExpressions"][0]["values"][0]
    return host


def _class_of(claim: Object) -> Key:
    return Key(CLASSES, "", claim["spec"].get("storageClassName", ""))


def _bytes(amounts: Object) -> int:
    return capacity_amount("storage", amounts["storage"])


def _without_node(claim: Object) -> Object:
    annotations = {**claim["metadata"].get("annotations", {})}
    annotations.pop(SELECTED_NODE, None)
    return {**claim, "metadata": {**claim["metadata"], "annotations": annotations}}


def _capacity(name: str, storage_class: str, node: str, left: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "storageClassName": storage_class,
        "nodeTopology": {"matchLabels": {HOSTNAME: node}},
        "capacity": left,
    }


def _with_capacity(item: Object, *, left: str) -> Object:
    return {**item, "capacity": left}
