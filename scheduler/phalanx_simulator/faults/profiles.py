"""Profiles: hourly rate of each family of faults; a seeded plan over a run.

Rates are for the whole cluster and much higher than in production, so that an hour of simulation has many
faults. `phalanx_simulator.campaigns` uses published rates.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from phalanx.clock import Random

from phalanx_simulator.embedded.store import Object
from phalanx_simulator.faults.fault import Fault
from phalanx_simulator.faults.kinds import drawn, kinds_of
from phalanx_simulator.faults.site import Site, site_of

REMOTE_FAMILIES: Final = ("F3", "F4", "F5")
_SECONDS_PER_HOUR: Final = 3600.0
_EVERYTHING: Final[Mapping[str, float]] = {
    "F3": 12,
    "F4": 12,
    "F5": 4,
    "F6": 20,
    "F7": 1,
    "F8": 15,
    "F9": 6,
    "F10": 3,
    "F11": 3,
}

PROFILES: Final[Mapping[str, Mapping[str, float]]] = {
    "none": {},
    "calm": {"F6": 1, "F8": 1},
    "network": {"F3": 30, "F4": 30},
    "leaders": {"F3": 5, "F4": 5, "F5": 20},
    "nodes": {"F6": 60},
    "correlated": {"F6": 5, "F7": 6},
    "pods": {"F8": 60},
    "objects": {"F9": 30, "F8": 5},
    "rivals": {"F8": 5, "F10": 15, "F11": 15},
    "cluster": {family: rate for family, rate in _EVERYTHING.items() if family not in REMOTE_FAMILIES},
    "all": _EVERYTHING,
    "storm": {family: rate * 5 for family, rate in _EVERYTHING.items()},
}
"""Faults an hour, by family. `cluster` is `all` without the network, the API and the leaders."""

CLAIM_FAULTS: Final[Mapping[str, float]] = {"none": 0, "calm": 1, "storm": 240}
"""Faults of F14 an hour, in runs with claims, and as many of F15 where drivers prepare devices. The other
profiles have `_CLAIM_FAULTS`."""

_CLAIM_FAULTS: Final = 48


def plan(profile: str, *, random: Random, nodes: Iterable[Object], hours: float) -> tuple[Fault, ...]:
    """The faults of a run in order of time.

    Within a family every kind is equally likely. A fault starts within the hours and may end later. Raises
    KeyError for a profile that is not in PROFILES.
    """
    site, faults = site_of(nodes), []
    for family, rate in PROFILES[profile].items():
        faults += _of_family(family, rate, random=random, site=site, hours=hours)
    return tuple(sorted(faults, key=lambda fault: fault.at_s))


def claim_faults(profile: str, *, random: Random, nodes: Iterable[Object], hours: float) -> tuple[Fault, ...]:
    """The faults of F14 of a run with claims to volumes and devices."""
    rate = CLAIM_FAULTS.get(profile, _CLAIM_FAULTS)
    return tuple(_of_family("F14", rate, random=random, site=site_of(nodes), hours=hours))


def driver_faults(
    profile: str, *, random: Random, nodes: Iterable[Object], hours: float
) -> tuple[Fault, ...]:
    """The faults of F15 of a run whose drivers prepare devices, as often as those of claims."""
    rate = CLAIM_FAULTS.get(profile, _CLAIM_FAULTS)
    return tuple(_of_family("F15", rate, random=random, site=site_of(nodes), hours=hours))


def _of_family(family: str, rate: float, *, random: Random, site: Site, hours: float) -> list[Fault]:
    kinds = kinds_of(family)
    times = arrivals(rate / _SECONDS_PER_HOUR, random=random, seconds=hours * _SECONDS_PER_HOUR)
    return [drawn(random.choice(kinds), at_s=at_s, random=random, site=site) for at_s in times]


def arrivals(per_second: float, *, random: Random, seconds: float) -> list[float]:
    """The times of a Poisson process, in milliseconds' precision."""
    times: list[float] = []
    now = random.expovariate(per_second) if per_second > 0 else seconds
    while now < seconds:
        times.append(round(now, 3))
        now += random.expovariate(per_second)
    return times
