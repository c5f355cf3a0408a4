"""Claims that take volumes which exist already: which nodes, which volumes, and gangs decided as a whole."""

from collections.abc import Sequence
from typing import Any

import pytest
from phalanx.cache.events import Assumed, Forgotten
from phalanx.cycle import Engine
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.meta import KubeObject
from phalanx.model.decisions import CycleResult
from phalanx.model.events import Applied, Deleted
from phalanx.model.names import LABEL_POD_GROUP
from phalanx.model.supplies.volumes.published import ClusterVolumes
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.assumed import assumed
from tests.model.written import named, node, pod, pod_group, written
from tests.plugins.test_claim_users import World as PlainWorld
from tests.service.plain_check import PlainCheck

NO_PROVISIONER = "kubernetes.io/no-provisioner"
LOCAL = named("StorageClass", "local", provisioner=NO_PROVISIONER, volumeBindingMode="WaitForFirstConsumer")


def affinity(key: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def volume(name: str, host: str | None = "n", size: str = "10Gi", **fields: Any) -> KubeObject:
    """An available volume of class local for one node."""
    labels, phase = fields.pop("labels", {}), fields.pop("phase", "Available")
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "nodeAffinity": affinity("host", host) if host is not None else None,
        **fields,
    }
    document = {"metadata": {"name": name, "uid": f"pv-{name}", "labels": labels}, "spec": spec}
    return written(KINDS["PersistentVolume"].struct, {**document, "status": {"phase": phase}})


def claim(name: str, size: str = "10Gi", **fields: Any) -> KubeObject:
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    meta["annotations"] = fields.pop("annotations", {})
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        **fields,
    }
    return written(KINDS["PersistentVolumeClaim"].struct, {"metadata": meta, "spec": spec})


def user(name: str, *claims: str, **fields: Any) -> KubeObject:
    mounts = [
        {"name": f"v{index}", "persistentVolumeClaim": {"claimName": each}}
        for index, each in enumerate(claims)
    ]
    return pod(name, uid=name, volumes=mounts, **fields)


def gang(name: str, members: Sequence[tuple[str, ...]], **fields: Any) -> list[KubeObject]:
    """A gang whose members mount these claims."""
    labels = {LABEL_POD_GROUP: name}
    pods = [user(f"{name}-{i}", *claims, labels=labels, **fields) for i, claims in enumerate(members)]
    return [pod_group(name, minMember=len(members)), *pods]


class World(PlainWorld):
    """Nodes with the label host, and class local."""

    def __init__(self, *objects: KubeObject, nodes: Sequence[str] = ("n",), zone: str = "") -> None:
        super().__init__(LOCAL, *objects)
        self.cache.apply(Deleted("Node", "", "n"))
        zones = {"zone": zone} if zone else {}
        self.cache.apply_all(Applied(node(name, labels={"host": name, **zones})) for name in nodes)

    def result(self) -> CycleResult:
        result = self.engine.decide(self.cache.snapshot(now=0, seed=0, memory=self.memory))
        self.memory = result.memory
        check_cache(self.cache)
        assert not result.stats.errors
        return result

    def chosen(self) -> dict[str, tuple[str, dict[str, str]]]:
        """By pod, its node and its volumes by claim."""
        binds = [bind for placement in self.result().placements for bind in placement.binds]
        return {
            bind.name: (bind.node, {key.removeprefix("team/"): name for key, name in bind.volumes})
            for bind in binds
        }

    def message(self) -> str:
        """The message of the only verdict."""
        (verdict,) = self.result().verdicts
        assert verdict.reason == "VolumeNotBound", verdict
        return verdict.message


def test_a_claim_gets_the_smallest_volume_that_suffices() -> None:
    volumes = [volume(f"v{size}", size=f"{size}Gi") for size in (5, 20, 12, 50)]
    assert World(*volumes, claim("c"), user("p", "c")).chosen() == {"p": ("n", {"c": "v12"})}


@pytest.mark.parametrize(
    ("fields", "wanted", "field"),
    [
        ({"size": "9Gi"}, {}, "spec.resources.requests.storage 10Gi"),
        ({"accessModes": ["ReadOnlyMany"]}, {}, "spec.accessModes ReadWriteOnce"),
        ({"volumeMode": "Block"}, {}, "spec.volumeMode Filesystem"),
        ({}, {"selector": {"matchLabels": {"tier": "fast"}}}, "spec.selector tier In fast"),
        ({}, {"volumeAttributesClassName": "gold"}, "spec.volumeAttributesClassName gold"),
        ({"storageClassName": "other"}, {}, "no PersistentVolume of its StorageClass local is available"),
        ({"phase": "Released"}, {}, "no PersistentVolume of its StorageClass local is available"),
        ({"claimRef": {"namespace": "team", "name": "other"}}, {}, "no PersistentVolume of its StorageClass"),
    ],
)
def test_a_claim_that_no_volume_satisfies_names_the_field(
    fields: dict[str, Any], wanted: dict[str, Any], field: str
) -> None:
    message = World(volume("v", **fields), claim("c", **wanted), user("p", "c")).message()
    assert message.startswith("PersistentVolumeClaim team/c cannot be bound:")
    assert field in message


