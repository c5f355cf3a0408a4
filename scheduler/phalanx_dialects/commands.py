"""The command that this package adds to `phalanx`, for the entry-point group `phalanx.commands`."""

from typing import Final

from phalanx.cli.commands import Command

CONVERT: Final = Command(
    "phalanx_dialects.convert:convert", "Write PodGroups of other projects as those of Phalanx."
)
