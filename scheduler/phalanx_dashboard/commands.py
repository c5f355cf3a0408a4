"""The command that this package adds to `phalanx`, for the entry-point group `phalanx.commands`."""

from typing import Final

from phalanx.cli.commands import Command

DASHBOARD: Final = Command(
    "phalanx_dashboard.command:dashboard", "Open pages about the cluster in a browser, live."
)
