"""All rules that delay another attempt for a gang that was not placed.

    rule             delays                                             until
    retry key        solving a refused demand again                     an input of its answer changes
    bind back-off    a gang of which a bind failed                      a time that doubles with each failure
    nomination       other victims for a gang that waits for victims    they have terminated, or
                                                                        nominationMinutes have passed
    nomination rest  evictions for a gang whose nominations failed      nominationRestMinutes have passed
    victim search    a search for victims for a gang that found none    a new queue has candidates, or victims
                                                                        increase, victimSearchSeconds later
    new victims      a search for victims that were placed recently     FRESH_VICTIMS_MS have passed
    eviction check   evicting a victim again that was not deleted       EVICTION_CHECK_MS have passed
    node avoidance   a gang on a node where it failed, if others fit    a time that doubles with each failure
    move search      a search for moves for one gang                    consolidation.intervalSeconds passed
    move rest        moving a gang that started or moved lately         consolidation.restMinutes have passed
    plugin error     gangs of a cycle in which a hook of a plugin failed PLUGIN_ERROR_RETRY_MS have passed
    cycle pause      the next cycle                                     as long as the last one took, bounded
    verdict delay    a cycle that can only change verdicts              VERDICT_DELAY_S have passed
    resting gangs    a gang behind very many others of its queue        it may start, or its turn comes
    advice renewal   another search for the advice of a gang            ADVICE_RENEWAL_MS have passed

Operators tune the delays in `RetryConfig`, the section `retry` of the configuration. Back-off is exponential
as in kube-scheduler: the first delay doubles with each failure, up to a maximum. `docs/configuration.md` has
the same rules for users, with keys and defaults; a test compares the two.

Invariant L8 of the simulator (`phalanx_simulator/invariants/processes.py`) bounds the bind back-off: at most
BIND_REFUSALS_PER_MINUTE_MAX binds of one pod are refused in a minute. `config_errors` rejects a configuration
that would exceed it.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.model.gangs import Gang
from phalanx.model.memory import CandidateQueues, HelpedBy, Nomination, Refusal, RetryKeys
from phalanx.model.names import GangId, QueueName
from phalanx.model.reasons import Verdict
from phalanx.model.resources import NONE, Resources
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.known import counted_supply

CYCLE_PERIOD_MIN_S: Final = 0.02
"""Minimum seconds between the starts of two cycles: a burst of events becomes one snapshot."""

CYCLE_PAUSE_MAX_S: Final = 0.1
"""Maximum seconds from the end of one cycle to the start of the next one that has a trigger."""

VERDICT_DELAY_S: Final = 0.5
"""Seconds before a cycle that only changes verdicts: often many gangs lack members one after the other."""

RESTING_TURN_MS: Final = 1_000
"""Milliseconds after which a cycle looks at the next gangs that rest, if nothing happens before."""

ADVICE_RENEWAL_MS: Final = 15_000
"""Milliseconds after a search for the advice of a gang until another one, if only the cluster has changed and
the reason is the same. After twice this time a cycle runs for it, mostly for several gangs together."""

EVICTION_CHECK_MS: Final = 10_000
"""Milliseconds after an eviction until a cycle checks it: a pod that is not deleted by then is evicted again,
whatever the API server answered. A deletion takes well under a second."""

PLUGIN_ERROR_RETRY_MS: Final = 10_000
"""Milliseconds after a cycle with errors of plugins until the next one. It remembers no refusals."""

FRESH_VICTIMS_MS: Final = 5_000
"""Milliseconds after which victims are searched again if some gangs were placed too recently."""

NODE_AVOIDANCE_DOUBLINGS_MAX: Final = 7
"""Maximum doublings of the avoidance of a node: to a day by default, longer than repairs take."""

BIND_REFUSALS_PER_MINUTE_MAX: Final = 20
"""Refused binds of one pod within a minute at most. Invariant L8 of the simulator checks it, whose
REFUSED_BINDS_MAX is equal. The default back-off leads to ten in the first minute."""

_MINUTE_S: Final = 60
_MINUTE_MS: Final = 1000 * _MINUTE_S

_BACKOFF_DOUBLINGS_MAX: Final = 30
"""Maximum doublings of a back-off, which reaches its maximum before."""

_DIGEST_BYTES: Final = 16

_Positive = Annotated[int, Meta(ge=1, le=10**9)]


class RetryConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The delays before gangs are tried again."""

    bind_backoff_first_milliseconds: _Positive = 100
    """The back-off of a gang after the first failed bind of a pod. It doubles with each failure of that pod
    in a row."""

    bind_backoff_max_seconds: _Positive = 30
    """The longest back-off after failed binds. The scheduler refuses a value with which one pod could have
    more than 20 refused binds in a minute: with the default first back-off, values below 4."""

    nomination_minutes: _Positive = 15
    """The time for which freed capacity is held for a gang, or for a gang that is moved, after the grace
    periods of the victims. A pod whose deletion takes this much longer than its grace period is not expected
    to free its node."""

    nomination_attempts: _Positive = 3
    """Evictions in a row for one gang that come to nothing before it rests."""

    nomination_rest_minutes: _Positive = 10
    """The rest, in which nothing is evicted or moved for the gang."""

    victim_search_seconds: _Positive = 30
    """The time between two searches for victims for a gang that found none, while only more may be evicted
    from the same queues."""

    # The reset of a GPU takes two minutes.
    node_avoidance_minutes: _Positive = 10
    """The time for which a gang avoids a node after a member failed there. It doubles with each further
    failure of the gang on the node during this time, at most seven times."""

    @property
    def nomination_ms(self) -> int:
        """`nomination_minutes` in milliseconds."""
        return self.nomination_minutes * 60_000

    @property
    def victim_search_ms(self) -> int:
        """`victim_search_seconds` in milliseconds."""
        return self.victim_search_seconds * 1000

    def bind_backoff_ms(self, failures: int) -> int:
        """Back-off (ms) after a failed bind with this number of consecutive failures before it."""
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
        """Smallest `bind_backoff_max_seconds` with which refused binds are bounded: 3 to 8.

        A minute, the largest value that is tried, would do with any back-off: it is the time that is bounded.
        """
        longer = (replace(self, bind_backoff_max_seconds=seconds) for seconds in range(1, _MINUTE_S))
        enough = (each.bind_backoff_max_seconds for each in longer if each.keeps_bind_refusals_bounded)
        return next(enough, _MINUTE_S)

    def avoid_node_ms(self, failures: int) -> int:
        """Time (ms) for which a gang avoids a node with this number of earlier failures of the gang."""
        return self.node_avoidance_minutes * 60_000 << min(failures, NODE_AVOIDANCE_DOUBLINGS_MAX)

    def attempts_in_row(self, nomination: Nomination | None) -> int:
        """The number of consecutive failed nominations of a gang; after a rest it starts again from 0."""
        if nomination is None or nomination.attempts >= self.nomination_attempts:
            return 0
        return nomination.attempts

    def rests_until(self, nomination: Nomination | None, now: int) -> int | None:
        """The end (ms) of the rest of a gang with too many failed nominations; None without a rest."""
        if nomination is None or nomination.attempts < self.nomination_attempts:
            return None
        until = nomination.until + self.nomination_rest_minutes * 60_000
        return until if now < until else None

    def next_victim_search_at(self, found: CandidateQueues, before: CandidateQueues) -> int | None:
        """The time (ms) of the next search for victims: 0 for a new queue; None if no more may be evicted."""
        if not before.evictable.keys() >= found.evictable.keys():
            return 0
        return before.at + self.victim_search_ms if _may_evict_more(found, before) else None


