"""S1, S2, S4 report violations of a history, and nothing for a similar valid one."""

import asyncio

import pytest
from phalanx_simulator.embedded.manifests import node, pod, pod_group
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.hosts.network import Effect, Rule
from phalanx_simulator.invariants.binds import NodeAllowsPod, NodeCapacityIsRespected, OneBindPerPod

from tests.sim_invariants.stage import Stage, violations

GPUS8 = {"nvidia.com/gpu": "8"}


def test_a_bind_for_a_pod_known_to_be_bound_violates() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.receive()
        await host.bind("a", "n1")

    assert violations(history, OneBindPerPod) == ["S1"]


def test_a_repeated_bind_before_its_success_is_known_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        await host.bind("a", "n1")
        assert await host.bind("a", "n1") == 409

    assert violations(history, OneBindPerPod) == []


def test_a_pod_that_is_bound_twice_violates() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), node("n2"), pod("a"))
        host = await stage.leader()
        await host.bind("a", "n1")
        found = stage.client.get(stage.key("a"))
        assert found is not None
        spec = {name: value for name, value in found["spec"].items() if name != "nodeName"}
        stage.server.store.put(stage.key("a"), {**found, "spec": spec})
        assert await host.bind("a", "n2") == 201

    assert violations(history, OneBindPerPod) == ["S1"]


@pytest.mark.parametrize("known_to_sender", [True, False])
def test_a_bind_for_a_pod_known_to_be_terminating_violates(known_to_sender: bool) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        stage.client.update(
            stage.key("a"), lambda it: {**it, "metadata": {**it["metadata"], "finalizers": ["x/y"]}}
        )
        host = await stage.leader()
        stage.delete("a")
        if known_to_sender:
            await host.receive()
        await host.bind("a", "n1")

    assert violations(history, OneBindPerPod) == ["S1"] * known_to_sender


def test_a_bind_for_a_pod_of_another_scheduler_violates() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a", scheduler="default-scheduler"))
        host = await stage.leader()
        await host.bind("a", "n1")

    assert violations(history, OneBindPerPod) == ["S1"]


def test_binds_above_the_allocatable_violate() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a", requests=GPUS8), pod("b", requests=GPUS8))
        host = await stage.leader()
        await host.bind("a", "n1")
        await host.bind("b", "n1")

    assert violations(history, NodeCapacityIsRespected) == ["S2", "S2"]


def test_concurrent_binds_above_the_allocatable_violate() -> None:
    """Neither bind is applied when the other is sent."""

    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a", requests=GPUS8), pod("b", requests=GPUS8))
        host = await stage.leader()
        await asyncio.gather(host.bind("a", "n1"), host.bind("b", "n1"))

    assert violations(history, NodeCapacityIsRespected) == ["S2", "S2"]


@pytest.mark.parametrize(("index", "found"), [("1", []), ("0", ["S2"])])
def test_shares_above_one_gpu_violate(index: str, found: list[str]) -> None:
    """An annotation of the pod names its GPU, so this is known once the bind is applied."""
    sharing = {"scheduling.phalanx.dev/gpu-sharing": "true", "nvidia.com/gpu.count": "2"}

    def share(name: str, thousandths: str) -> Object:
        made = pod(name, requests={"cpu": "1"})
        made["metadata"]["annotations"] = {"scheduling.phalanx.dev/gpu-share": thousandths}
        return made

    async def history(stage: Stage) -> None:
        stage.create(node("n1", gpus=0, labels=sharing), share("a", "500"), share("b", "501"))
        host = await stage.leader()
        await host.bind("a", "n1", gpu_index="0")
        await host.bind("b", "n1", gpu_index=index)

    assert violations(history, NodeCapacityIsRespected) == found


def test_the_capacity_of_a_finished_pod_is_free() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a", requests=GPUS8), pod("b", requests=GPUS8))
        host = await stage.leader()
        await host.bind("a", "n1")
        stage.status("a", phase="Succeeded")
        await host.receive()
        await host.bind("b", "n1")

    assert violations(history, NodeCapacityIsRespected) == []


