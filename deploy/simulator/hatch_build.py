"""Adds the packages to the wheel. An editable installation imports them from the checkout instead."""

from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES: Final = {
    "../../scheduler/phalanx_simulator": "phalanx_simulator",
    "../../scheduler/phalanx_controlplane": "phalanx_controlplane",
    "../controlplane": "phalanx_controlplane/_data/controlplane",
    "../controllers": "phalanx_controlplane/_data/controllers",
    "../nodes": "phalanx_controlplane/_data/nodes",
}


class Packages(BuildHookInterface):
    """Hatchling calls it with the version of the build: "standard" or "editable"."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the packages unless the installation is editable: copies there would hide changes."""
        if version != "editable":
            build_data["force_include"].update(PACKAGES)
