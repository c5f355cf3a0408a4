"""Which gangs wait for devices that their drivers prepare: their claims may stay reserved for long."""

from collections.abc import Iterable

from phalanx_simulator.embedded.store import Entry
from phalanx_simulator.invariants.bounds import PREPARED_S
from phalanx_simulator.invariants.claim_facts import consumers_of, unready_devices
from phalanx_simulator.invariants.facts import GangKey
from phalanx_simulator.invariants.truth import Truth
from phalanx_simulator.invariants.undisturbed_leader import UndisturbedLeader


class Preparations:
    """Remembers since when devices of each allocation are not ready."""

    def __init__(self, truth: Truth, leader: UndisturbedLeader) -> None:
        self._truth = truth
        self._leader = leader
        self._unready: dict[tuple[str, str], float] = {}
        """By UID of a claim and time of its allocation."""

    def gangs(self, claims: Iterable[Entry], now: float) -> set[GangKey]:
        """The gangs that wait for devices now, and not longer than PREPARED_S for the same ones."""
        found: set[GangKey] = set()
        before, self._unready = self._unready, {}
        for entry in claims:
            pods = map(self._truth.pods.get, consumers_of(entry.data))
            gangs = {pod.gang for pod in pods if pod is not None and not pod.node}
            if not gangs or not any(unready_devices(entry.data)):
                continue
            at = entry.data["status"]["allocation"].get("allocationTimestamp", "")
            key = (entry.data["metadata"]["uid"], at)
            since = self._unready[key] = before.get(key, now)
            if min(now - since, self._leader.seconds) <= PREPARED_S:
                found |= gangs
        return found
