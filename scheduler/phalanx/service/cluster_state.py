"""What the scheduler knows, in one place: every event comes through here, in one order, for every cache."""

import asyncio

from phalanx.cache.cache import Cache
from phalanx.cache.events import Event
from phalanx.deciders.port import Decider
from phalanx.model.names import GangId
from phalanx.service.cycle_reason import CycleTrigger
from phalanx.service.node_problems import NodeProblems
from phalanx.service.own_objects import PhalanxObjects


class ClusterState:
    """The cache with its listeners.

    `reason` says whether a cycle is worth running, `news` is set while anything is worth reporting.
    """

    def __init__(self, *, cache: Cache, decider: Decider) -> None:
        self.cache = cache
        self.objects = PhalanxObjects()
        self.reason = CycleTrigger()
        self.news = asyncio.Event()
        self._decider = decider
        self._node_problems = NodeProblems(cache)
        self._touched: dict[GangId, None] = {}
        self._reporting = False

    def take(self, event: Event) -> None:
        """Apply one event, from the API or of our own making."""
        self.objects.take(event)
        changes = self.cache.apply(event)
        self._node_problems.heard(event, changes)
        self._decider.feed((event,))
        for gang in changes.gangs:
            self.touch(gang)
        if changes.may_unblock:
            self.reason.set()
        elif changes.has_new_verdicts:
            self.reason.hint()

    def start_reporting(self) -> None:
        """From now on somebody takes what was touched; to begin with, every gang is."""
        self._reporting = True
        for gang in self.cache.gang_ids():
            self.touch(gang)

    def touch(self, gang: GangId) -> None:
        """Something about this gang is worth reporting. Without anybody who reports nothing piles up."""
        if self._reporting:
            self._touched[gang] = None
            self.news.set()

    def take_touched(self) -> tuple[GangId, ...]:
        """The gangs that changed since the last call, each once, in the order of their first change."""
        touched, self._touched = tuple(self._touched), {}
        self.news.clear()
        return touched
