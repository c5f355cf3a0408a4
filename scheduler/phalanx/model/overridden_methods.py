"""Which methods of a protocol a class overrides: callers skip those that do not."""

import inspect


def methods_of(protocol: type) -> tuple[str, ...]:
    """The names of the methods that classes may override."""
    public = (name for name, value in vars(protocol).items() if inspect.isfunction(value))
    return tuple(name for name in public if not name.startswith("_"))


def overrides(kind: type, method: str, protocol: type) -> bool:
    """Whether the class has a method of its own."""
    return getattr(kind, method) is not getattr(protocol, method)
