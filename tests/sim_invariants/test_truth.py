"""The incrementally updated ground truth equals a complete recomputation."""

from phalanx_simulator.embedded.manifests import gang, node, pod_group
from phalanx_simulator.hosts.network import Effect, Rule
from phalanx_simulator.invariants.binds import OneBindPerPod

from tests.sim_invariants.stage import RESOURCES, Stage, play

RACK = "cloud.provider.com/topology-rack"


def topology(**levels: str) -> dict[str, object]:
    written = [{"name": name, "nodeLabel": label} for name, label in levels.items()]
    return {
        "apiVersion": "scheduling.phalanx.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "default"},
        "spec": {"levels": written},
    }


def test_a_gang_is_finishing_only_while_a_succeeded_member_exists() -> None:
    broken: list[bool] = []

    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod_group("g", min_member=2), *gang("g", {"w": 2}))
        host = await stage.leader()
        for name in ("g-w-0", "g-w-1"):
            await host.bind(name, "n1")
        stage.status("g-w-0", phase="Succeeded")
        stage.status("g-w-1", phase="Failed")
        broken.append(bool(stage.checks.truth.broken))
        stage.delete("g-w-0")
        broken.append(bool(stage.checks.truth.broken))

    play(history, OneBindPerPod)
    assert broken == [False, True]


def test_a_host_is_disturbed_until_its_slow_request_ends() -> None:
    quiet: list[float] = []

    async def history(stage: Stage) -> None:
        stage.create(node("n1"), pod_group("g", min_member=1), *gang("g", {"w": 1}))
        host = await stage.leader()
        host.network.rules.append(Rule(effect=Effect.SLOW, slow_s=20.0, times=1))
        await host.bind("g-w-0", "n1")
        await stage.pass_time(15)
        quiet.append(stage.checks.truth.healthy_s(host.process.host.name))

    play(history, OneBindPerPod)
    assert quiet[0] < 15.5


def test_levels_follow_node_labels_and_topologies() -> None:
    labels: list[list[str] | None] = []

    async def history(stage: Stage) -> None:
        def look() -> None:
            labels.append(stage.checks.truth.trees.of("").labels_down_to("rack"))

        stage.create(node("n1"))
        look()
        stage.create(node("n2", labels={RACK: "r1"}))
        look()
        stage.condition("n2", "Ready", "False")
        look()
        stage.delete("n2", "nodes")
        look()
        stage.create(topology(rack="my/rack"))
        look()
        stage.client.delete(
            stage.key("default", RESOURCES["Topology"], ""),
            uid=stage.uid("default", RESOURCES["Topology"], ""),
        )
        look()

    play(history, OneBindPerPod)
    assert labels == [None, [RACK], [RACK], None, ["my/rack"], None]
