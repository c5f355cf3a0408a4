"""On which nodes the leader keeps room for somebody, as its last decision says: others may wait beside it.

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
    """Nodes that are kept, for `seconds` at most. `comes_back_as_another`: nobody can tell as whom."""

    why: _Why
    nodes: tuple[str, ...]
    seconds: float
    comes_back_as_another: bool = False


class HeldNodes:
    """Tell it of every cycle; a new leader keeps what it says itself. `now`: true seconds."""

    def __init__(self, truth: Truth, now: Callable[[], float]) -> None:
        self._truth = truth
        self._now = now
        self._host = ""
        self._kept: list[_Kept] = []
        self._before: list[_Kept] = []
        self._since: dict[_Why, float] = {}

    def take(self, host: str, result: CycleResult) -> None:
        """What is kept for whom room is made, who is moved, who is promised a start, who lacks members."""
        if host != self._host:
            self._host, self._since = host, {}
        self._before, self._kept = self._kept, list(_kept_by(result.memory))
        now = self._now()
        self._since = {each.why: self._since.get(each.why, now) for each in self._kept}

    def nodes(self, *, but: GangFact, by_the_last_too: bool = False) -> frozenset[str]:
        """The nodes; not those that are kept only for this gang. `by_the_last_too`: by the cycle before."""
        own = but.key.name if but.key.kind == "pod" else but.uid
        kept = [*self._kept, *(self._before if by_the_last_too else ())]
        return frozenset(
            name for each in kept if each.why[1] != own and self._may_be(each) for name in each.nodes
        )

    def _may_be(self, kept: _Kept) -> bool:
        since = self._since.get(kept.why, self._now())
        return self._now() - since <= kept.seconds and (kept.comes_back_as_another or self._is(kept.why[1]))

    def _is(self, gang: GangId) -> bool:
        """Whether the beneficiary is there, or was until a moment ago. Of gangs by label nobody asks."""
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
