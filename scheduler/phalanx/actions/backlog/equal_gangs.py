"""Equal gangs of a queue: they differ in nothing but their names and their age.

What keeps the first of them from starting keeps the others, too: nothing that decides about a gang reads its
name, and the capacity of a cycle only shrinks. So in a long queue a cycle looks at the first ones only, which
are in *front*. The others are *behind*: they have the verdict of the last one in front, and they count as
demand. When gangs in front are placed, as many that are behind are tried in the same cycle. Gangs that cycles
look at in any case, such as those that evictions are under way for, have places in front of their own.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Final, Protocol

from msgspec import json

from phalanx.actions.backlog.free_capacity import Lacks
from phalanx.model.gangs import Gang, QueuePlace
from phalanx.model.memory import Refusal
from phalanx.model.names import LABEL_POD_GROUP, GangId
from phalanx.model.reasons import Reason, Verdict

EQUAL_GANGS_TRIED: Final = 16
"""Equal gangs of a long queue that a cycle looks at first, each in 0.3 ms; more when they are placed. As many
as one cycle evicts for, and more than a queue has reservations."""

EQUAL_GANG_MEMBERS_MAX: Final = 256
"""Members of a gang that is compared with others: reading them takes 2 ms."""

IDENTITY_LABELS: Final = frozenset(
    {
        LABEL_POD_GROUP,
        "scheduling.x-k8s.io/pod-group",
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
        "job-name",
        "controller-uid",
    }
)
"""Labels that name the gang of a pod. They make gangs different only while a term selects by them."""


class Group(Protocol):
    """Gangs whose refusals have one basis."""

    entries: dict[GangId, "Entry"]
    is_current: bool
    is_queue_current: bool


class Entry:
    """A gang, and what the last cycle that looked at it found."""

    __slots__ = ("class_key", "gang", "group", "is_front", "lacks", "place", "pods", "refusal", "verdict")

    def __init__(self, gang: Gang, since: int, class_key: bytes | None, *, is_strict: bool) -> None:
        """`class_key`: see `class_key_of`."""
        self.gang = gang
        self.class_key = class_key
        self.is_front = False
        priority = 0 if is_strict else -gang.priority
        self.place: QueuePlace = (priority, since, gang.namespace, gang.name, gang.id)
        self.pods = sum(1 for pod in gang.members if pod.is_waiting)
        self.refusal: Refusal | None = None
        self.group: Group | None = None
        self.verdict: Verdict | None = None
        """The verdict that cycles show which do not look at the gang; None if it was not made yet."""
        self.lacks: Lacks | None = None
        """What it lacks to start; None if it was not read yet."""

    @property
    def is_accepted(self) -> bool:
        """Whether the queue accepts the gang, as far as is known."""
        refusal = self.refusal
        return refusal is None or refusal.verdict.reason is not Reason.NAMESPACE_NOT_ALLOWED


def place_of(entry: Entry) -> QueuePlace:
    return entry.place


def class_key_of(gang: Gang, selected: Collection[str]) -> bytes | None:
    """Equal for gangs of which one can stand for the other; None for a gang that stands only for itself.

    `selected`: the identity labels that some term selects by. Gangs with claims have names of their own, and
    verdicts on gangs that are held, incomplete or in back-off name them.
    """
    pods = gang.members
    if len(pods) > EQUAL_GANG_MEMBERS_MAX or gang.spec.hold or not gang.is_complete:
        return None
    if any(pod.claims or pod.device_claims or pod.bind_backoff is not None for pod in pods):
        return None
    head = (gang.kind, gang.namespace, gang.queue, gang.refused_queue, gang.priority, gang.preemption_policy)
    made = (gang.dialect, gang.workload, gang.min_member, gang.prefers_to_stay, gang.ignored, gang.problems)
    request = (gang.spec, gang.roles, gang.subgroups)
    members = [
        (
            *(pod.shape.key, pod.phase, pod.deleting, pod.gated, pod.role, pod.subgroup, pod.priority),
            *(pod.preemption_policy, pod.nominated, pod.extended, pod.annotations),
            [pair for pair in pod.all_labels if pair[0] not in IDENTITY_LABELS or pair[0] in selected],
        )
        for pod in pods
    ]
    content = json.encode((head, made, request, members), order="deterministic")
    return blake2b(content, digest_size=16).digest()


class Kind:
    """Equal gangs."""

    __slots__ = ("entries", "front", "shown")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """In the order of the queue."""
        self.front: list[Entry] = []
        self.shown: tuple[Verdict, list[Verdict]] | None = None
        """The verdict on the last one in front, and those on the others; None if they were not made yet."""

    @property
    def last(self) -> Entry:
        return self.front[-1]

    @property
    def behind(self) -> Sequence[Entry]:
        """Those that are not in front, in order."""
        return self.entries[len(self.front) :]


class EqualGangs:
    """The gangs of one queue by kind. Call `settle` after changes and before anything else."""

    def __init__(self) -> None:
        self._kinds: dict[bytes, Kind] = {}
        self._alone: list[Entry] = []
        self._changed: dict[bytes, None] = {}
        self._named: Counter[bytes] = Counter()
        self._all_in_front = True
        self.long: dict[bytes, Kind] = {}
        """Kinds that have gangs behind others."""

    def kind_of(self, entry: Entry) -> Kind | None:
        """The kind of the gang, if gangs are behind others of it."""
        return None if entry.class_key is None else self.long.get(entry.class_key)

    def add(self, entry: Entry) -> None:
        if entry.class_key is None:
            self._alone.append(entry)
            return
        kind = self._kinds.get(entry.class_key)
        if kind is None:
            kind = self._kinds[entry.class_key] = Kind()
        insort(kind.entries, entry, key=place_of)
        self._changed[entry.class_key] = None

    def remove(self, entry: Entry) -> None:
        if entry.class_key is None:
            self._alone = [each for each in self._alone if each is not entry]
            return
        kind = self._kinds[entry.class_key]
        del kind.entries[bisect_left(kind.entries, entry.place, key=place_of)]
        self._changed[entry.class_key] = None

    def settle(self, named: Iterable[Entry], *, all_in_front: bool) -> tuple[list[Entry], list[Entry]]:
        """The gangs that come to the front, and those that are in front no more.

        `named`: gangs that cycles look at in any case. `all_in_front`: the queue is short.
        """
        before, self._named = self._named, Counter(each.class_key for each in named if each.class_key)
        changed = self._changed if all_in_front is self._all_in_front else dict.fromkeys(self._kinds)
        concerned = [
            *changed,
            *(key for key, _ in before.items() ^ self._named.items() if key not in changed),
        ]
        joining, leaving = self._alone, list[Entry]()
        self._changed, self._alone, self._all_in_front = {}, [], all_in_front
        for key in dict.fromkeys(concerned):
            kind = self._kinds.get(key)
            if kind is None:
                continue
            most = len(kind.entries) if all_in_front else EQUAL_GANGS_TRIED + self._named[key]
            front = kind.entries[:most]
            stay = set(map(id, front))
            leaving += [each for each in kind.front if id(each) not in stay]
            joining += [each for each in front if not each.is_front]
            kind.front, kind.shown = front, None
            if len(kind.entries) > len(front):
                self.long[key] = kind
            else:
                self.long.pop(key, None)
            if not kind.entries:
                del self._kinds[key]
        return joining, leaving
