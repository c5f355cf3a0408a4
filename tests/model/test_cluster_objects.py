"""Reading nodes, disruption budgets, topologies, volumes and priority classes; the registry of kinds."""

from typing import Any

import msgspec
import pytest
from phalanx.model.api.kinds import KINDS, WATCHED_KINDS
from phalanx.model.api.meta import ObjectList, WatchEvent
from phalanx.model.conversion.cluster_objects import (
    PriorityLevel,
    all_topologies,
    read_disruption_budget,
    read_priority_class,
    read_topology,
    resolve,
)
from phalanx.model.conversion.nodes import read_node
from phalanx.model.conversion.shapes import read_shape
from phalanx.model.names import NodeName
from phalanx.model.nodes import Node, Taint
from phalanx.model.pods import Provisioning, Requirement, Term, VolumeClaim
from phalanx.model.resources import fits
from phalanx.model.selectors import node_matches_any
from phalanx.model.snapshot import DisruptionBudget, Level
from phalanx.model.supplies.volumes.read import (
    ClassSource,
    read_claim,
    read_storage_class,
    read_volume,
    resolve_claim,
)

from tests.model.written import claim, named, node, pod, written

# --- nodes --------------------------------------------------------------------------------------------------


def test_a_node_is_read() -> None:
    found = read_node(
        node(
            "n",
            uid="u",
            labels={"b": "2", "a": "1"},
            spec={"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
            status={"allocatable": {"memory": "1.5Ki", "cpu": "7900500u"}, "capacity": {"cpu": "8"}},
        )
    )
    assert found == Node(
        name="n",
        uid="u",
        labels={"a": "1", "b": "2"},
        taints=(Taint("k", "NoExecute", "v"),),
        unschedulable=True,
        allocatable={"cpu": 7900, "memory": 1536},
    )
    assert list(found.labels) == ["a", "b"]


@pytest.mark.parametrize(
    ("created", "turned", "expected"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:02:01Z", {"Ready": 1767225721}),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z", {}),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", {}),
        ("2026-01-01T00:00:00Z", "2025-12-31T23:50:00Z", {}),
        ("2026-01-01T00:00:00Z", None, {}),
        (None, "2026-01-01T00:02:01Z", {}),
    ],
    ids=["turned", "joined", "kwok", "clock behind", "no time", "manifest"],
)
def test_conditions_reported_since_the_node_joined_are_not_transitions(
    created: str | None, turned: str | None, expected: dict[str, int]
) -> None:
    condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": turned}
    meta = {"name": "n", "uid": "u", "creationTimestamp": created}
    assert read_node(node(metadata=meta, status={"conditions": [condition]})).condition_changes == expected


def test_capacity_is_used_when_allocatable_is_missing() -> None:
    assert read_node(node(status={"capacity": {"cpu": "8"}})).allocatable == {"cpu": 8000}


def test_a_node_that_states_no_number_of_pods_takes_none() -> None:
    """As in kube-scheduler, whose Fit counts 0 allowed pods then."""
    found = read_node(node(status={"allocatable": {"cpu": "8"}}))
    shape = read_shape(pod(containers=[{"name": "main"}]))
    assert not fits(shape.requests, found.allocatable)
    assert fits(shape.requests, {**found.allocatable, "pods": 1})


def test_invalid_allocatable_amounts_are_reported_and_ignored() -> None:
    found = read_node(node(status={"allocatable": {"cpu": "-1", "memory": "1e400", "pods": "3"}}))
    assert found.allocatable == {"pods": 3}
    assert [problem.message.split(":")[0] for problem in found.problems] == [
        "status.allocatable[cpu]",
        "status.allocatable[memory]",
    ]


# --- budgets ------------------------------------------------------------------------------------------------