def _may_evict_more(found: CandidateQueues, before: CandidateQueues) -> bool:
    """Whether other pods may be evicted than before, more of them together, or fewer must be."""
    return (
        any(digest != before.evictable[queue] for queue, digest in found.evictable.items())
        or any(_is_raised(limits, before.limits.get(queue, {})) for queue, limits in found.limits.items())
        or any(found.least.get(name, 0) < amount for name, amount in before.least.items())
    )


def _is_raised(limits: Mapping[str, Resources], before: Mapping[str, Resources]) -> bool:
    """Whether one of the limits of a queue is higher than before, or gone."""
    return any(
        name not in limits.get(subject, NONE) or limits[subject][name] > amount
        for subject, amounts in before.items()
        for name, amount in amounts.items()
    )


def cycle_pause_s(took: float) -> float:
    """The pause in seconds after a cycle that took this many seconds.

    Events that arrive in the pause are decided together. A decider that runs in a thread of this process
    leaves half of the time to the event loop.
    """
    return max(CYCLE_PERIOD_MIN_S - took, min(took, CYCLE_PAUSE_MAX_S))


class RetryInputs:
    """Digests of what the answers about gangs depend on besides the gangs themselves.

    They tell whether a refusal still holds: its `basis` covers the queues of the gang and all that could help
    it, its `fingerprint` the gang.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        queues: QueueTree,
        settings: bytes,
        largest_allocatable: Callable[[], Resources],
    ) -> None:
        """`settings`: see `settings_of`. `largest_allocatable`: per resource, over all nodes."""
        self._snapshot = snapshot
        self._queues = queues
        self._settings = settings
        self._find_largest = largest_allocatable
        self._known: dict[tuple[QueueName, HelpedBy, str, RetryKeys], str] = {}
        self._of_queues: dict[QueueName, str] = {}

    @property
    def now(self) -> int:
        """The time (ms) of the snapshot."""
        return self._snapshot.now

    @cached_property
    def largest_allocatable(self) -> Resources:
        """Per resource, the largest allocatable amount of a node."""
        return self._find_largest()

    def basis(self, queue: QueueName, helped_by: HelpedBy, resource: str, keys: RetryKeys) -> str:
        """The basis of refusals in this queue that such changes could help."""
        key = (queue, helped_by, resource, keys)
        if key not in self._known:
            path = [replace(each, past=None) for each in self._queues.path(queue)]
            about = (self._inputs(helped_by, resource, keys), self._snapshot.seed, path)
            self._known[key] = _digest(self._settings, msgspec.json.encode(about, order="deterministic"))
        return self._known[key]

    def queue_basis(self, queue: QueueName) -> str:
        """The part of the basis of refusals in this queue that is of the queue and its ancestors."""
        if queue not in self._of_queues:
            path = [replace(each, past=None) for each in self._queues.path(queue)]
            self._of_queues[queue] = _digest(msgspec.json.encode(path, order="deterministic"))
        return self._of_queues[queue]

    def _inputs(self, helped_by: HelpedBy, resource: str, keys: RetryKeys) -> tuple[object, ...]:
        if helped_by is HelpedBy.NODE_SIZE:
            return (helped_by, resource, self.largest_allocatable.get(resource, 0))
        supply = self._snapshot.supply_versions.get(resource)
        if helped_by is HelpedBy.CLUSTER:
            of_supply = () if supply is None else (resource, supply.cluster)
            return (helped_by, self._snapshot.cluster_version, keys.plugins, *of_supply)
        of_supply = () if supply is None else (resource, supply.capacity)
        return (helped_by, self._snapshot.capacity_version, keys.all, *of_supply)

    def holds(self, refusal: Refusal, gang: Gang, cause: str, keys: RetryKeys) -> bool:
        """Whether nothing has changed that could help the gang."""
        return (
            refusal.fingerprint == fingerprint(gang, cause)
            and refusal.basis == self.basis(gang.queue, refusal.helped_by, refusal.resource, keys)
            and (refusal.until is None or self._snapshot.now < refusal.until)
        )


def settings_of(config: Struct) -> bytes:
    """The configuration without delays, which change no answer."""
    settings = msgspec.to_builtins(config, order="deterministic")
    del settings["retry"]
    return msgspec.json.encode(settings)


def fingerprint(gang: Gang, cause: str) -> str:
    """The fingerprint of the demand of this gang of the snapshot with this cause."""
    return _digest(cause.encode(), gang.digest)


def digest_of_key(key: Sequence[object]) -> str:
    return _digest(msgspec.json.encode(key, order="deterministic"))


def _digest(*parts: bytes) -> str:
    return hashlib.blake2b(b"\n".join(parts), digest_size=_DIGEST_BYTES).hexdigest()


class Refusals:
    """The refusals of one cycle: those of earlier cycles that still hold, and new ones."""

    def __init__(
        self,
        inputs: RetryInputs,
        keys: RetryKeys,
        gangs: Mapping[GangId, Gang],
        known: Callable[[Gang], Refusal | None],
    ) -> None:
        """`gangs` as in the snapshot. `known`: the refusals of earlier cycles."""
        self._inputs = inputs
        self._keys = keys
        self._gangs = gangs
        self._known = known

    def recall(self, gang: Gang, cause: str) -> Refusal | None:
        """The refusal of an earlier cycle that tried the gang; None if it does not hold any more."""
        refusal = self._known(gang)
        if refusal is None or refusal.is_objection:
            return None
        return refusal if self._inputs.holds(refusal, self._gangs[gang.id], cause, self._keys) else None

    def refuse(
        self,
        gang: Gang,
        cause: str,
        verdict: Verdict,
        helped_by: HelpedBy = HelpedBy.CAPACITY,
        resource: str = "",
        *,
        until: int | None = None,
        **more: Any,
    ) -> Refusal:
        """A refusal of the demand of this gang with this cause. `more`: other fields of the refusal.

        `until`: when the gang is tried again without a change; at its deadline at the latest, which the
        verdict then says.
        """
        resource = resource or counted_supply(gang)
        now, deadline = self._inputs.now, gang.deadline
        if helped_by is not HelpedBy.CAPACITY and deadline is not None and deadline > now:
            until = min(deadline, until or deadline)
        return Refusal(
            fingerprint=fingerprint(self._gangs[gang.id], cause),
            verdict=verdict,
            basis=self._inputs.basis(gang.queue, helped_by, resource, self._keys),
            queue_basis=self._inputs.queue_basis(gang.queue),
            helped_by=helped_by,
            resource=resource,
            until=until,
            **more,
        )
