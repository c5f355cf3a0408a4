"""Workflow files as a case: how many of their tasks pass."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from bench.published.knavigator.files import read
from bench.published.knavigator.player import Player, TaskFailed
from bench.published.site import Played, Site

_ENDED_WITHIN_S: Final = 3600.0


async def go_on() -> None:
    """A Pause waits for nobody."""


class Workflows(Struct, frozen=True):
    """Files that are played one after the other. `folder`: where their templates are.

    `until_ended`: afterwards all their pods must end with success, each after its run time.
    """

    folder: Path
    files: tuple[str, ...]
    until_ended: bool = False
    pause: Callable[[], Awaitable[None]] = go_on

    async def __call__(self, site: Site) -> Played:
        """Play them until a task fails."""
        workflows = [read(self.folder / name) for name in self.files]
        player = Player(site, folder=self.folder, pause=self.pause)
        tasks = sum(len(workflow.tasks) for workflow in workflows)
        began = site.now()
        wrong: tuple[str, ...] = ()
        try:
            for workflow in workflows:
                await player.play(workflow)
            if self.until_ended:
                await player.all_ended(within_s=_ENDED_WITHIN_S)
        except TaskFailed as failed:
            wrong = (str(failed),)
        figures: dict[str, float | int | str] = {
            "tasks that passed": f"{player.passed} of {tasks}",
            "seconds": round(site.now() - began, 1),
        }
        return Played(figures=figures, wrong=wrong)
