"""When a gang that was not placed is tried again: every rule that delays it, in one place.

    rule             delays                                             until
    retry key        solving a refused demand again                     what its answer depends on changes
    bind back-off    a gang of which a bind failed                      a time that doubles with each failure
    nomination       other victims for a gang that waits for victims    they have terminated, or
                                                                        nominationMinutes have passed
    nomination rest  evictions for a gang for which they were in vain   nominationRestMinutes have passed
    victim search    a search for victims for a gang that found none    a new queue has candidates, or more
                                                                        may go, victimSearchSeconds later
    new victims      a search for victims that were only just placed    FRESH_VICTIMS_MS have passed
    eviction check   evicting a victim again that was not deleted       EVICTION_CHECK_MS have passed
    node avoidance   a gang on a node that failed it, if others fit     a time that doubles with each failure
    move search      a search for moves for one gang                    consolidation.intervalSeconds passed
    move rest        moving a gang that started or moved lately         consolidation.restMinutes have passed
    cycle pause      the next cycle                                     as long as the last one took, bounded
    verdict delay    a cycle that can only change verdicts              VERDICT_DELAY_S have passed

`RetryConfig`, the section `retry` of the configuration, has what operators tune. Back-off is exponential
as in kube-scheduler: the first delay doubles with each failure, up to a longest one.
`docs/configuration.md` has the same rules for users, with keys and defaults; a test compares the two.

Invariant L8 of the simulator (`phalanx_simulator/invariants/processes.py`) bounds the bind back-off: at most
BIND_REFUSALS_PER_MINUTE_MAX binds of one pod are refused in a minute. `parse_config` refuses a configuration
that would exceed it.
"""

import hashlib
from collections.abc import Mapping
from itertools import count
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.model.gangs import Gang
from phalanx.model.memory import CandidateQueues, Nomination, Refusal
from phalanx.model.names import GangId
from phalanx.model.snapshot import Snapshot

CYCLE_PERIOD_MIN_S: Final = 0.02
"""Seconds between the starts of two cycles at least: lets a burst of events become one snapshot."""

CYCLE_PAUSE_MAX_S: Final = 0.1
"""Seconds from one cycle to the next that has a trigger, at most."""

VERDICT_DELAY_S: Final = 0.5
"""Seconds until a cycle runs only to change verdicts: gangs that still lack members often come in a row."""

EVICTION_CHECK_MS: Final = 10_000
"""Milliseconds after an eviction until a cycle checks it: a pod that is not deleted by then is evicted again,
whatever the API server answered. Deleting takes well under a second."""

FRESH_VICTIMS_MS: Final = 5_000
"""Milliseconds after which victims are searched again where some of them were only just placed."""

NODE_AVOIDANCE_DOUBLINGS_MAX: Final = 7
"""Times that the avoidance of a node doubles: to a day by default, longer than repairs take."""

BIND_REFUSALS_PER_MINUTE_MAX: Final = 20
"""Refused binds of one pod within a minute at most. Invariant L8 of the simulator checks it, whose
REFUSED_BINDS_MAX is equal. The default back-off leads to ten in the first minute."""

_MINUTE_MS: Final = 60_000

_BACKOFF_DOUBLINGS_MAX: Final = 30
"""Times that a back-off doubles at most: beyond, it is at its longest anyway."""

_DIGEST_BYTES: Final = 16

_Positive = Annotated[int, Meta(ge=1, le=10**9)]


class RetryConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How long gangs wait before they are tried again."""

    bind_backoff_first_milliseconds: _Positive = 100
    """Back-off of a gang after its first failed bind. It doubles with each failure in a row."""

    bind_backoff_max_seconds: _Positive = 30
    """Longest back-off after failed binds."""

    nomination_minutes: _Positive = 15
    """Time for which freed capacity is held for the gang that evicted, after its victims have terminated."""

    nomination_attempts: _Positive = 3
    """Evictions in a row for one gang that come to nothing before it rests."""

    nomination_rest_minutes: _Positive = 10
    """Time before others are evicted for such a gang again."""

    victim_search_seconds: _Positive = 30
    """Time between two searches for victims while only the usage of candidate queues changes."""

    node_avoidance_minutes: _Positive = 10
    """Time for which a gang avoids a node after a member failed there: resetting a GPU takes two minutes. It
    doubles with each further failure of the gang on that node."""

    @property
    def nomination_ms(self) -> int:
        """`nomination_minutes` in milliseconds."""
        return self.nomination_minutes * 60_000

    @property
    def victim_search_ms(self) -> int:
        """`victim_search_seconds` in milliseconds."""
        return self.victim_search_seconds * 1000

    def bind_backoff_ms(self, failures: int) -> int:
        """Back-off (ms) after a failed bind that had so many failures in a row before it."""
        longest = self.bind_backoff_max_seconds * 1000
        return min(self.bind_backoff_first_milliseconds << min(failures, _BACKOFF_DOUBLINGS_MAX), longest)

    @property
    def keeps_bind_refusals_bounded(self) -> bool:
        """Whether at most BIND_REFUSALS_PER_MINUTE_MAX binds of one pod can be refused within a minute.

        Back-offs never become shorter, so the first ones are the shortest time for so many and one more.
        """
        shortest = sum(self.bind_backoff_ms(failures) for failures in range(BIND_REFUSALS_PER_MINUTE_MAX))
        return shortest >= _MINUTE_MS

    @property
    def bind_backoff_max_seconds_min(self) -> int:
        """Smallest `bind_backoff_max_seconds` with which refused binds are bounded: 3 to 8."""
        longer = (replace(self, bind_backoff_max_seconds=seconds) for seconds in count(1))
        return next(each.bind_backoff_max_seconds for each in longer if each.keeps_bind_refusals_bounded)

    def avoid_node_ms(self, failures: int) -> int:
        """Time (ms) for which a gang avoids a node on which it failed so often before."""
        return self.node_avoidance_minutes * 60_000 << min(failures, NODE_AVOIDANCE_DOUBLINGS_MAX)

    def attempts_in_row(self, nomination: Nomination | None) -> int:
        """Evictions in a row that came to nothing for a gang; after a rest they are counted again from 0."""
        if nomination is None or nomination.attempts >= self.nomination_attempts:
            return 0
        return nomination.attempts

    def rests_until(self, nomination: Nomination | None, now: int) -> int | None:
        """End (ms) of the rest of a gang for which evictions were in vain too often; None without a rest."""
        if nomination is None or nomination.attempts < self.nomination_attempts:
            return None
        until = nomination.until + self.nomination_rest_minutes * 60_000
        return until if now < until else None

    def next_victim_search_at(self, found: CandidateQueues, before: CandidateQueues) -> int | None:
        """Time (ms) of the next search for victims: 0 for a new queue; None where no more may be taken."""
        if not set(before.queues).issuperset(found.queues):
            return 0
        grown = any(
            amount > then
            for queue, amounts in found.beyond.items()
            for amount, then in zip(amounts, before.beyond.get(queue, amounts), strict=True)
        )
        return before.at + self.victim_search_ms if grown else None


def cycle_pause_s(took: float) -> float:
    """Seconds to wait after a cycle that took so long.

    Events that arrive meanwhile are decided together, and a decider that runs in a thread of this process
    leaves half of the time to the event loop.
    """
    return max(CYCLE_PERIOD_MIN_S - took, min(took, CYCLE_PAUSE_MAX_S))


class Refusals:
    """Remembered refusals: a demand is not solved again while its retry key stays the same.

    The key is a digest of all that the answer depends on: the gang, its queues, the capacity, the
    configuration, and what the session adds for reserved cells, held capacity and plugins.
    """

    def __init__(
        self, snapshot: Snapshot, queues: QueueTree, config: Struct, retry_key: list[object]
    ) -> None:
        self._known: Mapping[GangId, Refusal] = snapshot.memory.refusals
        self._queues = queues
        settings = msgspec.to_builtins(config, order="deterministic")
        del settings["retry"]  # a delay changes no answer
        self._base = b"%d %d %s %s" % (
            snapshot.capacity_version,
            snapshot.seed,
            msgspec.json.encode(settings),
            msgspec.json.encode(retry_key, order="deterministic"),
        )

    def recall(self, gang: Gang, cause: str) -> Refusal | None:
        """The refusal of an earlier cycle, None where something has changed since."""
        refusal = self._known.get(gang.id)
        return refusal if refusal and refusal.fingerprint == self.fingerprint(gang, cause) else None

    def fingerprint(self, gang: Gang, cause: str) -> str:
        """The retry key of a demand of this gang, which is placed for this cause."""
        path = [replace(queue, past=None) for queue in self._queues.path(gang.queue)]
        content = msgspec.json.encode((cause, path), order="deterministic")
        whole = b"\n".join((self._base, content, _content(gang)))
        return hashlib.blake2b(whole, digest_size=_DIGEST_BYTES).hexdigest()


def _content(gang: Gang) -> bytes:
    head = (gang.id, gang.resource_version, gang.queue, gang.min_member, gang.priority, gang.started)
    request = (gang.roles, gang.topology, gang.subgroups, gang.min_subgroups)
    members = [
        (
            pod.uid,
            pod.shape.key,
            pod.node,
            pod.is_waiting,
            pod.counts_for_gang,
            pod.gated,
            pod.role,
            pod.subgroup,
            pod.priority,
        )
        for pod in gang.members
    ]
    return msgspec.json.encode((head, request, members))