def budget(status: dict[str, Any] | None = None, generation: int = 1, **spec: Any) -> DisruptionBudget:
    meta = {"name": "b", "namespace": "team", "generation": generation}
    document = {"metadata": meta, "spec": spec, **({} if status is None else {"status": status})}
    return read_disruption_budget(written(KINDS["PodDisruptionBudget"].struct, document))


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ({"disruptionsAllowed": 3, "observedGeneration": 1}, 3),
        ({"disruptionsAllowed": -3, "observedGeneration": 1}, 0),
        ({"disruptionsAllowed": 3, "observedGeneration": 0}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_the_status_of_a_budget_counts_only_for_the_observed_generation(
    status: dict[str, Any] | None, allowed: int
) -> None:
    assert budget(status, selector={"matchLabels": {"a": "b"}}).allowed == allowed


@pytest.mark.parametrize(
    ("spec", "protects"),
    [
        ({}, False),
        ({"selector": {}}, True),
        ({"selector": {"matchLabels": {"app": "x"}}}, True),
        ({"selector": {"matchLabels": {"app": "y"}}}, False),
        ({"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}, True),
        ({"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}, True),
    ],
)
def test_which_pods_a_budget_protects(spec: dict[str, Any], protects: bool) -> None:
    assert budget(**spec).protects({"app": "x"}) is protects


def test_an_invalid_selector_protects_all_pods_and_is_reported() -> None:
    status = {"disruptionsAllowed": 3, "observedGeneration": 1}
    found = budget(status, selector={"matchExpressions": [{"key": "app", "operator": "Like"}]})
    assert found.allowed == 0
    assert found.fault == "spec.selector.matchExpressions[0].operator: 'Like' is not a valid operator"


# --- topologies ---------------------------------------------------------------------------------------------


def topology(name: str, *levels: str) -> Any:
    spec = {"levels": [{"name": level, "nodeLabel": f"example.com/{level}"} for level in levels]}
    return read_topology(named("Topology", name, spec=spec))


def test_levels_are_derived_from_well_known_node_labels() -> None:
    nodes = [
        read_node(
            node("a", labels={"kubernetes.io/hostname": "a", "network.topology.nvidia.com/block": "1"})
        ),
        read_node(
            node(
                "b",
                labels={"network.topology.nvidia.com/spine": "2", "cloud.provider.com/topology-block": "x"},
            )
        ),
    ]
    (default,) = all_topologies({}, nodes).values()
    assert default.levels == (
        Level("spine", "network.topology.nvidia.com/spine"),
        Level("block", "network.topology.nvidia.com/block"),
        Level("host", "kubernetes.io/hostname"),
    )


def test_without_any_label_there_are_no_levels() -> None:
    assert all_topologies({}, [])[""].levels == ()


@pytest.mark.parametrize(
    ("declared", "default"), [(["b"], "b"), (["z", "default", "a"], "default"), (["c", "b"], "b")]
)
def test_the_default_topology(declared: list[str], default: str) -> None:
    found = all_topologies({name: topology(name, "rack") for name in declared}, [])
    assert found[""] == found[default]
    assert list(found) == ["", *sorted(declared)]


def test_the_wider_of_two_levels_with_one_name_is_used() -> None:
    assert [level.name for level in topology("t", "a", "b", "a").levels] == ["a", "b"]


# --- volumes ------------------------------------------------------------------------------------------------


NAMED = {"key": "metadata.name", "operator": "In", "values": ["n"]}
IN_RACK = {"key": "rack", "operator": "In", "values": ["r"]}


def volume(*, labels: dict[str, str] | None = None, zones: list[list[str]] | None = None) -> Any:
    """A volume with one term per list of zones."""
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": values}] if values else []}
        for values in zones or []
    ]
    affinity = {"required": {"nodeSelectorTerms": terms}} if zones is not None else None
    return read_volume(
        named(
            "PersistentVolume", "v", labels=labels or {}, spec={"nodeAffinity": affinity} if affinity else {}
        )
    )


def storage_class(provisioner: str = "example.com/disk", *zones: list[str]) -> ClassSource:
    """A class with WaitForFirstConsumer; `zones`: the alternatives of its allowed topologies."""
    terms = [
        {"matchLabelExpressions": [{"key": "zone", "values": values}] if values else []} for values in zones
    ]
    return read_storage_class(
        named(
            "StorageClass",
            "fast",
            provisioner=provisioner,
            volumeBindingMode="WaitForFirstConsumer",
            allowedTopologies=terms,
        )
    )


LATE, STATIC = storage_class(), storage_class("kubernetes.io/no-provisioner")


@pytest.mark.parametrize(
    ("zones", "selected", "expected"),
    [
        ([], "", set("abn")),
        ([["a"], ["b"]], "", set("ab")),
        ([["a"], []], "", set("a")),
        ([[]], "", set()),
        ([], "a", set("a")),
        ([["a"]], "a", set("a")),
        ([["a"]], "b", set()),
        ([[]], "a", set()),
    ],
)
def test_a_claim_is_provisioned_for_nodes_of_the_allowed_topologies(
    zones: list[list[str]], selected: str, expected: set[str]
) -> None:
    """Nodes a and b are in zones of their names, node n in none."""
    annotations = {"volume.kubernetes.io/selected-node": selected} if selected else {}
    source = read_claim(claim(storage_class="fast", annotations=annotations))
    found = resolve_claim(source, volume=None, storage_class=storage_class("example.com/disk", *zones))
    assert found.provisioning == Provisioning("fast", selected)
    assert not found.why_unusable
    nodes = [Node(NodeName(name), name, {"zone": name} if name != "n" else {}) for name in "abn"]
    matching = {node.name for node in nodes if node_matches_any(node, found.node_affinity)}
    assert (matching if found.node_affinity else set("abn")) == expected


def test_a_class_that_is_gone_is_named() -> None:
    found = resolve_claim(read_claim(claim(storage_class="fast")), volume=None, storage_class=None)
    assert found.why_unusable == "it is not bound to a volume, and its StorageClass fast does not exist"


def test_a_bound_claim_has_the_node_affinity_of_its_volume() -> None:
    source = read_claim(claim(volume="v"))
    found = resolve_claim(source, volume=volume(zones=[["a"], ["b", "c"]]), storage_class=LATE)
    in_a, in_others = (Term((Requirement("zone", "In", values),)) for values in (("a",), ("b", "c")))
    assert found == VolumeClaim(name="c", node_affinity=(in_a, in_others))


def test_a_volume_without_node_affinity_allows_every_node() -> None:
    assert volume().node_affinity == ()
    assert volume(zones=[]).node_affinity == (Term(),)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([{"matchFields": [NAMED]}], ()),
        ([{"matchFields": [NAMED]}, {}], ()),
        ([{}, {"matchFields": []}], (Term(), Term())),
        (
            [{"matchFields": [NAMED], "matchExpressions": [IN_RACK]}, {}],
            (Term((Requirement("rack", "In", ("r",)),)), Term()),
        ),
    ],
)
def test_names_of_nodes_in_the_affinity_of_a_volume_do_not_count(
    terms: list[Any], expected: tuple[Term, ...]
) -> None:
    """kube-scheduler and kubelet compare a volume with the labels of a node only."""
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    assert read_volume(named("PersistentVolume", "v", spec=spec)).node_affinity == expected


def test_zone_labels_of_a_volume_constrain_nodes_that_have_zone_labels() -> None:
    found = volume(labels={"topology.kubernetes.io/zone": "b__a"}, zones=[["x"]])
    inside, nowhere = found.node_affinity
    assert inside.requirements == (
        Requirement("zone", "In", ("x",)),
        Requirement("topology.kubernetes.io/zone", "In", ("a", "b")),
    )
    assert nowhere.requirements[0] == Requirement("zone", "In", ("x",))
    assert {each.operator for each in nowhere.requirements[1:]} == {"DoesNotExist"}
    assert len(nowhere.requirements) == 5
    assert volume(labels={"topology.kubernetes.io/zone": "a"}, zones=[[]]).node_affinity == (Term(),)


@pytest.mark.parametrize(
    ("written_claim", "known", "late", "says"),
    [
        (claim(), False, False, "not bound to a volume yet"),
        (claim(volume="v"), False, False, "v does not exist"),
        (claim(volume="v", is_bound=False), True, True, "bind-completed"),
        (claim(volume="v", is_bound=False, status={"phase": "Bound"}), True, False, "bind-completed"),
        (claim(is_bound=True), False, False, "not bound to a volume yet"),
        (claim(volume="v", status={"phase": "Lost"}), True, False, "lost"),
        (claim(volume="v", deletionTimestamp="2026-01-01T00:00:00Z"), True, False, "deleted"),
    ],
)
def test_unusable_claims_are_explained(written_claim: Any, known: bool, late: bool, says: str) -> None:
    found = resolve_claim(
        read_claim(written_claim), volume=volume() if known else None, storage_class=STATIC if late else None
    )
    assert says in found.why_unusable


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (None, ""),
        ({"namespace": "team", "name": "c"}, ""),
        ({"namespace": "team", "name": "c", "uid": "uid-PersistentVolumeClaim-c"}, ""),
        ({"namespace": "team", "name": "other"}, "belongs to claim team/other"),
        ({"namespace": "else", "name": "c"}, "belongs to claim else/c"),
        ({"namespace": "team", "name": "c", "uid": "old"}, "team/c with another UID (old)"),
    ],
)
def test_a_volume_of_another_claim_cannot_be_used(reference: dict[str, str] | None, says: str) -> None:
    known = read_volume(named("PersistentVolume", "v", spec={"claimRef": reference} if reference else {}))
    found = resolve_claim(read_claim(claim(volume="v")), volume=known, storage_class=None)
    assert (says in found.why_unusable) if says else not found.why_unusable


