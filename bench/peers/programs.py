"""The programs of other schedulers, each built from the Go module in its folder."""

from pathlib import Path
from typing import Final

from phalanx_controlplane.programs import Program

FOLDER: Final = Path(__file__).parent


def peer(name: str, *, source: str, package: str, files: tuple[str, ...]) -> Program:
    """The program of another scheduler; `name` is its folder."""
    return Program(
        name=name, module=FOLDER / name, cache=f"peers/{name}", source=source, package=package, files=files
    )
