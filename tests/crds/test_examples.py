"""Every accepted example is unchanged after decoding and encoding, and together they use every field."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from phalanx.model.api import pod_groups, queues
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.api.queues import Queue, Topology
from phalanx.model.conversion.pod_groups import unsupported_combinations

from tests.crds.files import FOLDER, INVALID, VALID, Document, definitions, documents, ours, schema

STRUCTS: dict[str, dict[str, type[msgspec.Struct]]] = {
    "PodGroup": {"spec": pod_groups.PodGroupSpec, "status": pod_groups.PodGroupStatus},
    "Queue": {"spec": queues.QueueSpec, "status": queues.QueueStatus},
    "Topology": {"spec": queues.TopologySpec},
}
OBJECTS: dict[str, type[msgspec.Struct]] = {"PodGroup": PodGroup, "Queue": Queue, "Topology": Topology}


def example(name: str) -> Document:
    (found,) = documents(FOLDER / "examples" / "valid" / name)
    return found


def without_nulls(value: Any) -> Any:
    """Remove the nulls of unset status fields."""
    if not isinstance(value, dict):
        return value
    return {name: without_nulls(child) for name, child in value.items() if child is not None}


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_examples_are_unchanged_after_decoding_and_encoding(path: Path) -> None:
    for document in ours(path):
        for part, struct in STRUCTS[document["kind"]].items():
            if part in document:
                decoded = msgspec.json.decode(json.dumps(document[part]), type=struct)
                assert without_nulls(json.loads(msgspec.json.encode(decoded))) == document[part]


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_examples_decode_as_whole_objects(path: Path) -> None:
    for document in ours(path):
        decoded = msgspec.json.decode(json.dumps(document), type=OBJECTS[document["kind"]])
        assert json.loads(msgspec.json.encode(decoded))["spec"] == document["spec"]


def used(value: Any, path: str) -> set[str]:
    """Paths of all set fields; entries of lists are one path, and maps with free keys are leaves."""
    if isinstance(value, dict):
        return {path}.union(*(used(child, f"{path}.{name}") for name, child in value.items()))
    if isinstance(value, list):
        return {path}.union(*(used(child, f"{path}[]") for child in value))
    return {path}


def declared(found: Document, path: str) -> set[str]:
    names = {f"{path}.{name}" for name in found.get("properties", {})}
    below = [declared(child, f"{path}.{name}") for name, child in found.get("properties", {}).items()]
    return names.union(*below, declared(found["items"], f"{path}[]") if "items" in found else set())


@pytest.mark.parametrize(
    ("kind", "name"),
    [("PodGroup", "podgroup-every-field"), ("Queue", "queue-every-field"), ("Topology", "topology")],
)
def test_the_complete_examples_use_every_field(kind: str, name: str) -> None:
    document = example(f"{name}.yaml")
    for part in STRUCTS[kind]:
        assert declared(schema(kind, part), part) - used(document[part], part) == set()


def test_unsupported_combinations_are_named() -> None:
    spec = msgspec.convert(example("podgroup-every-field.yaml")["spec"], pod_groups.PodGroupSpec)
    assert tuple(unsupported_combinations(spec)) == ("spec.startWhen: Reserved beside spec.subGroups",)


@pytest.mark.parametrize(
    "name", ["podgroup-minimal", "podgroup-roles", "podgroup-min-subgroups", "podgroup-nested-subgroups"]
)
def test_supported_examples_have_no_unsupported_combination(name: str) -> None:
    (document,) = ours(FOLDER / "examples" / "valid" / f"{name}.yaml")
    assert tuple(unsupported_combinations(msgspec.convert(document["spec"], pod_groups.PodGroupSpec))) == ()


def test_explicit_default_values_are_supported() -> None:
    assert tuple(unsupported_combinations(pod_groups.PodGroupSpec(min_member=1, start_when="Arrived"))) == ()


@pytest.mark.parametrize(
    ("kind", "struct"), [("PodGroup", pod_groups.PodGroupStatus), ("Queue", queues.QueueStatus)]
)
def test_a_status_is_encoded_with_all_fields(kind: str, struct: type[msgspec.Struct]) -> None:
    assert json.loads(msgspec.json.encode(struct())).keys() == schema(kind, "status")["properties"].keys()


def test_each_kind_has_valid_and_invalid_examples() -> None:
    kinds = set(definitions())
    assert {document["kind"] for path in VALID for document in ours(path)} == kinds
    assert {document["kind"] for path in INVALID for document in ours(path)} == kinds
