"""Names that the scheduler puts into texts, marked with what they name, so that they can be hidden.

A text that names a node, a gang or a pod is built with these functions. Everything else in it is plain: a
name that a tenant wrote into a field stays the tenant's own word. `plain` gives the text as administrators
see it, `shown` the text for somebody who may not see all names. `docs/tenants.md` has the rule for users.

Nothing that an API server sends has the mark: `unmarked` and `unmarked_json` replace it where objects and
messages are decoded. So no tenant can write a marked name, or break one.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct

_MARK: Final = "\x01"
"""Before and after each field of a name. It is one that the encoders of JSON always escape."""

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_ESCAPE: Final = b"\\"
_ESCAPED: Final = rb"\u0001"
_ESCAPED_REPLACEMENT: Final = rb"\ufffd"
_PERIOD: Final = 5
"""A text between two names and the four fields of a name."""

_SEPARATORS: Final = (", ", " and ")


class Named(StrEnum):
    NODE = "node"
    """A node."""
    WORKLOAD = "workload"
    """A namespace and the name of an object in it: a gang, a pod, a controller, a PodDisruptionBudget."""
    DOMAIN = "domain"
    """A part of the path of a domain or a device, which may be the name of a node."""


class Name(Struct, frozen=True):
    """A name in a text."""

    kind: Named
    name: str
    text: str
    """What the text says."""
    instead: str
    """What it says to those who may not see the name."""

    def __str__(self) -> str:
        return f"{_MARK}{self.kind}{_MARK}{self.name}{_MARK}{self.text}{_MARK}{self.instead}{_MARK}"

    def instead_of(self, count: int) -> str:
        """What it says instead of so many names in a row."""
        if count == 1:
            return self.instead
        return f"{count} other nodes" if self.kind is Named.NODE else f"{self.instead} and others"


# --- names --------------------------------------------------------------------------------------------------


def node(name: str, *, titled: bool = False) -> str:
    """A node, with the word "node" before its name or without."""
    return str(Name(Named.NODE, name, f"node {name}" if titled else name, "another node"))


def like_node(text: str, name: str, *, instead: str) -> str:
    """A phrase that describes something by a node, and the phrase that describes it without."""
    return str(Name(Named.NODE, name, text, instead))


def workload(name: object) -> str:
    """A gang, a pod or another object that is named by its namespace and name."""
    return str(Name(Named.WORKLOAD, str(name), str(name), "another tenant's workload"))


def titled(title: str) -> str:
    """Such as "gang team/x", with the kind before the name."""
    kind, _, name = title.partition(" ")
    return str(Name(Named.WORKLOAD, name, title, f"another tenant's {kind}"))


def domain(path: str) -> str:
    """A domain of a topology, or a device, by its path. Only parts that are nodes are hidden."""
    return "/".join(str(Name(Named.DOMAIN, part, part, "…")) for part in path.split("/"))


def belonging(name: str, to: str) -> str:
    """The name of an object that belongs to a domain or a pool of devices, hidden if that is a node."""
    return str(Name(Named.DOMAIN, to, name, "…"))


# --- texts --------------------------------------------------------------------------------------------------


def has_names(text: str) -> bool:
    """Whether names are marked in the text."""
    return _MARK in text


def plain(text: str) -> str:
    """The text with all names, as administrators see it."""
    if _MARK not in text:
        return text
    pieces = text.split(_MARK)
    if len(pieces) % _PERIOD != 1:
        return text
    return "".join(piece for index, piece in enumerate(pieces) if index % _PERIOD in (0, 3))


def shown(text: str, may_see: Callable[[Name], bool]) -> str:
    """The text without names that somebody may not see. Hidden names in a row become one phrase."""
    if _MARK not in text:
        return text
    pieces = text.split(_MARK)
    fields = (pieces[start::_PERIOD] for start in range(1, _PERIOD))
    names = [Name(Named(kind), *others) for kind, *others in zip(*fields, strict=True)]
    hidden = ["" if may_see(name) else name.instead for name in names]
    found, in_row = [pieces[0]], 0
    for name, instead, following, after in zip(
        names, hidden, [*hidden[1:], ""], pieces[_PERIOD::_PERIOD], strict=True
    ):
        in_row += 1
        if instead and instead == following and after in _SEPARATORS:
            continue
        found += [name.instead_of(in_row) if instead else name.text, after]
        in_row = 0
    return "".join(found)


# --- texts of others ----------------------------------------------------------------------------------------


def unmarked(text: str) -> str:
    """A text that the API server sent, without marks."""
    return text.replace(_MARK, _REPLACEMENT)


def unmarked_json(body: bytes) -> bytes:
    """JSON that the API server sent, without marks, and without those in JSON inside its strings."""
    if body.find(_ESCAPE) < 0:  # most objects have no escape, and one byte is found eight times as fast
        return body
    return body.replace(_ESCAPED, _ESCAPED_REPLACEMENT)
