"""Images have a price if the configuration says so, and are not read otherwise."""

from typing import Any

import pytest
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied
from phalanx.cycle import decide
from phalanx.deciders.port import new_cache
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.service.config_reload import fixed_changes

from tests.cache.world import take_snapshot
from tests.model.written import node, pod

IMAGE = "example.com/train:1"


def config(weight: int) -> SchedulerConfig:
    return SchedulerConfig(plugins=(PluginConfig("image-locality", arguments={"weight": weight}),))


def with_image(name: str, *images: str) -> Any:
    kept = [{"names": [image], "sizeBytes": 20 * 10**9} for image in images]
    return node(name, status={"allocatable": {"cpu": "2", "pods": "9"}, "images": kept})


def filled(weight: int, *objects: Any) -> Cache:
    cache = new_cache(config(weight))
    cache.apply_all([Applied(each) for each in objects])
    return cache


def asking(name: str, image: str = IMAGE) -> Any:
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "1"}}}
    return pod(name, containers=[container])


@pytest.mark.parametrize("there", ["n1", "n2", "n3"])
def test_pods_go_where_their_image_is(there: str) -> None:
    nodes = [with_image(name, *[IMAGE] * (name == there)) for name in ("n1", "n2", "n3")]
    cache = filled(10, *nodes, asking("p1"), asking("p2"))
    placements = decide(take_snapshot(cache), config(10)).placements
    assert {bind.node for each in placements for bind in each.binds} == {there}


def test_without_a_price_images_are_not_kept() -> None:
    objects = (with_image("n1", IMAGE), asking("p1"), asking("p2", "other:1"))
    assert _kept(filled(0, *objects)) == ([{}], 1)
    assert _kept(filled(1, *objects)) == ([{IMAGE: 20 * 10**9}], 2)


def _kept(cache: Cache) -> tuple[list[Any], int]:
    """The images of nodes, and the number of classes of pods."""
    snapshot = take_snapshot(cache)
    shapes = {pod.shape.key for gang in snapshot.gangs.values() for pod in gang.members}
    return [state.node.images for state in snapshot.nodes.values()], len(shapes)


def test_an_image_that_is_pulled_later_counts_but_unblocks_nobody() -> None:
    cache = filled(1, with_image("n1"))
    changes = cache.apply(Applied(with_image("n1", IMAGE)))
    assert (changes.nodes, changes.capacity_grew) == (("n1",), False)
    without = filled(0, with_image("n1"))
    assert without.apply(Applied(with_image("n1", IMAGE))).nodes == ()


def test_a_price_for_images_needs_a_restart() -> None:
    assert fixed_changes(config(0), config(5)) == ("weight of plugin image-locality",)
    assert fixed_changes(config(5), config(9)) == ()
    assert fixed_changes(config(5), config(0)) == ()
