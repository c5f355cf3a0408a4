"""Faults of nodes: health conditions, cordons, taints, fewer GPUs, lost kubelets and machines."""

from tests.kwok.manifests import Manifest, recovery
from tests.kwok.site import Site, condition

QUARANTINE = "dgxc.nvidia.com/nvsentinel-state"
MAINTENANCE = {"key": "maintenance", "value": "now"}


async def a_node_with_a_slow_gpu_gets_no_new_gangs_until_it_is_healthy(site: Site) -> None:
    (node,) = await site.add_nodes("r1")
    await site.set_condition(node, "GpuHWSlowDown", "True")
    await site.environment.nodes_are_known()
    await site.add_gang("new", size=1)
    await site.waits("new", "NodesUnavailable", "GpuHWSlowDown is True")
    healed = await site.set_condition(node, "GpuHWSlowDown", "False")
    await site.runs("new", 1)
    assert site.first_bind("new") > healed


async def aggregated_node_health_is_a_fault_when_false(site: Site) -> None:
    (node,) = await site.add_nodes("r1")
    await site.set_condition(node, "AggregatedNodeHealth", "False")
    await site.environment.nodes_are_known()
    await site.add_gang("new", size=1)
    await site.waits("new", "NodesUnavailable", "AggregatedNodeHealth is False")
    healed = await site.set_condition(node, "AggregatedNodeHealth", "True")
    await site.runs("new", 1)
    assert site.first_bind("new") > healed


async def unknown_condition_types_do_not_block(site: Site) -> None:
    first, second = await site.add_nodes("r1", "r1")
    await site.set_condition(first, "TenantProbeFailed", "True")
    await site.set_condition(second, "TenantProbePassed", "False")
    await site.environment.nodes_are_known()
    await site.add_gang("new", size=2)
    await site.runs("new", 2)
    assert site.placed("new") == [first, second]


async def a_node_under_nvsentinel_remediation_gets_no_new_pods(site: Site) -> None:
    """Condition, cordon and label as fault-quarantine, node-drainer and fault-remediation set them."""
    (node,) = await site.add_nodes("r1")
    await site.add_gang("old", size=1, gpus=4)
    await site.runs("old", 1)
    members = site.uids("old")
    await site.set_condition(node, "GpuXidError", "True")
    await site.set_node(node, spec={"unschedulable": True}, metadata={"labels": {QUARANTINE: "quarantined"}})
    await site.environment.nodes_are_known()
    await site.add_gang("new", size=1, gpus=4)
    await site.waits("new", "NodesUnavailable")
    for state in ("draining", "drain-succeeded", "remediating"):
        await site.label_node(node, **{QUARANTINE: state})
    await site.set_condition(node, "GpuXidError", "False")
    await site.set_node(node, spec={"unschedulable": None})
    await site.waits("new", "NodesUnavailable", "NVSentinel state is remediating")
    repaired = await site.label_node(node, **{QUARANTINE: "remediation-succeeded"})
    await site.runs("new", 1)
    assert site.first_bind("new") > repaired
    assert site.uids("old") == members, "a quarantined node is not a lost node"


async def a_taint_blocks_new_gangs_and_keeps_running_ones(site: Site) -> None:
    (node,) = await site.add_nodes("r1")
    await site.add_gang("old", size=1, gpus=4)
    await site.runs("old", 1)
    members = site.uids("old")
    await site.set_node(node, spec={"taints": [{**MAINTENANCE, "effect": "NoSchedule"}]})
    await site.environment.nodes_are_known()
    await site.add_gang("new", size=1, gpus=4)
    await site.waits("new", "NoEligibleNode", "maintenance")
    lifted = await site.set_node(node, spec={"taints": None})
    await site.runs("new", 1)
    assert site.first_bind("new") > lifted
    assert site.uids("old") == members


async def a_member_evicted_for_a_taint_is_replaced_in_the_rack(site: Site) -> None:
    """kube-controller-manager's taint-eviction-controller deletes the pod, and its owner recreates it."""
    await site.add_nodes("r1", "r1", "r1", "r2")
    await site.add_gang("gang", size=2, spec={"topology": {"name": "racks", "required": "rack"}})
    await site.runs("gang", 2)
    leaves, stays = site.pods("gang")
    await site.set_node(leaves.spec.node_name, spec={"taints": [{**MAINTENANCE, "effect": "NoExecute"}]})
    await site.until(lambda: leaves.metadata.uid not in site.uids("gang"), "the eviction")
    await site.runs("gang", 2)
    assert stays.metadata.uid in site.uids("gang")
    assert leaves.spec.node_name not in site.placed("gang")
    assert f"{site.name}-3" not in site.placed("gang"), "a member left the rack of its gang"
    assert site.evicted("gang") == {"DeletionByTaintManager"}


