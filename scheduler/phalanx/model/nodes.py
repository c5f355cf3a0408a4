"""A node as the scheduler sees it, and what is used and free on it."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct, structs

from phalanx.model.names import NodeName
from phalanx.model.reasons import Objection
from phalanx.model.resources import NONE, Resources

READY: Final = "Ready"
"""The condition in which the node's kubelet, or the lack of it, shows."""

TOPOLOGY_UNKNOWN: Final = "NodeNotInNWTopologyCM"
"""The condition that is True while the node's place in the network is not known."""


STATE_TAINTS: Final = "node.kubernetes.io/"
"""How the keys of taints begin by which Kubernetes says what is wrong with a node, a cordon included."""


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(Struct, frozen=True, gc=False):
    """One taint of a node."""

    key: str
    effect: str
    value: str = ""


Amounts = tuple[tuple[str, int], ...]
"""Resources and how much of each, sorted by name: Resources that can be compared and kept by value."""


class ZoneLayout(Struct, frozen=True, gc=False):
    """What the NUMA zones of a node offer pods, and what its kubelet insists to find in one of them.

    `bound` has each resource that some zone lists, and how much of it must lie in one zone: a larger amount
    may span several. `by_container`: each container needs a zone, else the pod as a whole.
    """

    zones: tuple[Amounts, ...]
    bound: Amounts
    by_container: bool


class Numa(Struct, frozen=True, gc=False):
    """The NUMA zones of a node whose kubelet rejects pods that do not fit them.

    `available`: what of each zone the node last published as not in use, at most what it offers. `published`:
    what it published as used, in all zones together.
    """

    layout: ZoneLayout
    available: tuple[Amounts, ...]
    published: Amounts


class Node(Struct, frozen=True, dict=True):
    """The static side of a node; replaced as a whole when the API object changes in a way that matters.

    An amount that cannot be read counts as nothing and is named in `problems`. `conditions` has the status of
    each condition by its type, and nothing that a heartbeat changes. `turned` has since when (seconds since
    the epoch), but for those that have their status since the node joined. `numa` is there where its kubelet
    rejects pods that do not fit its NUMA zones.
    """

    name: NodeName
    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Resources = NONE
    problems: tuple[Objection, ...] = ()
    conditions: Mapping[str, str] = {}
    numa: Numa | None = None
    turned: Mapping[str, int] = {}
    annotations: Mapping[str, str] = {}
    """Those that an enabled plugin reads."""

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet is heard and says that all is well; a node that says nothing of it is ready."""
        return self.conditions.get(READY, "True") == "True"

    @cached_property
    def may_lose_pods(self) -> bool:
        """Whether some pod may be lost there: it is not ready, or has a taint that may evict pods."""
        return not self.is_ready or any(taint.effect == TaintEffect.NO_EXECUTE for taint in self.taints)

    @property
    def as_available(self) -> "Node":
        """The same node as if nobody had cordoned it and nothing were wrong with it."""
        taints = tuple(taint for taint in self.taints if not taint.key.startswith(STATE_TAINTS))
        return structs.replace(self, unschedulable=False, conditions={}, turned={}, taints=taints)

    @property
    def has_unknown_topology(self) -> bool:
        """Whether the network's own records do not have it: its labels do not tell where it is then."""
        return self.conditions.get(TOPOLOGY_UNKNOWN) == "True"


class NodeState(Struct, frozen=True, gc=False):
    """A node with what its pods use: bound, running and assumed ones, ours and foreign alike."""

    node: Node
    used: Resources = NONE
    free: Resources = NONE
