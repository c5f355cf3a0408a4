"""The gangs of workloads and their pods, as the cache builds them."""

from typing import Any

from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Relisted
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory
from phalanx.model.workloads.known import WORKLOADS
from phalanx_simulator.invariants.cache_tables import check_cache


def gangs_of(*objects: Any) -> list[Gang]:
    """The gangs of these objects, when all kinds of workloads are listed."""
    cache = Cache(scheduler_name="phalanx")
    cache.apply_all(Relisted(kind, ()) for kind in WORKLOADS)
    cache.apply_all(Applied(item) for item in objects)
    check_cache(cache)
    return list(cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values())


def gang_of(*objects: Any) -> Gang:
    """The only gang of these objects."""
    (gang,) = gangs_of(*objects)
    return gang


def minimums(gang: Gang) -> dict[str, int]:
    """The minimum of each role. That of the gang is their sum."""
    assert gang.min_member == max(sum(role.min_member for role in gang.roles), 1)
    return {role.name: role.min_member for role in gang.roles}