def test_a_volume_with_the_labels_that_the_selector_asks_for_is_taken() -> None:
    wanted = claim("c", selector={"matchExpressions": [{"key": "tier", "operator": "Exists"}]})
    volumes = [volume("a"), volume("b", size="20Gi", labels={"tier": "fast"})]
    assert World(*volumes, wanted, user("p", "c")).chosen() == {"p": ("n", {"c": "b"})}


def test_a_pod_runs_on_the_node_of_the_volume() -> None:
    assert World(volume("v", "b"), claim("c"), user("p", "c"), nodes="abc").chosen() == {
        "p": ("b", {"c": "v"})
    }


def test_a_volume_without_node_affinity_is_for_any_node() -> None:
    assert World(volume("v", None), claim("c"), user("p", "c")).chosen() == {"p": ("n", {"c": "v"})}


def test_the_claims_of_one_pod_get_different_volumes_of_one_node() -> None:
    volumes = [volume("a1", "a"), volume("b1", "b"), volume("b2", "b", size="20Gi")]
    made = World(*volumes, claim("x"), claim("y", "15Gi"), user("p", "x", "y"), nodes="ab")
    assert made.chosen() == {"p": ("b", {"x": "b1", "y": "b2"})}


def test_a_smaller_claim_leaves_the_only_volume_that_satisfies_the_larger_one() -> None:
    """kube-scheduler gives the claim with a selector the volume that the other one needs."""
    volumes = [volume("fast", labels={"tier": "fast"}), volume("slow", size="20Gi")]
    selective = claim("z", selector={"matchLabels": {"tier": "fast"}})
    made = World(*volumes, claim("a"), selective, user("p", "a", "z"))
    assert made.chosen() == {"p": ("n", {"a": "slow", "z": "fast"})}


def test_a_gang_that_competes_for_volumes_is_placed_as_a_whole_or_not_at_all() -> None:
    claims = [claim(f"c{index}") for index in range(3)]
    objects = [*claims, *gang("g", [("c0",), ("c1",), ("c2",)]), volume("a1", "a"), volume("b1", "b")]
    made = World(*objects, nodes="abc")
    message = made.message()
    assert message.startswith(
        "3 volumes of StorageClass local needed, 2 volumes of StorageClass local available"
    )
    made.cache.apply(Applied(volume("a2", "a")))
    found = made.chosen()
    assert len(found) == 3
    assert {name for _, volumes in found.values() for name in volumes.values()} == {"a1", "a2", "b1"}


def test_volumes_that_several_nodes_can_mount_are_not_promised_twice() -> None:
    """One volume for zone a, and two for zone b: no zone has all, and three are enough."""
    zones = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
    volumes = [volume(name, None, nodeAffinity=affinity("zone", zone)) for name, zone in _VOLUMES.items()]
    claims = [claim(f"c{index}") for index in range(3)]
    members = gang("g", [("c0",), ("c1",), ("c2",)])
    made = PlainWorld(LOCAL, *volumes, *claims, *members)
    made.cache.apply(Deleted("Node", "", "n"))
    made.cache.apply_all(Applied(node(name, labels={"zone": zone})) for name, zone in zones.items())
    result = made.engine.decide(made.cache.snapshot(now=0, seed=0, memory=made.memory))
    binds = [bind for placement in result.placements for bind in placement.binds]
    assert len(binds) == 3
    for bind in binds:
        ((_, name),) = bind.volumes
        assert _VOLUMES[name] == zones[bind.node]


_VOLUMES = {"one": "a", "two": "b", "three": "b"}


def test_gangs_of_one_cycle_do_not_get_the_same_volume() -> None:
    claims = [claim("x"), claim("y"), claim("z", "1Gi")]
    pods = [user(name, name) for name in "xyz"]
    found = World(*claims, *pods, volume("v1"), volume("v2", size="20Gi")).chosen()
    names = [name for _, volumes in found.values() for name in volumes.values()]
    assert sorted(names) == ["v1", "v2"]


def test_a_volume_that_was_decided_is_not_decided_again_until_its_pod_is_given_up() -> None:
    made = World(claim("x"), user("x", "x"), volume("v"))
    assert made.chosen() == {"x": ("n", {"x": "v"})}
    made.cache.apply(assumed("x", "n", volumes=(("team/x", "v"),)))
    made.cache.apply_all(map(Applied, (claim("y"), user("y", "y"))))
    assert "no PersistentVolume of its StorageClass local is available" in made.message()
    made.cache.apply(Deleted("Pod", "team", "x"))
    assert made.chosen() == {"y": ("n", {"y": "v"})}


def test_a_volume_that_names_a_claim_is_for_its_pod_only() -> None:
    """A scheduler wrote `claimRef` and stopped: its successor goes on with this volume."""
    reserved = volume("b1", "b", claimRef={"namespace": "team", "name": "c", "uid": "uid-c"})
    made = World(volume("a1", "a", size="10Gi"), reserved, claim("c"), user("p", "c"), nodes="ab")
    assert made.chosen() == {"p": ("b", {})}


