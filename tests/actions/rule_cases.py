"""Gangs with each kind of rule that the models of several gangs do not state, for tests of decisions."""

from typing import Any, Self

from msgspec.structs import replace
from phalanx.model.pods import (
    MountedClaim,
    Provisioning,
    Requirement,
    Term,
    VolumeClaim,
    WantedVolume,
)
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.ports import ALL_ADDRESSES
from phalanx.model.supplies.volumes.published import ClusterVolumes, StaticVolume, StorageCapacity

from tests.actions.test_device_claims import World
from tests.builders import GI, term
from tests.model.devices import claim_of, device, request
from tests.plugins.test_topology_spread import spread

HOST = "kubernetes.io/hostname"
X = {"app": "x"}

FIELDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "port": {"ports": [("TCP", 80, ALL_ADDRESSES)]},
    "apart": {"labels": X, "apart": [term(app="x")]},
    "near": {"near": [term("site", app="data")]},
    "near itself": {"labels": X, "near": [term("site", app="x")]},
    "spread": {"labels": X, "spread": [spread(HOST, 2)]},
    "attracted": {"attracted": [(5, term("site", app="data"))]},
    "spread anyway": {"labels": X, "spread_anyway": [spread(HOST, 1)]},
    "selected": {"labels": {"app": "y"}},
    "provisioned volume": {},
    "bound volume": {},
    "space for a volume": {},
    "volume that exists": {},
    "devices": {},
}
"""Fields of gangs by kind."""


class RuleWorld(World):
    """A scenario with nodes that have volumes and devices, and gangs of each kind."""

    def __init__(self, *levels: str) -> None:
        super().__init__(*levels)
        self.volumes: tuple[StaticVolume, ...] = ()
        self.space: tuple[StorageCapacity, ...] = ()

    def prepare(self) -> Self:
        """Give each node eight devices, eight volumes and space, and add the pods that others concern."""
        for name in list(self._nodes):
            here = Term((Requirement(HOST, "In", (name,)),))
            self.device_slice(name, *(device(f"{name}-x{index}") for index in range(8)))
            self.volumes += tuple(
                StaticVolume(f"{name}-v{index}", "local", GI, nodes=(here,)) for index in range(8)
            )
            self.space += (StorageCapacity(here, 100 * GI, 100 * GI),)
            node = self._nodes[name]
            self._nodes[name] = replace(node, labels={**node.labels, "site": "s"})
        self.foreign_pod("data", next(iter(self._nodes)), labels={"app": "data"})
        self.nodes("far").gang("elsewhere", 1, on=["far-0"], apart=[term(app="y")])
        return self

    def snapshot(self, shuffle: int = 0) -> Snapshot:
        space = {"measured": self.space}
        found = super().snapshot(shuffle)
        volumes = found.part(ClusterVolumes)
        volumes = replace(volumes, static_volumes=self.volumes, storage_capacities=space)
        return replace(found, supplies={**found.supplies, volumes.supply: volumes})

    def add(self, name: str, count: int, kind: str, **fields: Any) -> Self:
        """A gang of this kind; members `on` nodes have their volumes and devices."""
        self.gang(name, count, **FIELDS[kind], **fields)
        if kind == "devices":
            self.give_devices(name)
            return self
        if "volume" in kind:
            members = []
            for pod in self.members(name):
                key = f"team/{pod.name}"
                self.claims[key] = self._claim(key, kind, is_bound=pod.node is not None)
                members.append(replace(pod, claims=(MountedClaim(key),)))
            self.change(name, members=tuple(members))
        return self

    def give_devices(self, gang: str) -> None:
        """Give each member a claim; members with a node have the device of their index."""
        self.claiming(gang)
        for pod in self.members(gang):
            if pod.node is not None:
                self._allocate(f"{pod.name}-gpu", pod.uid, pod.node, f"{pod.node}-x{pod.index}")

    def _claim(self, key: str, kind: str, *, is_bound: bool) -> VolumeClaim:
        if is_bound or kind == "bound volume":
            return VolumeClaim(key, driver="d", handle=key)
        if kind == "volume that exists":
            return VolumeClaim(key, wanted=WantedVolume("local", GI))
        needs = GI if kind == "space for a volume" else None
        return VolumeClaim(key, provisioning=Provisioning("measured", needs_space=needs), driver="d")

    def _allocate(self, name: str, uid: str, node: str, of: str) -> None:
        results = [{"request": "r", "driver": "gpu.example.com", "pool": node, "device": of}]
        where = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        status = {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [where]},
            },
            "reservedFor": [{"resource": "pods", "name": uid, "uid": uid}],
        }
        claim = claim_of(request(), status=status)
        self.device_claims[name] = replace(
            claim, namespace="team", name=name, uid=f"uid-{name}", owner=self.device_claims[name].owner
        )