async def lost_gpus_are_not_assigned_and_evict_no_pod(site: Site) -> None:
    """8, 7, 0, 8: at 7 and at 0 the device plugin reports fewer GPUs than the pods use."""
    (node,) = await site.add_nodes("r1")
    await site.add_gang("old", size=1, gpus=4)
    await site.runs("old", 1)
    members = site.uids("old")
    await site.set_gpus(node, 7)
    await site.environment.nodes_are_known()
    await site.add_gang("new", size=1, gpus=4)
    await site.waits("new", "InsufficientCapacity")
    await site.set_gpus(node, 0)
    await site.waits("new", "AboveClusterCapacity")
    returned = await site.set_gpus(node, 8)
    await site.runs("new", 1)
    assert site.first_bind("new") > returned
    assert site.uids("old") == members


async def only_members_on_a_not_ready_node_are_replaced(site: Site) -> None:
    """KWOK's `node-not-ready`: Ready is False. Without its label KWOK makes the node ready again."""
    await site.add_nodes("r1", "r1", "r1")
    await site.add_gang("gang", size=2, spec={"recovery": recovery(node_loss="Replace")})
    await site.runs("gang", 2)
    lost, stays = site.pods("gang")
    await site.fail_node(lost.spec.node_name)
    await site.until(lambda: lost.metadata.uid not in site.uids("gang"), "the member to be replaced")
    await site.runs("gang", 2)
    assert stays.metadata.uid in site.uids("gang")
    assert lost.spec.node_name not in site.placed("gang")
    assert site.evicted("gang") == {"MemberReplaced"}
    await site.add_gang("next", size=1)
    await site.waits("next", "InsufficientCapacity")
    healed = await site.heal_node(lost.spec.node_name)
    await site.runs("next", 1)
    assert site.placed("next") == [lost.spec.node_name]
    assert site.first_bind("next") > healed


async def a_gang_is_completed_after_one_of_its_nodes_was_deleted(site: Site) -> None:
    """kube-controller-manager's pod garbage collector removes the orphan, about a minute later."""
    await site.add_nodes("r1", "r1", "r1")
    await site.add_gang("gang", size=2)
    await site.runs("gang", 2)
    orphan, stays = site.pods("gang")
    await site.environment.delete(f"/api/v1/nodes/{orphan.spec.node_name}")
    await site.until(lambda: orphan.metadata.uid not in site.uids("gang"), "the orphan to be collected")
    await site.runs("gang", 2)
    assert stays.metadata.uid in site.uids("gang")
    assert orphan.spec.node_name not in site.placed("gang")
    assert site.evicted("gang") == {"DeletionByPodGC"}


async def a_recreated_node_keeps_its_pods(site: Site) -> None:
    (node,) = await site.add_nodes("r1")
    await site.add_gang("old", size=1, gpus=5)
    await site.runs("old", 1)
    members = site.uids("old")
    before = await site.node(node)
    await site.environment.delete(f"/api/v1/nodes/{node}")
    await site.create(_like(before))
    after = await site.node_until(node, lambda found: condition(found, "Ready") == "True")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    await site.environment.nodes_are_known()
    await site.add_gang("new", size=1, gpus=4)
    await site.waits("new", "InsufficientCapacity")
    await site.add_gang("small", size=1, gpus=3)
    await site.runs("small", 1)
    assert site.uids("old") == members, "the pods still run on the node"
    await site.environment.delete(f"/apis/apps/v1/namespaces/{site.name}/replicasets/old")
    await site.runs("new", 1)


def _like(node: Manifest) -> Manifest:
    """The node as its kubelet registers it again."""
    metadata = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
    resources = {key: node["status"][key] for key in ("allocatable", "capacity")}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": resources}


SCENARIOS = (
    a_node_with_a_slow_gpu_gets_no_new_gangs_until_it_is_healthy,
    aggregated_node_health_is_a_fault_when_false,
    unknown_condition_types_do_not_block,
    a_node_under_nvsentinel_remediation_gets_no_new_pods,
    a_taint_blocks_new_gangs_and_keeps_running_ones,
    a_member_evicted_for_a_taint_is_replaced_in_the_rack,
    lost_gpus_are_not_assigned_and_evict_no_pod,
    only_members_on_a_not_ready_node_are_replaced,
    a_gang_is_completed_after_one_of_its_nodes_was_deleted,
    a_recreated_node_keeps_its_pods,
)
