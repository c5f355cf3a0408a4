"""Configuration files of the programs of one node."""

from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from phalanx_controlplane.nodes import limits
from phalanx_controlplane.nodes.programs import NETWORK_PLUGINS

PAUSE_IMAGE: Final = "localhost/phalanx-pause:1"
KUBELET_PORT: Final = 10250


class Place(Struct, frozen=True, kw_only=True):
    """Where one node is: its number, its folder, and what follows from them."""

    number: int
    folder: Path
    cgroup: str
    runc: Path
    authority: Path
    """Certificate of the authority of clients of the kubelet."""

    @property
    def name(self) -> str:
        """The name of the node."""
        return node_name(self.number)

    @property
    def address(self) -> str:
        """The address of the node, which only its network namespace knows."""
        return f"10.99.{self.number}.1"

    @property
    def bridge(self) -> str:
        """The bridge that has this address."""
        return f"node{self.number}"

    @property
    def socket(self) -> Path:
        """The socket of containerd."""
        return self.folder / "containerd.sock"

    @property
    def static_pods(self) -> Path:
        """The folder of pods that the kubelet runs without being told by the API server."""
        return self.folder / "static-pods"


def node_name(number: int) -> str:
    """The name of a node."""
    return f"node-{number}"


def kubelet(place: Place) -> dict[str, Any]:
    """The kubelet's configuration: who calls it is known to the API server or has a certificate."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": place.address,
        "port": KUBELET_PORT,
        "healthzBindAddress": place.address,
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(place.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{place.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": ["pods"],
        # The machine is shared, so neither takes more than it needs for itself.
        "oomScoreAdj": 0,
        "maxOpenFiles": 20000,
        "podLogsDir": str(place.folder / "pod-logs"),
        "staticPodPath": str(place.static_pods),
        "fileCheckFrequency": "1s",
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": limits.NODE_LEASE_S,
        "imageMinimumGCAge": "24h",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "resolvConf": "",
    }


def containerd(place: Place) -> str:
    """containerd's configuration, as TOML."""
    return f"""\
version = 3
root = '{place.folder}/containerd'
state = '{place.folder}/containerd-state'
disabled_plugins = ['io.containerd.nri.v1.nri']
[grpc]
  address = '{place.socket}'
[ttrpc]
  address = '{place.socket}.ttrpc'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{PAUSE_IMAGE}'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{NETWORK_PLUGINS}']
    conf_dir = '{place.folder}/network'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '{place.runc}'
      SystemdCgroup = false
"""


def network(place: Place) -> dict[str, Any]:
    """The pods of a node are on a bridge of their own. The namespace routes between the bridges."""
    addresses = {"type": "host-local", "dataDir": str(place.folder / "addresses")}
    bridge = {
        "type": "bridge",
        "bridge": f"pods{place.number}",
        "isDefaultGateway": True,
        "ipam": {**addresses, "ranges": [[{"subnet": f"10.244.{place.number}.0/24"}]]},
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
