"""`phalanx version`."""

import platform
from importlib.metadata import version as version_of


def version() -> None:
    """Print the versions of Phalanx and of what it decides with: the same ones decide the same."""
    print(f"phalanx {version_of('phalanx-scheduler')}")
    print(f"ortools {version_of('ortools')}")
    print(f"python  {platform.python_version()}")