@pytest.mark.parametrize("single_writer", [True, False])
def test_a_foreign_pod_between_decision_and_bind_violates_only_with_a_single_writer(
    single_writer: bool,
) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a", requests=GPUS8))
        host = await stage.leader()
        stage.create(pod("rival", scheduler="default-scheduler", requests=GPUS8, nodeName="n1"))
        await host.bind("a", "n1")

    assert violations(history, NodeCapacityIsRespected, single_writer=single_writer) == ["S2"] * single_writer


def test_a_decreased_allocatable_that_was_received_violates() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a", requests=GPUS8))
        host = await stage.leader()
        stage.status("n1", "nodes", allocatable={"nvidia.com/gpu": "7", "cpu": "64", "pods": "110"})
        await host.receive()
        await host.bind("a", "n1")

    assert violations(history, NodeCapacityIsRespected) == ["S2", "S2"]


def test_a_decreased_allocatable_that_was_not_received_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a", requests=GPUS8))
        host = await stage.leader()
        stage.status("n1", "nodes", allocatable={"nvidia.com/gpu": "7", "cpu": "64", "pods": "110"})
        await host.bind("a", "n1")

    assert violations(history, NodeCapacityIsRespected) == []


def test_a_bind_that_is_applied_late_does_not_violate() -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a", requests=GPUS8), pod("b", requests=GPUS8))
        host = await stage.leader()
        host.network.rules.append(Rule(effect=Effect.SLOW, slow_s=8.0, times=1))
        assert await host.bind("a", "n1") == 0
        await host.bind("b", "n1")
        await asyncio.sleep(5.0)

    assert violations(history, NodeCapacityIsRespected) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda stage: stage.condition("n1", "Ready", "False"),
        lambda stage: stage.condition("n1", "GpuXidError", "True"),
        lambda stage: stage.condition("n1", "AggregatedNodeHealth", "False"),
        lambda stage: stage.change("n1", "nodes", unschedulable=True),
        lambda stage: stage.change("n1", "nodes", taints=[{"key": "k", "effect": "NoSchedule"}]),
        lambda stage: stage.delete("n1", "nodes"),
    ],
    ids=["not-ready", "fatal", "other-polarity", "cordoned", "tainted", "gone"],
)
@pytest.mark.parametrize("known_to_sender", [True, False])
def test_a_bind_to_a_node_known_to_be_unusable_violates(spoil: object, known_to_sender: bool) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a"))
        host = await stage.leader()
        spoil(stage)  # type: ignore[operator]
        if known_to_sender:
            await host.receive()
        await host.bind("a", "n1")

    assert violations(history, NodeAllowsPod) == ["S4"] * known_to_sender


@pytest.mark.parametrize(
    "spoil",
    [
        lambda stage: stage.condition("n1", "GpuXidError", "False"),
        lambda stage: stage.condition("n1", "SomethingNobodyKnows", "True"),
        lambda stage: stage.condition("n1", "NodeNotInNWTopologyCM", "True"),
        lambda stage: stage.change("n1", "nodes", taints=[{"key": "k", "effect": "PreferNoSchedule"}]),
        lambda stage: stage.change("n1", "nodes", taints=[{"key": "ok", "effect": "NoSchedule"}]),
    ],
    ids=["healthy", "unknown-type", "no-topology-asked", "soft-taint", "tolerated"],
)
def test_a_bind_to_a_usable_node_does_not_violate(spoil: object) -> None:
    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod("a", tolerations=[{"key": "ok", "operator": "Exists"}]))
        spoil(stage)  # type: ignore[operator]
        host = await stage.leader()
        await host.bind("a", "n1")

    assert violations(history, NodeAllowsPod) == []


def test_an_unknown_topology_position_violates_for_a_gang_with_a_required_level() -> None:
    async def history(stage: Stage) -> None:
        stage.create(
            node("n1"), pod_group("g", min_member=1, topology={"required": "block"}), pod("a", group="g")
        )
        stage.condition("n1", "NodeNotInNWTopologyCM", "True")
        host = await stage.leader()
        await host.bind("a", "n1")

    assert violations(history, NodeAllowsPod) == ["S4"]
