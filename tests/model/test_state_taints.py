"""Taints that only say that a node takes no pods now, and those that divide the cluster."""

import pytest
from phalanx.model.conversion.nodes import read_node
from phalanx.model.nodes import is_state_taint

from tests.model.written import node

CONFIGURED = ("team.example/booting", "burn-in.example/", "*/driver-not-ready")


@pytest.mark.parametrize(
    "key",
    [
        "node.kubernetes.io/not-ready",
        "ToBeDeletedByClusterAutoscaler",
        "startup-taint.cluster-autoscaler.kubernetes.io/gpu",
        "karpenter.sh/disrupted",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cilium.io/agent-not-ready",
        "ebs.csi.aws.com/agent-not-ready",
    ],
)
def test_taints_of_autoscalers_clouds_and_agents_are_known(key: str) -> None:
    assert is_state_taint(key)


@pytest.mark.parametrize("key", ["nvidia.com/gpu", "team", "karpenter.sh/capacity", "agent-not-ready"])
def test_other_taints_divide_the_cluster(key: str) -> None:
    assert not is_state_taint(key)
    assert not is_state_taint(key, CONFIGURED)


@pytest.mark.parametrize(
    "key", ["team.example/booting", "burn-in.example/day-1", "nvidia.com/driver-not-ready"]
)
def test_keys_prefixes_and_suffixes_are_configured(key: str) -> None:
    assert not is_state_taint(key)
    assert is_state_taint(key, CONFIGURED)


def test_a_node_with_a_state_taint_takes_pods_again_without_it() -> None:
    taints = [
        {"key": "team.example/booting", "effect": "NoSchedule"},
        {"key": "team", "effect": "NoSchedule"},
    ]
    written = node(spec={"taints": taints})
    found = read_node(written, state_taints=CONFIGURED)
    assert found.is_in_transition
    assert found.has_state_taint
    assert not found.has_faulty_state
    assert [taint.key for taint in found.as_available.taints] == ["team"]
    assert not found.as_available.is_in_transition
