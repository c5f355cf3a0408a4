"""Features of a kubelet that a pod requires.

The rules are those of component-helpers/nodedeclaredfeatures of Kubernetes 1.37. The other features of its
registry concern changes of pods that run, and claims.
"""

from typing import Final

from phalanx.model.api.core import PodSpec

HOST_NETWORK_WITH_USERS: Final = "UserNamespacesHostNetworkSupport"
RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
BIND_MOUNT_OPTIONS: Final = "VolumeBindMountOptions"


def required_features(spec: PodSpec) -> tuple[str, ...]:
    """The features that a node must declare for a pod with this spec, sorted."""
    containers = (*spec.containers, *spec.init_containers)
    rules = [rule for each in containers for rule in each.restart_policy_rules]
    found = []
    if any(rule.action == "RestartAllContainers" for rule in rules):
        found.append(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        found.append(HOST_NETWORK_WITH_USERS)
    if any(mount.bind_mount_options for each in containers for mount in each.volume_mounts):
        found.append(BIND_MOUNT_OPTIONS)
    return tuple(found)
