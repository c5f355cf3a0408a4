"""Changes of API objects: messages from a reflector or a manifest file to the cache."""

from msgspec import Struct

from phalanx.model.api.meta import KubeObject


class Applied(Struct, frozen=True):
    """An object was added or modified. Its kind is the name of its struct."""

    object: KubeObject


class Deleted(Struct, frozen=True):
    kind: str
    namespace: str
    name: str
    uid: str = ""
    """Only this object is meant; with an empty UID, any object of this name."""


class Relisted(Struct, frozen=True):
    """All objects of a kind, from a list request. Objects that are not in it are gone."""

    kind: str
    objects: tuple[KubeObject, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    """(namespace, name) of objects that could not be decoded: their last known state stays."""


class NotListed(Struct, frozen=True):
    """The objects of a kind cannot be listed for this reason. Their last known state stays."""

    kind: str
    why: str


ApiEvent = Applied | Deleted | Relisted | NotListed
