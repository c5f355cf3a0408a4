"""Nodes with capacity held by the leader's last decision; other gangs may have to wait.

What it says is believed only as long as it may be so: each sort of keeping has its time, and a beneficiary
that does not exist needs no room.
"""

from collections.abc import Callable, Iterator
from math import inf

from msgspec import Struct
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.names import GangId

from phalanx_simulator.invariants.bounds import CLAIM_S, CONVERGED_S, NOMINATION_S
from phalanx_simulator.invariants.facts import GangKey
from phalanx_simulator.invariants.truth import GangFact, Truth

_Why = tuple[str, GangId, object]
"""The sort, the beneficiary, and what tells one keeping from the next of the same sort for the same gang."""


class _Kept(Struct, frozen=True):
    """Nodes with held capacity, for `seconds` at most."""

    why: _Why
    nodes: tuple[str, ...]
    seconds: float
    comes_back_as_another: bool = False


class HeldNodes:
    """Nodes whose capacity is held; call `take` after each cycle."""

    def __init__(self, truth: Truth, now: Callable[[], float]) -> None:
        self._truth = truth
        self._now = now
        self._host = ""
        self._kept: list[_Kept] = []
        self._before: list[_Kept] = []
        self._since: dict[_Why, float] = {}

    def take(self, host: str, result: CycleResult) -> None:
        """Record the holds of a cycle: nominations, moves, reservations, lost members."""
        if host != self._host:
            self._host, self._since = host, {}
        self._before, self._kept = self._kept, list(_kept_by(result.memory))
        now = self._now()
        self._since = {each.why: self._since.get(each.why, now) for each in self._kept}

    def nodes(self, *, but: GangFact, by_the_last_too: bool = False) -> frozenset[str]:
        """The held nodes, except those held only for this gang."""
        own = but.key.name if but.key.kind == "pod" else but.uid
        kept = [*self._kept, *(self._before if by_the_last_too else ())]
        return frozenset(
            name for each in kept if each.why[1] != own and self._may_be(each) for name in each.nodes
        )

    def _may_be(self, kept: _Kept) -> bool:
        since = self._since.get(kept.why, self._now())
        return self._now() - since <= kept.seconds and (kept.comes_back_as_another or self._is(kept.why[1]))

    def _is(self, gang: GangId) -> bool:
        """Whether the beneficiary exists, or did until a moment ago.

        Gangs by label are assumed to exist.
        """
        then = self._truth.revision_before(CONVERGED_S)
        group = self._truth.group_with(gang)
        if group is not None:
            versions = self._truth.groups_since(GangKey("group", group.namespace, group.name), then)
            return any(version is not None and version.uid == gang for version in versions)
        return "/" in gang or any(pod is not None for pod in self._truth.pod_since(gang, then))


def _kept_by(memory: Memory) -> Iterator[_Kept]:
    for gang, made in memory.nominations.items():
        yield _Kept(("nomination", gang, made.victims), tuple(made.seats), NOMINATION_S)
    for gang, move in memory.moves.items():
        yield _Kept(("move", gang, move.pods), tuple(move.seats), NOMINATION_S, bool(move.controller))
    for gang, promise in memory.reserved_starts.items():
        yield _Kept(("promise", gang, None), tuple(promise.seats), inf)
    for gang, seated in memory.seated.items():
        yield _Kept(("claim", gang, seated.since), tuple(seated.room), CLAIM_S)
