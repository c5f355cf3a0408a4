"""The price of images: nodes differ in it as in the score of kube-scheduler's plugin ImageLocality."""

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
PRICED: Final = SchedulerConfig(plugins=(PluginConfig("image-locality", arguments={"weight": 100}),))
_AMOUNTS: Final = {"cpu": "4", "memory": "8Gi", "pods": "10"}
_ASKED: Final = ("a:1", "a", "registry:5000/b", "registry:5000/b:2", "c@sha256:" + "0" * 64)
_KEPT: Final = ("a:1", "a:latest", "registry:5000/b:latest", "registry:5000/b:2", _ASKED[-1], "other:1")
_SIZES: Final = (0, 24_117_248, 24_117_249, 10**8, 1_048_576_000, 123_456_789_012, 777_777_777)

# Made once: hypothesis examines each new strategy, which takes longer than drawing from it.
_IMAGES: Final = st.lists(
    st.fixed_dictionaries(
        {
            "names": st.lists(st.sampled_from(_KEPT), min_size=1, max_size=2, unique=True),
            "sizeBytes": st.sampled_from(_SIZES),
        }
    ),
    max_size=4,
    unique_by=lambda image: image["names"][0],
)
_NODES: Final = st.lists(_IMAGES, min_size=1, max_size=5)
_NAMES: Final = st.lists(st.sampled_from(_ASKED), min_size=1, max_size=3)
_MORE: Final = st.lists(st.sampled_from(_ASKED), max_size=2)


def _node(name: str, images: list[Document]) -> Document:
    status = {"capacity": _AMOUNTS, "allocatable": _AMOUNTS, "conditions": READY}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {**status, "images": images},
    }


def _asker(images: list[str], init: list[str], volumes: list[str]) -> Document:
    spec = {
        "schedulerName": "phalanx",
        "containers": [{"name": f"c{index}", "image": image} for index, image in enumerate(images)],
        "initContainers": [{"name": f"i{index}", "image": image} for index, image in enumerate(init)],
        "volumes": [
            {"name": f"v{index}", "image": {"reference": each}} for index, each in enumerate(volumes)
        ],
    }
    metadata = {"name": "asker", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.slow
@holds(60, suppress_health_check=list(HealthCheck))
@given(nodes=_NODES, images=_NAMES, init=_MORE, volumes=_MORE)
def test_costs_differ_as_scores(
    plugins: Plugins, nodes: list[list[Document]], images: list[str], init: list[str], volumes: list[str]
) -> None:
    _compare(plugins, nodes, _asker(images, init, volumes))


def _compare(plugins: Plugins, nodes: list[list[Document]], asker: Document) -> dict[str, int]:
    """What the nodes score."""
    objects = [*(_node(f"n{index}", each) for index, each in enumerate(nodes)), asker]
    answer = plugins.ask(objects, POD, {})
    assert not answer.error
    said, scores = opinion(objects, POD, PRICED), answer.scores["ImageLocality"]
    costs = {name: said.costs.get(name, 0) for name in scores}
    assert len({costs[name] + score for name, score in scores.items()}) == 1
    assert said.chosen is not None
    assert costs[said.chosen] == min(costs.values())
    return scores


def test_a_large_image_attracts_and_more_so_if_more_nodes_have_it(plugins: Plugins) -> None:
    large = [{"names": ["a:1"], "sizeBytes": 10**9}]
    one = _compare(plugins, [large, [], []], _asker(["a:1"], [], []))
    assert one["n0"] > one["n1"] == 0
    assert _compare(plugins, [large, large, []], _asker(["a:1"], [], []))["n0"] > one["n0"]
