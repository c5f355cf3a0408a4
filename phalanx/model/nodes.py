"""A node as the scheduler sees it, and what is used and free on it."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from phalanx.model.names import NodeName
from phalanx.model.reasons import Problem
from phalanx.model.resources import NONE, Resources


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


class Node(Struct, frozen=True, gc=False):
    """The static side of a node; replaced as a whole when the API object changes in a way that matters.

    An amount that cannot be read counts as nothing and is named in `problems`.
    """

    name: NodeName
    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Resources = NONE
    problems: tuple[Problem, ...] = ()


class NodeState(Struct, frozen=True, gc=False):
    """A node with what its pods use: bound, running and assumed ones, ours and foreign alike."""

    node: Node
    used: Resources = NONE
    free: Resources = NONE
