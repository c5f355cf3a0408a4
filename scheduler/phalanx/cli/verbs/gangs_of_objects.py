"""Gangs and nodes as the scheduler sees them, with the owners of pods that have to be read for it.

Its imports take a tenth of a second, so that commands without gangs do without.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from phalanx.cache.cache import Cache
from phalanx.cli.verbs.listed import Listed
from phalanx.model.api.kinds import KINDS
from phalanx.model.dialects.known import WITH_OBJECTS
from phalanx.model.events import NotListed, Relisted
from phalanx.model.memory import Memory
from phalanx.model.names import API_GROUP
from phalanx.model.snapshot import Snapshot

_OWNER_ROUNDS_MAX: Final = 4
"""Times that the owners of what was read last are read: pods, Jobs, JobSets, TrainJobs."""


_MISSING: Final = "missing:"


def snapshot_of(
    found: dict[str, Listed],
    read_more: Callable[[Iterable[str]], dict[str, Listed]],
    *,
    scheduler_name: str,
    now_ms: int,
) -> Snapshot:
    """The snapshot of what was found. The kinds that `read_more` reads are added to `found`."""
    cache = Cache(scheduler_name=scheduler_name)
    _feed(cache, found.values())
    for _ in range(_OWNER_ROUNDS_MAX):
        needed = [kind for kind in _needed(cache) if kind not in found]
        if not needed:
            break
        more = read_more(needed)
        _feed(cache, more.values())
        found |= more
    return cache.snapshot(now=now_ms, seed=0, memory=Memory())


def _needed(cache: Cache) -> list[str]:
    """Kinds above the pods that were read: owners, and PodGroups of other projects that pods name."""
    dialects = {
        gang.dialect
        for gang in cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values()
        if gang.id.startswith(_MISSING) and gang.dialect != API_GROUP
    }
    groups = [dialect.kind for dialect in WITH_OBJECTS if dialect.name in dialects]
    return [kind for kind in (*cache.workload_kinds(), *groups) if kind in KINDS]


def _feed(cache: Cache, found: Iterable[Listed]) -> None:
    events: list[Any] = []
    for each in found:
        if each.why_not and not each.is_partial:
            events.append(NotListed(each.kind, each.why_not))
        else:
            events.append(Relisted(each.kind, each.objects))
    cache.apply_all(events)
