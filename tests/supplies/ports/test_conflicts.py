"""Ports of nodes: which ports of a pod count, and which of two pods cannot be on one node."""

from itertools import product
from typing import Any

import pytest
from phalanx.model.conversion.shapes import read_shape
from phalanx.model.pods import PodShape
from phalanx.model.resources import NONE, subtract
from phalanx.model.supplies.known import fits_on, lacking, shortage, whole_texts

from tests.model.written import pod


def shape(*ports: dict[str, Any], **spec: Any) -> PodShape:
    return read_shape(pod(containers=[{"name": "main", "ports": list(ports)}], **spec))


def port(number: int = 80, **fields: Any) -> dict[str, Any]:
    return {"containerPort": number, "hostPort": number, **fields}


FIRST, SECOND = {"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}
KINDS: list[tuple[PodShape, str]] = [
    (shape(port()), "port 80"),
    (shape(port(hostIP="0.0.0.0")), "port 80"),
    (shape(port(**FIRST)), "port 80 of 10.0.0.1"),
    (shape(port(**SECOND)), "port 80 of 10.0.0.2"),
    (shape(port(protocol="UDP")), "port 80/UDP"),
    (shape(port(81)), "port 81"),
]
CONFLICTS = {(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (2, 2), (3, 3), (4, 4), (5, 5)}
"""Pairs of the kinds that cannot be on one node, by the documentation of Kubernetes."""


@pytest.mark.parametrize(("old", "new"), [*product(range(len(KINDS)), repeat=2)])
def test_two_pods_conflict_if_they_share_a_port(old: int, new: int) -> None:
    free = subtract({"pods": 10}, dict(KINDS[old][0].supplied))
    conflict = (min(old, new), max(old, new)) in CONFLICTS
    assert fits_on(KINDS[new][0], free) is not conflict
    found = lacking(KINDS[new][0], free)
    assert (found is None) is not conflict
    if old == new and found is not None:
        assert shortage(found) == f"{KINDS[new][1]} is in use"


@pytest.mark.parametrize(("kind", "text"), KINDS)
def test_a_port_is_named(kind: PodShape, text: str) -> None:
    assert whole_texts(dict(kind.supplied)) == [text]


def test_the_port_of_all_addresses_is_the_reason_and_not_the_address() -> None:
    found = lacking(KINDS[2][0], subtract(NONE, dict(KINDS[0][0].supplied)))
    assert found is not None
    assert shortage(found) == "port 80 is in use"


def test_a_port_of_all_addresses_includes_those_of_the_same_pod() -> None:
    assert shape(port(), port(**FIRST), port(**SECOND)).supplied == shape(port()).supplied
    assert shape(port(**FIRST), port(**FIRST)).supplied == shape(port(**FIRST)).supplied


def test_a_pod_may_have_a_port_of_two_addresses() -> None:
    both = shape(port(**FIRST), port(**SECOND))
    assert fits_on(both, {"pods": 1})
    assert not fits_on(both, subtract({"pods": 1}, dict(shape(port(**SECOND)).supplied)))


def test_ports_of_sidecars_count_and_those_of_init_containers_do_not() -> None:
    init = [{"name": "init", "ports": [port()]}]
    sidecar = [{**init[0], "restartPolicy": "Always"}]
    assert not read_shape(pod(initContainers=init)).supplied
    assert read_shape(pod(initContainers=sidecar)).supplied == shape(port()).supplied


def test_on_the_host_network_each_port_is_a_port_of_the_node() -> None:
    own = {"containerPort": 80}
    assert not shape(own).supplied
    assert shape(own, hostNetwork=True).supplied == shape(port()).supplied
    assert not shape(hostNetwork=True).supplied


def test_too_many_ports_are_refused() -> None:
    assert not shape(*map(port, range(1, 257))).invalid
    assert shape(*map(port, range(1, 258))).invalid == (
        "spec.containers: have 257 host ports, expected at most 256",
    )


def test_a_container_cannot_request_a_port_as_a_resource() -> None:
    (name, _), *_ = shape(port()).supplied
    wrong = read_shape(pod(containers=[{"name": "main", "resources": {"requests": {name: 1}}}]))
    assert "cannot be requested in a container" in wrong.invalid[0]
