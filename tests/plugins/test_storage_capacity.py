"""CSIStorageCapacity: a volume is provisioned only where its driver has enough space for it."""

from typing import Any

import pytest
from phalanx.model.api.kinds import KINDS, STORAGE_KINDS
from phalanx.model.api.meta import KubeObject
from phalanx.model.events import Applied, Deleted
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.model.written import named, node, pod, written
from tests.plugins.test_claim_users import MOUNTS, World

DRIVER = "disk.example.com"
CLASS = named(
    "StorageClass",
    "local",
    provisioner=DRIVER,
    volumeBindingMode="WaitForFirstConsumer",
    allowedTopologies=[],
)


def driver(*, publishes: bool | None = True) -> KubeObject:
    return named("CSIDriver", DRIVER, spec={"storageCapacity": publishes})


def claim(size: str | None = "10Gi") -> KubeObject:
    resources = {} if size is None else {"requests": {"storage": size}}
    spec = {"storageClassName": "local", "resources": resources}
    return named("PersistentVolumeClaim", "c", namespace="team", spec=spec)


def capacity(name: str = "x", storage_class: str = "local", **fields: Any) -> KubeObject:
    fields.setdefault("nodeTopology", {"matchLabels": {"zone": "a"}})
    document = {
        "metadata": {"name": name, "namespace": "storage", "uid": name},
        "storageClassName": storage_class,
    }
    return written(KINDS["CSIStorageCapacity"].struct, {**document, **fields})


def world(*objects: KubeObject) -> World:
    nodes = [node(f"in-{zone}", labels={"zone": zone}) for zone in "ab"]
    made = World(CLASS, *nodes, pod("p", uid="p", volumes=MOUNTS), *objects)
    made.cache.apply(Deleted("Node", "", "n"))
    return made


def node_of(made: World) -> str | None:
    result = made.engine.decide(made.cache.snapshot(now=0, seed=0, memory=made.memory))
    made.memory = result.memory
    check_cache(made.cache)
    return next((bind.node for placement in result.placements for bind in placement.binds), None)


EXISTS = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("capacities", "expected"),
    [
        ([capacity(capacity="10Gi")], "in-a"),
        ([capacity(capacity="9Gi")], None),
        (
            [
                capacity(capacity="9Gi"),
                capacity("y", capacity="1Ti", nodeTopology={"matchLabels": {"zone": "b"}}),
            ],
            "in-b",
        ),
        ([capacity(capacity="1Ti", maximumVolumeSize="9Gi")], None),
        ([capacity(capacity="1Gi", maximumVolumeSize="10Gi")], "in-a"),
        ([capacity()], None),
        ([capacity(capacity="1Ti", nodeTopology=None)], None),
        ([capacity(capacity="1Ti", nodeTopology={})], "in-a"),
        ([capacity(capacity="1Ti", nodeTopology=EXISTS)], "in-a"),
        (
            [capacity(capacity="1Ti", nodeTopology={"matchExpressions": [{"key": "zone", "operator": "?"}]})],
            None,
        ),
        ([capacity(capacity="1Ti", storage_class="other")], None),
        ([], None),
    ],
)
def test_a_volume_needs_space_that_its_driver_publishes(
    capacities: list[KubeObject], expected: str | None
) -> None:
    assert node_of(world(driver(), claim(), *capacities)) == expected


@pytest.mark.parametrize("publishes", [False, None])
def test_a_driver_that_publishes_nothing_is_not_asked(publishes: bool | None) -> None:
    assert node_of(world(driver(publishes=publishes), claim())) is not None
    assert node_of(world(claim())) is not None


def test_the_objects_of_drivers_are_watched_once_a_volume_has_to_be_provisioned() -> None:
    made = World(CLASS, pod("p", uid="p"))
    assert made.cache.workload_kinds() == ()
    assert made.cache.apply(Applied(claim())).workload_kinds == STORAGE_KINDS
    assert made.cache.workload_kinds() == STORAGE_KINDS


def test_a_claim_without_a_size_needs_no_space() -> None:
    assert node_of(world(driver(), claim(size=None))) is not None


def test_a_gang_is_tried_again_when_space_is_published() -> None:
    made = world(driver(), claim(), capacity(capacity="9Gi"))
    assert node_of(made) is None
    _, verdicts = made.decide()
    assert "not enough space for claim c of StorageClass local" in verdicts["p"]
    assert not made.cache.apply(Applied(capacity(capacity="8Gi"))).capacity_grew
    assert made.cache.apply(Applied(capacity(capacity="20Gi"))).capacity_grew
    assert node_of(made) == "in-a"
