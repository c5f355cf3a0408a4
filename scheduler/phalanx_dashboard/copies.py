"""Parts of pages that have fields of what a command shows."""

from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Struct)


def copied(made: type[T], source: Struct, **more: Any) -> T:
    """A struct with the fields of the same names of the source, and with these."""
    fields = {name: getattr(source, name) for name in made.__struct_fields__ if hasattr(source, name)}
    return made(**fields | more)
