"""NodeResourceTopology objects, and their CRD, for test clusters."""

from collections.abc import Mapping, Sequence
from typing import Any

Amounts = Mapping[str, str]

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "noderesourcetopologies.topology.node.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"},
    },
    "spec": {
        "group": "topology.node.k8s.io",
        "names": {
            "kind": "NodeResourceTopology",
            "listKind": "NodeResourceTopologyList",
            "plural": "noderesourcetopologies",
            "singular": "noderesourcetopology",
            "shortNames": ["node-res-topo"],
        },
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def node_topology(
    name: str,
    *zones: Amounts,
    available: Sequence[Amounts] | None = None,
    policy: str = "single-numa-node",
    scope: str = "pod",
) -> dict[str, Any]:
    """The NodeResourceTopology of a node; `available` of each zone is all of it by default."""
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": scope},
        ],
        "zones": [
            zone(f"node-{index}", offered, left)
            for index, (offered, left) in enumerate(zip(zones, available or zones, strict=True))
        ],
    }


def zone(name: str, offered: Amounts, left: Amounts) -> dict[str, Any]:
    """One NUMA zone with its available amounts `left`."""
    resources = [
        {"name": each, "capacity": amount, "allocatable": amount, "available": left.get(each, "0")}
        for each, amount in offered.items()
    ]
    return {"name": name, "type": "Node", "resources": resources}
