"""A plugin that fails or takes long when a test asks for it, by files in the folder $FAULTS."""

import os
import time
from pathlib import Path
from typing import Final

from phalanx.framework.plugin import GangOrder, Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang

SLOW_S: Final = 11.0
"""A little more than the alert on slow cycles allows."""


class Faulty(Plugin):
    """It has no policy of its own: all gangs are equal."""

    name = "faulty"

    def __init__(self) -> None:
        folder = Path(os.environ["FAULTS"])
        self._fails = (folder / "error").exists()
        self._is_slow = (folder / "slow").exists()

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        """See Plugin."""
        if self._is_slow:
            self._is_slow = (
                False  # once in a cycle. Not in the constructor, which a reload calls in the event loop
            )
            time.sleep(SLOW_S)
        if self._fails:
            raise RuntimeError("a fault that the test asked for")
        return GangOrder()
