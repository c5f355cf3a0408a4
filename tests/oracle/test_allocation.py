"""The price of allocation: what nodes cost follows from the scores of kube-scheduler's own plugins."""

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from phalanx.framework.config import PluginConfig, SchedulerConfig

from tests.examples import holds
from tests.oracle.clusters import POD, READY
from tests.oracle.comparison import opinion
from tests.oracle.plugins import Plugins

Document = dict[str, Any]

# Made once: hypothesis examines each new strategy, which takes longer than drawing from it.
_OFFERED: Final = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(("4", "8", "7500m")),
        "memory": st.sampled_from(("8Gi", "16G")),
        "pods": st.just("9"),
    },
    optional={
        "example.com/gpu": st.sampled_from(("8", "3")),
        "ephemeral-storage": st.sampled_from(("10Gi", "100G")),
    },
)
_REQUESTS: Final = st.fixed_dictionaries(
    {"cpu": st.sampled_from(("1", "300m", "2")), "memory": st.sampled_from(("1Gi", "700M"))},
    optional={"example.com/gpu": st.sampled_from(("1", "2")), "ephemeral-storage": st.sampled_from(("1Gi",))},
)
_NAMES: Final = ("cpu", "memory", "example.com/gpu", "ephemeral-storage")
_RESOURCES: Final = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(_NAMES), "weight": st.integers(1, 5)}),
    min_size=1,
    max_size=3,
    unique_by=lambda each: each["name"],
)
_SHAPE: Final = st.lists(
    st.fixed_dictionaries({"utilization": st.integers(0, 100), "score": st.integers(0, 10)}),
    min_size=1,
    max_size=3,
    unique_by=lambda point: point["utilization"],
).map(lambda points: sorted(points, key=lambda point: point["utilization"]))
_STRATEGY: Final = st.sampled_from(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
_EVEN: Final = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True)
_CLUSTER: Final = st.lists(st.tuples(_OFFERED, st.lists(_REQUESTS, max_size=2)), min_size=2, max_size=4)


def _pod(name: str, requests: Document, **spec: Any) -> Document:
    container = {"name": "main", "image": "example.com/image", "resources": {"requests": requests}}
    if gpus := requests.get("example.com/gpu"):
        container["resources"]["limits"] = {"example.com/gpu": gpus}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


def _objects(cluster: list[tuple[Document, list[Document]]], asker: Document) -> list[Document]:
    found: list[Document] = []
    for index, (offered, placed) in enumerate(cluster):
        status = {"capacity": offered, "allocatable": offered, "conditions": READY}
        metadata = {"name": f"n{index}", "labels": {"kubernetes.io/hostname": f"n{index}"}}
        found.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
        found += [
            _pod(f"p{index}-{number}", each, nodeName=f"n{index}") for number, each in enumerate(placed)
        ]
    return [*found, _pod("asker", asker, schedulerName="phalanx")]


def _config(**arguments: Any) -> SchedulerConfig:
    return SchedulerConfig(plugins=(PluginConfig("allocation", arguments=arguments),))


@pytest.mark.slow
@holds(40, suppress_health_check=list(HealthCheck))
@given(cluster=_CLUSTER, asker=_REQUESTS, strategy=_STRATEGY, resources=_RESOURCES, points=_SHAPE)
def test_each_strategy_is_that_of_kube_scheduler(
    plugins: Plugins,
    cluster: list[tuple[Document, list[Document]]],
    asker: Document,
    strategy: str,
    resources: list[Document],
    points: list[Document],
) -> None:
    shape = points if strategy == "RequestedToCapacityRatio" else []
    ratio = {"requestedToCapacityRatio": {"shape": shape}} if shape else {}
    settings = {"type": strategy, "resources": resources, **ratio}
    objects = _objects(cluster, asker)
    answer = plugins.ask(objects, POD, {"strategy": settings})
    assert not answer.error
    said = opinion(objects, POD, _config(strategy=strategy, weight=100, resources=resources, shape=shape))
    scores = answer.scores.get("NodeResourcesFit", {})
    assert {name: 100 - said.costs.get(name, 0) for name in answer.feasible} == scores
    if scores:
        assert said.chosen is not None
        assert scores[said.chosen] == max(scores.values())


@pytest.mark.slow
@holds(40, suppress_health_check=list(HealthCheck))
@given(cluster=_CLUSTER, asker=_REQUESTS, even=_EVEN)
def test_even_allocation_is_that_of_kube_scheduler(
    plugins: Plugins, cluster: list[tuple[Document, list[Document]]], asker: Document, even: list[str]
) -> None:
    """Up to 1, since kube-scheduler computes with floating-point numbers."""
    objects = _objects(cluster, asker)
    answer = plugins.ask(objects, POD, {"balanced": [{"name": name, "weight": 1} for name in even]})
    assert not answer.error
    said = opinion(objects, POD, _config(balancedWeight=100, balancedResources=even))
    scores = answer.scores.get("NodeResourcesBalancedAllocation", {})
    for name in answer.feasible if scores else ():
        assert abs(100 - said.costs.get(name, 0) - scores[name]) <= 1
    assert scores or not answer.feasible or not said.costs
