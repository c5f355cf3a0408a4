"""Volumes as the external provisioner of a CSI driver creates them; the provisioners of all tests use it."""

from typing import Any, Final

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
HOSTNAME: Final = "kubernetes.io/hostname"

Manifest = dict[str, Any]


def selected_node(claim: Manifest) -> str:
    """The node that a scheduler selected for a claim without a volume; empty if there is none."""
    if claim["spec"].get("volumeName"):
        return ""
    node: str = claim["metadata"].get("annotations", {}).get(SELECTED_NODE, "")
    return node


def provisioned_volume(claim: Manifest, node: str, driver: str) -> Manifest:
    """The volume that a driver creates for a claim on one node; its name is that of the claim's UID."""
    meta, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{meta['uid']}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: driver}},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "storageClassName": spec["storageClassName"],
            "csi": {"driver": driver, "volumeHandle": name},
            "claimRef": {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]},
            "nodeAffinity": on_host(node),
        },
    }


def on_host(node: str) -> Manifest:
    """The node affinity of a volume that one node can mount."""
    expression = {"key": HOSTNAME, "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
