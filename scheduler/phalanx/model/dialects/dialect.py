"""The interface of a dialect: what differs between the PodGroups of several API groups."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from phalanx.model.api.core import Pod
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.gangs import Gang
from phalanx.model.names import LABEL_ROLE, LABEL_SUBGROUP
from phalanx.model.reasons import Objection, Reason


class ReportedGang(Struct, frozen=True):
    """What the status of a PodGroup may say about its gang."""

    gang: Gang
    reason: str
    """The reason of its verdict; empty without a verdict."""

    message: str
    """The verdict as one text, no longer than a condition may be."""

    now: str
    """As the API writes times."""


class StatusWrite(Struct, frozen=True):
    """Fields of a status that are set. All others stay as they are."""

    fields: Mapping[str, Any]
    is_final: bool = False
    """The object never has other values again. Any other write is refused if the object has changed since."""


class StatusRules(Struct, frozen=True):
    """How the scheduler writes the status of the PodGroups of a dialect."""

    wanted: Callable[[ReportedGang, Any], StatusWrite | None]
    """What to write on a PodGroup of the dialect as last seen; None while its status is as it should be."""

    subresource: str = "status"
    """Empty if the API has no subresource for it."""

    is_built_in: bool = False
    """A kind of Kubernetes itself: conditions are merged by type. In custom resources lists are replaced."""


def unsupported_field(path: str, noun: str = "PodGroup") -> Objection:
    """The error of a field of a PodGroup that has no counterpart."""
    return Objection(
        Reason.UNSUPPORTED_FIELD,
        f"{noun} field {path} is not supported yet",
        f"Create the {noun} without {path}",
    )


def refused_annotations(written: Mapping[str, str], keys: Iterable[str]) -> Iterator[str]:
    """The paths of the annotations with these keys that are set."""
    for key in keys:
        if written.get(key):
            yield f"metadata.annotations[{key}]"


def label(key: str) -> Callable[[Pod], str]:
    """The value of a label of a pod; empty without it."""
    return lambda pod: pod.metadata.labels.get(key, "")


def annotation(key: str) -> Callable[[Pod], str]:
    """The value of an annotation of a pod; empty without it."""
    return lambda pod: pod.metadata.annotations.get(key, "")


class Dialect(Struct, frozen=True):
    """How a pod names its PodGroup, and how that PodGroup is read."""

    name: str
    """The API group of its PodGroup, by which users see it as well."""

    kind: str
    """The name of its kind in `model.api.kinds`; empty if pods define their gang and no object does."""

    field: str
    """The field or label of a pod that names a PodGroup, as users see it."""

    minimum_field: str
    """The field of its PodGroup for the minimum number of pods, as verdicts name it."""

    topology_field: str
    """The field of its PodGroup for levels of a topology, as verdicts name it; empty for none."""

    group_of: Callable[[Pod], str]
    """The name of the PodGroup that a pod names; empty for none."""

    read: Callable[[Any], PodGroup]
    """Convert one PodGroup. A field without a counterpart becomes a problem that names it.

    Without a kind, it converts the first pod that defines the gang, a `model.pods.Pod`.
    """

    group_annotations: tuple[str, ...] = ()
    """Annotations without which a pod names no PodGroup; empty if other fields name it."""

    role_field: str = f"label {LABEL_ROLE}"
    """The field or label of a pod that names a role, as users see it."""

    role_of: Callable[[Pod], str] | None = None
    """The role that a pod names; None if it is the label of Phalanx."""

    subgroup_field: str = f"label {LABEL_SUBGROUP}"
    """The field or label of a pod that names a subgroup, as users see it."""

    subgroup_of: Callable[[Pod], str] | None = None
    """The subgroup that a pod names; None if it is the label of Phalanx."""

    marks_of: Callable[[Pod], Mapping[str, str]] | None = None
    """Annotations or labels of a pod that count only if its PodGroup has them too."""

    unsupported: Callable[[Pod], Iterable[str]] | None = None
    """Paths of fields of a pod that belong to the dialect and have no counterpart; None for no such field."""

    status: StatusRules | None = None
    """None: the scheduler writes no status, or as `service.pod_group_status` states for its own PodGroups."""

    noun: str = "PodGroup"
    """What users call the gang."""

    not_found: Callable[[str, str], Objection] | None = None
    """Why pods wait whose gang, of this namespace and name, nothing defines; None for a missing object."""
