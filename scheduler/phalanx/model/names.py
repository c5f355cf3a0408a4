"""Identifiers as distinct types, and the label and annotation keys of the API."""

from typing import NewType

NodeName = NewType("NodeName", str)
PodUid = NewType("PodUid", str)
QueueName = NewType("QueueName", str)
GangId = NewType("GangId", str)
"""PodGroup: its UID. Workload: "kind:namespace/UID". Label gang: "namespace/controller-UID". Pod without a
group: the pod's UID.
Pods of a PodGroup that does not exist: "missing:namespace/name", with the API group before the namespace if
it is not that of Phalanx."""

ShapeKey = NewType("ShapeKey", str)
"""Digest of the fields of a pod that matter for its placement. Equal keys: interchangeable pods."""

API_GROUP = "scheduling.phalanx.dev"
API_VERSION = "scheduling.phalanx.dev/v1alpha1"

DEFAULT_SCHEDULER_NAME = "phalanx"
DEFAULT_QUEUE = QueueName("default")
NO_QUEUE = QueueName("")
"""Charged for running pods that no queue accepts. No object has this name."""

LABEL_POD_GROUP = f"{API_GROUP}/pod-group"
LABEL_SUBGROUP = f"{API_GROUP}/subgroup"
LABEL_ROLE = f"{API_GROUP}/role"
LABEL_MIN_MEMBER = f"{API_GROUP}/min-member"
LABEL_QUEUE = f"{API_GROUP}/queue"
LABEL_GANG = f"{API_GROUP}/gang"
"""Opts pods of workloads in which are no gangs otherwise."""
KUEUE_GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
KUEUE_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Of workloads that Kueue suspends and resumes."""
KUEUE_COUNT_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"
"""Of pods that no controller makes: the group that Kueue admits together, and how many pods it has."""
KAI_QUEUE_LABEL = "kai.scheduler/queue"
"""Counts for pods without the label of Phalanx. Users of KAI write it on pods that have no PodGroup yet."""

YUNIKORN_ALLOW_PREEMPTION = "yunikorn.apache.org/allow-preemption"
"""An annotation of pods and of PriorityClasses."""

ANNOTATION_GPU_SHARE = f"{API_GROUP}/gpu-share"
ANNOTATION_GPU_MEMORY = f"{API_GROUP}/gpu-memory"
ANNOTATION_GPU_INDEX = f"{API_GROUP}/gpu-index"
ANNOTATION_GPU_TAKEN = f"{API_GROUP}/gpu-taken"
"""Users set the first two, which are also names of requested resources; the scheduler writes the others."""

ANNOTATION_MIN_PARALLELISM = f"{API_GROUP}/min-parallelism"
"""Users set it on a Job that may be started with fewer pods than its parallelism."""
ANNOTATION_FULL_PARALLELISM = f"{API_GROUP}/full-parallelism"
"""Written when the parallelism of such a Job is lowered: what it was before."""

ANNOTATION_SUSPENSION = f"{API_GROUP}/suspended-by-eviction"
"""Written when a workload is suspended to evict its pods: which suspension it is."""

ANNOTATION_LAST_CHECKPOINT = f"{API_GROUP}/last-checkpoint"

ANNOTATION_CHARGED_QUEUE = f"{API_GROUP}/charged-queue"
"""Written with the bind: the queue that the gang of the pod is charged to while it runs."""

NODE_GPU_SHARING = f"{API_GROUP}/gpu-sharing"
NODE_GPU_COUNT = "nvidia.com/gpu.count"
NODE_GPU_MEMORY = "nvidia.com/gpu.memory"

HYPER_NODES = "hypernodes.topology.volcano.sh"
"""The Topology that HyperNodes of Volcano imply."""


def tier_label(tier: int) -> str:
    """The label of nodes, and the level of the topology, for a tier of HyperNodes."""
    return f"topology.volcano.sh/tier-{tier}"


def tier_name_label(name: str) -> str:
    """The level of the topology for the tier of this name."""
    return f"topology.volcano.sh/tier-name-{name}"


def kai_topology(name: str) -> str:
    """The Topology for an object of KAI. No object of Phalanx has this name, since it has a slash."""
    return f"kai.scheduler/{name}"


HOSTNAME_KEY = "kubernetes.io/hostname"
"""The label of nodes and the topology key of Kubernetes for single nodes."""

KUBERNETES_SCHEDULER = "default-scheduler"
"""The scheduler of pods that name none."""
