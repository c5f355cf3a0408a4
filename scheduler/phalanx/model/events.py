"""What the API tells about objects of any kind: the messages from a reflector (or a file) to the cache."""

from msgspec import Struct

from phalanx.model.api.kinds import KubeObject


class Applied(Struct, frozen=True):
    """An object was added or modified. Its kind is its struct's name."""

    object: KubeObject


class Deleted(Struct, frozen=True):
    """An object is gone. With an empty `uid` whatever has this name, otherwise only that very object."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


class Relisted(Struct, frozen=True):
    """All objects of a kind, as one list from the API: what is not among them is gone.

    `unreadable` names, as (namespace, name), objects that exist but could not be decoded: what was known of
    them stays as it is.
    """

    kind: str
    objects: tuple[KubeObject, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
