"""What every Kubernetes object carries, and the envelopes in which objects arrive."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct, field

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""Kubernetes' int32. A larger number makes an object unreadable, as it does for every client in Go."""

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Kubernetes' int64: what is larger could not be sent on or recorded."""


WrittenQuantity = Int64 | str
"""An amount as users write it: 8, "8", "500m" or "64Gi"."""


class ApiStruct(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What the structs of `meta.py` and `core.py` share: camelCase names, defaults left out, no cycles."""


class Condition(ApiStruct, frozen=True):
    """One condition, as in every Kubernetes API. `status` is "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str
    observed_generation: Int64 | None = None


class OwnerReference(ApiStruct, frozen=True):
    """One owner; at most one of an object's owners is its controller."""

    kind: str
    name: str
    uid: str
    controller: bool | None = None


class ObjectMeta(ApiStruct, frozen=True):
    """The metadata that the scheduler looks at."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    labels: Mapping[str, str] = {}
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: Int64 | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    annotations: Mapping[str, str] = {}
    """All of them; the model keeps those that Phalanx or an enabled plugin reads."""


class ListMeta(ApiStruct, frozen=True):
    """`continue_token` is set while pages are missing."""

    resource_version: str = ""
    continue_token: str = field(name="continue", default="")


T = TypeVar("T")


class ObjectList(ApiStruct, Generic[T], frozen=True):
    """An answer to a list request. Go encodes an empty list as null at times."""

    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] | None = None


class WatchEvent(ApiStruct, Generic[T], frozen=True):
    """One line of a watch. `type` is ADDED, MODIFIED or DELETED; `object` is the kind that is watched."""

    type: str
    object: T


class WatchEventType(ApiStruct, frozen=True):
    """The envelope alone: which of the five types a line is, whatever its object looks like."""

    type: str


class BookmarkMeta(ApiStruct, frozen=True):
    """A bookmark's metadata; annotation `k8s.io/initial-events-end` ends the initial list of a WatchList."""

    resource_version: str = ""
    annotations: Mapping[str, str] = {}


class BookmarkObject(ApiStruct, frozen=True):
    """The object of a BOOKMARK event: of the kind that is watched, with nothing but a resource version."""

    metadata: BookmarkMeta


class StatusCause(ApiStruct, frozen=True):
    """One detail of a refusal: which field, and why."""

    reason: str = ""
    message: str = ""
    field_path: str = field(name="field", default="")


class StatusDetails(ApiStruct, frozen=True):
    """What a refusal is about. `retry_after_seconds` is set on 429 and some 5xx."""

    name: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: Int32 = 0


class Status(ApiStruct, frozen=True):
    """The API server's own word on a request: body of an error, object of an ERROR event."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: Int32 = 0
    details: StatusDetails | None = None


class LabelSelectorRequirement(ApiStruct, frozen=True):
    """One expression of a label selector: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(ApiStruct, frozen=True):
    """All of `match_labels` and `match_expressions` hold. An empty one selects everything."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
