"""Metadata of all Kubernetes objects, and the envelopes of lists, watch events and errors."""

from collections.abc import Mapping
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct, field

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""Kubernetes' int32. A larger number makes an object unreadable, as it does for every client in Go."""

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Kubernetes' int64. Larger numbers could neither be sent nor recorded."""

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time in RFC 3339 as the API server sends it. `model.api.values` reads it."""

WrittenQuantity = Int64 | str
"""An amount as users write it: 8, "8", "500m" or "64Gi"."""


class ApiStruct(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of all API structs: camelCase names, defaults are left out."""


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
    api_version: str = ""


class ObjectMeta(ApiStruct, frozen=True):
    """The metadata that the scheduler reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    labels: Mapping[str, str] = {}
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    annotations: Mapping[str, str] = {}
    """All annotations. The model keeps those that Phalanx or an enabled plugin reads."""


class KubeObject(ApiStruct, frozen=True):
    """An object of the API. Its struct is that of a `Kind`, by which it is listed and watched."""

    metadata: ObjectMeta


class ListMeta(ApiStruct, frozen=True):
    """`continue_token` is set if more pages follow."""

    resource_version: str = ""
    continue_token: str = field(name="continue", default="")


T = TypeVar("T")


class ObjectList(ApiStruct, Generic[T], frozen=True):
    """Response to a list request. Go sometimes encodes an empty list as null."""

    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] | None = None


class WatchEvent(ApiStruct, Generic[T], frozen=True):
    """One line of a watch. `type` is ADDED, MODIFIED or DELETED; `object` is of the watched kind."""

    type: str
    object: T


class WatchEventType(ApiStruct, frozen=True):
    """The type of a watch line, whatever its object looks like."""

    type: str


class BookmarkMeta(ApiStruct, frozen=True):
    """Metadata of a bookmark. The annotation `k8s.io/initial-events-end` ends the initial list of a
    WatchList."""

    resource_version: str = ""
    annotations: Mapping[str, str] = {}


class BookmarkObject(ApiStruct, frozen=True):
    """The object of a BOOKMARK event: of the watched kind, with only a resource version."""

    metadata: BookmarkMeta


class StatusDetails(ApiStruct, frozen=True):
    """Object of an error. `retry_after_seconds` is set on 429 and some 5xx responses."""

    retry_after_seconds: Int32 = 0


class Status(ApiStruct, frozen=True):
    """Result of a request: body of an error response, object of an ERROR watch event."""

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
    """Selects objects for which all of `match_labels` and `match_expressions` hold. An empty one selects
    all."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
