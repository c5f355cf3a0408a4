"""The interface of a dialect: what differs between the PodGroups of several API groups."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from phalanx.model.api.core import Pod
from phalanx.model.conversion.pod_groups import PodGroup


class Dialect(Struct, frozen=True):
    """How a pod names its PodGroup, and how that PodGroup is read."""

    name: str
    """The API group of its PodGroup, by which users see it as well."""

    kind: str
    """The name of its kind in `model.api.kinds`."""

    field: str
    """The field or label of a pod that names a PodGroup, as users see it."""

    minimum_field: str
    """The field of its PodGroup for the minimum number of pods, as verdicts name it."""

    topology_field: str
    """The field of its PodGroup for levels of a topology, as verdicts name it."""

    group_of: Callable[[Pod], str]
    """The name of the PodGroup that a pod names; empty for none."""

    read: Callable[[Any], PodGroup]
    """Convert one PodGroup. A field without a counterpart becomes a problem that names it."""
