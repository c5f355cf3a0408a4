"""Pod requests: a table of the rules of Kubernetes, and a property test against another computation."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.limits import POD_REQUEST_MAX
from phalanx.model.api import core
from phalanx.model.conversion.requests import pod_requests

from tests.model.written import written

Containers = list[dict[str, Any]]


def container(name: str = "main", **rest: Any) -> dict[str, Any]:
    """A container; `requests` and `limits` go into its resources."""
    resources = {key: rest.pop(key) for key in ("requests", "limits") if key in rest}
    return {"name": name, "resources": resources, **rest}


def sidecar(name: str, **rest: Any) -> dict[str, Any]:
    return container(name, restartPolicy="Always", **rest)


def requests_of(spec: Mapping[str, Any], status: Mapping[str, Any] | None = None) -> dict[str, int]:
    wrong: list[str] = []
    pod = written(core.Pod, {"metadata": {"name": "p"}, "spec": spec, "status": status or {}})
    amounts = pod_requests(pod, wrong)
    assert not wrong
    assert list(amounts) == sorted(amounts)
    return dict(amounts)


def cpu(amount: str) -> dict[str, str]:
    return {"cpu": amount}


TABLE: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "nothing": ({"containers": [container()]}, {}),
    "no containers at all": ({}, {}),
    "every kind of resource": (
        {
            "containers": [
                container(
                    requests={
                        "cpu": "1500m",
                        "memory": "1Gi",
                        "ephemeral-storage": "10G",
                        "nvidia.com/gpu": 8,
                        "hugepages-2Mi": "4Mi",
                        "example.com/fpga": "2",
                    }
                )
            ]
        },
        {
            "cpu": 1500,
            "memory": 2**30,
            "ephemeral-storage": 10**10,
            "nvidia.com/gpu": 8,
            "hugepages-2Mi": 2**22,
            "example.com/fpga": 2,
        },
    ),
    "containers add up": (
        {"containers": [container(requests=cpu("1")), container("b", requests=cpu("250m"))]},
        {"cpu": 1250},
    ),
    "a limit is the default of a missing request": (
        {"containers": [container(requests=cpu("1"), limits={"cpu": "4", "nvidia.com/gpu": "2"})]},
        {"cpu": 1000, "nvidia.com/gpu": 2},
    ),
    "a request of zero is a request": (
        {"containers": [container(requests=cpu("0"), limits=cpu("4"))]},
        {},
    ),
    "init containers run one by one": (
        {
            "containers": [container(requests=cpu("2"))],
            "initContainers": [container("a", requests=cpu("3")), container("b", requests=cpu("1"))],
        },
        {"cpu": 3000},
    ),
    "the peak is per resource": (
        {
            "containers": [container(requests={"cpu": "2", "memory": "4"})],
            "initContainers": [container("a", requests={"cpu": "3", "memory": "1"})],
        },
        {"cpu": 3000, "memory": 4},
    ),
    "sidecars run beside the containers": (
        {
            "containers": [container(requests=cpu("2"))],
            "initContainers": [sidecar("a", requests=cpu("1"))],
        },
        {"cpu": 3000},
    ),
    "sidecars count for the init containers after them": (
        {
            "containers": [container(requests=cpu("1"))],
            "initContainers": [
                container("before", requests=cpu("4")),
                sidecar("a", requests=cpu("1")),
                container("between", requests=cpu("4")),
                sidecar("b", requests=cpu("2")),
                container("after", requests=cpu("1")),
            ],
        },
        {"cpu": 5000},
    ),
    "overhead is added": (
        {
            "containers": [container(requests=cpu("1"))],
            "initContainers": [container("a", requests=cpu("2"))],
            "overhead": {"cpu": "100m", "memory": "64"},
        },
        {"cpu": 2100, "memory": 64},
    ),
    "pod-level requests replace the containers'": (
        {
            "containers": [container(requests={"cpu": "1", "nvidia.com/gpu": "2"})],
            "resources": {"requests": cpu("5")},
            "overhead": cpu("1"),
        },
        {"cpu": 6000, "nvidia.com/gpu": 2},
    ),
    "pod-level resources are cpu, memory and hugepages only": (
        {
            "containers": [container(requests={"nvidia.com/gpu": "2"})],
            "resources": {"requests": {"nvidia.com/gpu": "8", "memory": "7"}},
        },
        {"nvidia.com/gpu": 2, "memory": 7},
    ),
    "a pod-level limit is the default where no container has a request": (
        {
            "containers": [container(requests=cpu("1"))],
            "resources": {"limits": {"cpu": "8", "memory": "16", "hugepages-2Mi": "4"}},
        },
        {"cpu": 1000, "memory": 16, "hugepages-2Mi": 4},
    ),
    "fractions round up": (
        {"containers": [container(requests={"cpu": "1u", "memory": "0.1"})]},
        {"cpu": 1, "memory": 1},
    ),
    "requests are capped": (
        {"containers": [container(requests={"memory": "3Pi"}), container("b", requests={"memory": "3Pi"})]},
        {"memory": POD_REQUEST_MAX},
    ),
    "a request for pods is ignored": ({"containers": [container(requests={"pods": "7"})]}, {}),
}


@pytest.mark.parametrize("case", TABLE)
def test_requests_follow_the_rules_of_kubernetes(case: str) -> None:
    spec, expected = TABLE[case]
    assert requests_of(spec) == {**expected, "pods": 1}


ASKED = {"containers": [container(requests=cpu("2"))]}


def reported(allocated: str, given: str) -> list[dict[str, Any]]:
    return [{"name": "main", "allocatedResources": cpu(allocated), "resources": {"requests": cpu(given)}}]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"containerStatuses": reported("2", "2")}, 2000),
        ({"containerStatuses": reported("3", "1")}, 3000),
        ({"containerStatuses": reported("1", "4")}, 4000),
        ({"containerStatuses": reported("1", "1")}, 2000),
        ({"containerStatuses": [{"name": "other", "allocatedResources": cpu("9")}]}, 2000),
        ({"containerStatuses": [{"name": "main", "allocatedResources": cpu("3")}]}, 3000),
        (
            {
                "containerStatuses": reported("1", "1"),
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            },
            1000,
        ),
        (
            {
                "containerStatuses": reported("1", "1"),
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
            },
            2000,
        ),
        ({"allocatedResources": cpu("5"), "resources": {"requests": cpu("1")}}, 5000),
    ],
)
def test_a_resize_counts_its_largest_amount(status: dict[str, Any], expected: int) -> None:
    assert requests_of(ASKED, status)["cpu"] == expected


def test_a_pod_level_resize_counts_its_largest_amount() -> None:
    spec = {**ASKED, "resources": {"requests": cpu("3")}}
    status = {"allocatedResources": cpu("1"), "resources": {"requests": cpu("4")}}
    assert requests_of(spec, status)["cpu"] == 4000


def test_invalid_amounts_are_reported_and_count_as_the_maximum() -> None:
    spec = {
        "containers": [container(requests=cpu("lots")), container("b", limits={"nvidia.com/gpu": "-1"})],
        "initContainers": [container("a", requests={"memory": "1e400"})],
        "overhead": {"memory": "NaN"},
        "resources": {"requests": cpu("?")},
    }
    wrong: list[str] = []
    amounts = pod_requests(written(core.Pod, {"metadata": {}, "spec": spec}), wrong)
    assert [fault.partition(":")[0] for fault in wrong] == [
        "spec.containers[0].resources.requests[cpu]",
        "spec.containers[1].resources.limits[nvidia.com/gpu]",
        "spec.initContainers[0].resources.requests[memory]",
        "spec.resources.requests[cpu]",
        "spec.overhead[memory]",
    ]
    assert amounts == {**dict.fromkeys(("cpu", "memory", "nvidia.com/gpu"), POD_REQUEST_MAX), "pods": 1}


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 9))
containers = st.lists(st.builds(lambda given: container(requests=given), amounts), max_size=3)
inits = st.lists(
    st.builds(
        lambda given, stays: (sidecar if stays else container)("init", requests=given), amounts, st.booleans()
    ),
    max_size=4,
)


@given(containers, inits, amounts)
def test_requests_are_the_peak_over_the_life_of_a_pod(
    main: Containers, init: Containers, overhead: dict[str, int]
) -> None:
    found = requests_of({"containers": main, "initContainers": init, "overhead": overhead})
    for resource in ("cpu", "memory", "nvidia.com/gpu"):
        unit = 1000 if resource == "cpu" else 1
        expected = peak(resource, main, init) + overhead.get(resource, 0)
        assert found.get(resource, 0) == expected * unit


def peak(resource: str, main: Containers, init: Containers) -> int:
    """The maximum over the init steps, each with the sidecars started before it, and the main phase."""

    def amount(of: Sequence[Mapping[str, Any]]) -> int:
        return sum(each["resources"]["requests"].get(resource, 0) for each in of)

    stays = ["restartPolicy" in each for each in init]
    steps = [
        amount([*(other for other, kept in zip(init[:number], stays, strict=False) if kept), each])
        for number, each in enumerate(init)
    ]
    main_phase = amount([*main, *(each for each, kept in zip(init, stays, strict=True) if kept)])
    return max([main_phase, *steps])
