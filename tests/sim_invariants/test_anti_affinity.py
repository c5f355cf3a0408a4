"""S23 reports violations of a history, and nothing for a similar valid one."""

import asyncio
from typing import Any

import pytest
from phalanx_simulator.embedded.manifests import node, pod
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.invariants.anti_affinity import AntiAffinityHolds

from tests.sim_invariants.stage import Stage, violations

HOST = "kubernetes.io/hostname"


def labelled(name: str, app: str, *, avoids: str = "", key: str = HOST, **rest: Any) -> Object:
    """A pod with the label `app` and anti-affinity to pods with the value `avoids` of it."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": avoids}}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    affinity = {"affinity": {"podAntiAffinity": terms}} if avoids else {}
    made = pod(name, **affinity, **rest)
    made["metadata"]["labels"]["app"] = app
    return made


@pytest.mark.parametrize(("one", "other"), [("x", "x"), ("", "x"), ("x", "")])
def test_a_bind_next_to_a_pod_with_anti_affinity_violates(one: str, other: str) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), labelled("a", "x", avoids=one), labelled("b", "x", avoids=other))
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.bind("b", "n1")

    assert set(violations(history, AntiAffinityHolds)) == {"S23"}


def test_two_binds_in_flight_that_conflict_violate() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), labelled("a", "x", avoids="x"), labelled("b", "x", avoids="x"))
        host = await stage.leader()
        await asyncio.gather(host.bind("a", "n1"), host.bind("b", "n1"))

    assert set(violations(history, AntiAffinityHolds)) == {"S23"}


def test_anti_affinity_by_a_rack_label_is_checked() -> None:
    async def history(stage: Stage) -> None:
        stage.create(*(node(name, labels={"rack": "r"}) for name in ("n1", "n2")))
        stage.create(labelled("a", "x", avoids="y", key="rack"), labelled("b", "y"))
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.bind("b", "n2")

    assert set(violations(history, AntiAffinityHolds)) == {"S23"}


def test_pods_in_different_domains_do_not_violate() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), node("n2"), labelled("a", "x", avoids="x"), labelled("b", "x", avoids="x"))
        stage.create(labelled("c", "y", avoids="z"))
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.bind("b", "n2")
        await host.bind("c", "n1")

    assert violations(history, AntiAffinityHolds) == []


def test_a_pod_unknown_to_the_sender_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        host = await stage.leader()
        stage.create(node("n1"), labelled("a", "x", avoids="x"))
        await host.receive()
        stage.create(labelled("b", "x", scheduler="other", nodeName="n1"))
        await host.bind("a", "n1")

    assert violations(history, AntiAffinityHolds, single_writer=False) == []


def test_a_node_whose_labels_changed_does_not_violate() -> None:
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
