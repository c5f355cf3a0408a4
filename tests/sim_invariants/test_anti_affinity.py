"""S23 can fail, and does not when it only looks like it."""

import asyncio
from typing import Any

import pytest
from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.invariants.anti_affinity import AntiAffinityHolds

from tests.sim_invariants.stage import Stage, violations

HOST = "kubernetes.io/hostname"


def labelled(name: str, app: str, *, avoids: str = "", key: str = HOST, **rest: Any) -> Object:
    """A pod with the label `app`, which avoids those of another value of it."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": avoids}}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    affinity = {"affinity": {"podAntiAffinity": terms}} if avoids else {}
    made = pod(name, **affinity, **rest)
    made["metadata"]["labels"]["app"] = app
    return made


@pytest.mark.parametrize(("one", "other"), [("x", "x"), ("", "x"), ("x", "")])
def test_two_pods_on_one_node_of_which_one_avoids_the_other(one: str, other: str) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), labelled("a", "x", avoids=one), labelled("b", "x", avoids=other))
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.bind("b", "n1")

    assert set(violations(history, AntiAffinityHolds)) == {"S23"}


def test_both_on_their_way() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), labelled("a", "x", avoids="x"), labelled("b", "x", avoids="x"))
        host = await stage.leader()
        await asyncio.gather(host.bind("a", "n1"), host.bind("b", "n1"))

    assert set(violations(history, AntiAffinityHolds)) == {"S23"}


def test_by_another_label_than_the_node() -> None:
    async def history(stage: Stage) -> None:
        stage.create(*(node(name, labels={"rack": "r"}) for name in ("n1", "n2")))
        stage.create(labelled("a", "x", avoids="y", key="rack"), labelled("b", "y"))
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.bind("b", "n2")

    assert set(violations(history, AntiAffinityHolds)) == {"S23"}


def test_pods_that_are_apart_or_do_not_mind() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), node("n2"), labelled("a", "x", avoids="x"), labelled("b", "x", avoids="x"))
        stage.create(labelled("c", "y", avoids="z"))
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.bind("b", "n2")
        await host.bind("c", "n1")

    assert violations(history, AntiAffinityHolds) == []


def test_a_pod_of_which_the_sender_has_not_heard() -> None:
    async def history(stage: Stage) -> None:
        host = await stage.leader()
        stage.create(node("n1"), labelled("a", "x", avoids="x"))
        await host.receive()
        stage.create(labelled("b", "x", scheduler="other", nodeName="n1"))
        await host.bind("a", "n1")

    assert violations(history, AntiAffinityHolds, single_writer=False) == []


def test_a_node_that_has_moved_since() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1", labels={"rack": "r"}), node("n2", labels={"rack": "s"}))
        stage.create(labelled("a", "x", avoids="x", key="rack"), labelled("b", "x"))
        host = await stage.leader()
        await host.bind("b", "n1")
        await host.receive()
        moved = {"rack": "r", HOST: "n2"}
        stage.client.update(
            stage.key("n2", "nodes"), lambda it: {**it, "metadata": {**it["metadata"], "labels": moved}}
        )
        await host.bind("a", "n2")

    assert violations(history, AntiAffinityHolds) == []
