"""The versions on which results depend."""

from importlib.metadata import version


def versions() -> str:
    """What decides: programs with equal versions give equal results."""
    return f"phalanx {version('phalanx-scheduler')}, ortools {version('ortools')}"
