"""The identifiers that travel between rooms, as distinct types, and the label keys that users write."""

from typing import NewType

NodeName = NewType("NodeName", str)
PodUid = NewType("PodUid", str)
QueueName = NewType("QueueName", str)
GangId = NewType("GangId", str)
"""PodGroup: its UID. Label gang: "namespace/controller-UID". Pod without a group: the pod's UID.
Pods of a PodGroup that does not exist: "missing:namespace/name"."""

ShapeKey = NewType("ShapeKey", str)
"""Digest of everything that makes two pods interchangeable to the scheduler."""

API_GROUP = "scheduling.phalanx.dev"
API_VERSION = "scheduling.phalanx.dev/v1alpha1"

DEFAULT_SCHEDULER_NAME = "phalanx"
DEFAULT_QUEUE = QueueName("default")

LABEL_POD_GROUP = f"{API_GROUP}/pod-group"
LABEL_SUBGROUP = f"{API_GROUP}/subgroup"
LABEL_ROLE = f"{API_GROUP}/role"
LABEL_MIN_MEMBER = f"{API_GROUP}/min-member"
LABEL_QUEUE = f"{API_GROUP}/queue"