def test_a_volume_that_names_another_claim_of_the_name_is_not_for_it() -> None:
    reserved = volume("b1", "b", claimRef={"namespace": "team", "name": "c", "uid": "older"})
    made = World(volume("a1", "a"), reserved, claim("c"), user("p", "c"), nodes="ab")
    assert made.chosen() == {"p": ("a", {"c": "a1"})}


def test_a_selected_node_of_a_class_without_provisioner_is_named() -> None:
    made = World(
        volume("v"),
        claim("c", annotations={"volume.kubernetes.io/selected-node": "n"}),
        user("p", "c"),
    )
    assert "selected-node asks for a volume for node n" in made.message()


# --- classes with a provisioner -----------------------------------------------------------------------------

ZONAL = named(
    "StorageClass",
    "local",
    provisioner="disk.example.com",
    volumeBindingMode="WaitForFirstConsumer",
    allowedTopologies=[{"matchLabelExpressions": [{"key": "host", "values": ["a"]}]}],
)


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        ([], {"x": ("a", {}), "y": ("a", {})}),
        # the volume goes before a new one
        ([volume("v", "a")], {"x": ("a", {"x": "v"}), "y": ("a", {})}),
    ],
)
def test_a_claim_with_a_provisioner_takes_a_volume_that_exists_first(
    volumes: list[KubeObject], expected: dict[str, Any]
) -> None:
    members = gang("g", [("x",), ("y",)])
    made = World(ZONAL, *volumes, claim("x"), claim("y"), *members, nodes="ab")
    assert made.chosen() == {f"g-{index}": expected[name] for index, name in enumerate("xy")}


def test_where_nothing_is_provisioned_a_volume_opens_the_node() -> None:
    made = World(ZONAL, volume("v", "b"), claim("x"), user("p", "x", nodeSelector={"host": "b"}), nodes="ab")
    assert made.chosen() == {"p": ("b", {"x": "v"})}


# --- checks before the bind ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "objection"),
    [
        (None, None),
        (Applied(volume("v", claimRef={"namespace": "team", "name": "c", "uid": "uid-c"})), None),
        (Applied(volume("v", phase="Released")), "was taken since the decision"),
        (Applied(volume("v", claimRef={"namespace": "team", "name": "d"})), "was taken since the decision"),
        (Deleted("PersistentVolume", "", "v"), "is gone since the decision"),
    ],
)
def test_the_volume_is_checked_before_the_bind(
    event: Applied | Deleted | None, objection: str | None
) -> None:
    made = World(claim("c"), user("p", "c"), volume("v"))
    (placement,) = made.result().placements
    (bind,) = placement.binds
    made.cache.apply(Assumed(bind))
    if event is not None:
        made.cache.apply(event)
    found = PlainCheck(made.cache, made.config).gang(placement)
    assert (found is None) == (objection is None), found
    assert objection is None or (found is not None and objection in found)


@pytest.mark.parametrize(
    ("fields", "is_taken"),
    [
        ({}, True),
        ({"selector": {"matchLabels": {"tier": "fast"}}}, True),
        ({"size": "11Gi"}, False),
        ({"size": "11Gi", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, True),
        ({"storageClassName": "other"}, False),
        ({"accessModes": ["ReadWriteMany"]}, False),
        ({"volumeMode": "Block"}, False),
    ],
)
def test_a_claim_that_names_a_volume_takes_it_only_if_it_gets_it(
    fields: dict[str, Any], is_taken: bool
) -> None:
    made = World(volume("v"), claim("other", volumeName="v", **fields), claim("c"), user("p", "c"))
    assert made.chosen() == ({} if is_taken else {"p": ("n", {"c": "v"})})


def test_a_volume_is_free_again_when_the_claim_that_names_it_is_gone() -> None:
    made = World(volume("v"), claim("other", volumeName="v"), claim("c"), user("p", "c"))
    assert not made.chosen()
    assert made.cache.apply(Deleted("PersistentVolumeClaim", "team", "other")).cluster_changed
    assert made.chosen() == {"p": ("n", {"c": "v"})}


def test_a_volume_is_free_again_when_the_bind_is_given_up() -> None:
    made = World(claim("x"), user("x", "x"), volume("v"))
    made.cache.apply(assumed("x", "n", volumes=(("team/x", "v"),)))
    assert not made.cache.snapshot(now=0, seed=0, memory=made.memory).part(ClusterVolumes).static_volumes
    assert made.cache.apply(Forgotten("x")).cluster_changed  # type: ignore[arg-type]
    assert made.chosen() == {"x": ("n", {"x": "v"})}


def test_all_engines_decide_alike_after_a_volume_appears() -> None:
    """The class table of the last cycle is not used for pods with such claims."""
    made = World(claim("x"), claim("y"), *gang("g", [("x",), ("y",)]), volume("v1"))
    assert "1 volume of StorageClass local available" in made.message()
    made.cache.apply(Applied(volume("v2")))
    fresh = Engine(made.config).decide(made.cache.snapshot(now=0, seed=0, memory=made.memory))
    assert len(made.chosen()) == len([bind for each in fresh.placements for bind in each.binds]) == 2