def test_the_annotation_of_the_storage_class_goes_first() -> None:
    old = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert read_claim(claim(storage_class="new", annotations=old)).storage_class == "old"
    assert read_claim(claim(storage_class="new")).storage_class == "new"


def test_a_volume_with_invalid_node_affinity_cannot_be_used() -> None:
    source = read_claim(claim(volume="v"))
    terms = [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
    broken = read_volume(
        named("PersistentVolume", "v", spec={"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}})
    )
    assert (
        "spec.nodeAffinity.required" in resolve_claim(source, volume=broken, storage_class=None).why_unusable
    )


@pytest.mark.parametrize(
    ("mode", "late"), [("WaitForFirstConsumer", True), ("Immediate", False), (None, False)]
)
def test_storage_classes(mode: str | None, late: bool) -> None:
    assert read_storage_class(named("StorageClass", "s", volumeBindingMode=mode)).binds_late is late


# --- priority classes ---------------------------------------------------------------------------------------


def test_priority_classes() -> None:
    found = read_priority_class(named("PriorityClass", "p", value=5, preemptionPolicy="Never"))
    assert found == PriorityLevel(5, "Never")
    assert resolve("p", {"p": found}) is found
    assert resolve("", {"p": found}) == PriorityLevel()
    assert resolve("gone", {"p": found}) is None


# --- kinds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_decodes_in_lists_and_watch_events(name: str) -> None:
    kind = KINDS[name]
    struct: Any = kind.struct
    smallest = {"metadata": {"name": "x"}, **SPECS.get(name, {})}
    body = msgspec.json.encode({"metadata": {"resourceVersion": "7", "continue": "t"}, "items": [smallest]})
    listed = msgspec.json.decode(body, type=ObjectList[struct])
    assert (listed.metadata.resource_version, listed.metadata.continue_token) == ("7", "t")
    line = msgspec.json.encode({"type": "ADDED", "object": smallest})
    assert msgspec.json.decode(line, type=WatchEvent[struct]).object == listed.items[0]
    assert name == kind.name


SPECS: dict[str, dict[str, Any]] = {
    "PodGroup": {"spec": {"minMember": 1}},
    "Topology": {"spec": {"levels": []}},
}


def test_paths() -> None:
    assert KINDS["Pod"].path() == "/api/v1/pods"
    assert (
        KINDS["Pod"].path(namespace="a", name="b", subresource="binding")
        == "/api/v1/namespaces/a/pods/b/binding"
    )
    assert KINDS["Node"].path(name="n") == "/api/v1/nodes/n"
    assert KINDS["Queue"].path() == "/apis/scheduling.phalanx.dev/v1alpha1/queues"
    assert KINDS["PodGroup"].group == "scheduling.phalanx.dev"
    assert KINDS["Pod"].group == ""
    assert "Lease" not in WATCHED_KINDS
