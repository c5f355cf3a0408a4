"""What a gang needs now: the members of its minimum that are missing, and the surplus beyond it."""

from collections.abc import Iterable, Sequence
from enum import IntEnum

from msgspec import Struct

from phalanx.model.gangs import Gang, missing_by_role
from phalanx.model.pods import Pod
from phalanx.model.reasons import Problem, Reason


class Stage(IntEnum):
    """What goes first among gangs of equal rank.

    REPAIR: members that a gang lost, or that are missing to one which is partly bound. START: a whole
    minimum. SURPLUS: members beyond the minimum.
    """

    REPAIR = 0
    START = 1
    SURPLUS = 2


class Batch(Struct, frozen=True):
    """Pods of one shape, in the order in which they get nodes. At least `minimum` of them are placed."""

    name: str
    pods: tuple[Pod, ...]
    minimum: int


class Demand(Struct, frozen=True):
    """Pods of one gang that are placed together. `cause` goes into the placement."""

    gang: Gang
    stage: Stage
    cause: str
    batches: tuple[Batch, ...]

    @property
    def count(self) -> int:
        """How many pods it would place at most."""
        return sum(len(batch.pods) for batch in self.batches)

    @property
    def is_whole(self) -> bool:
        """Whether all of its pods are placed or none."""
        return all(batch.minimum == len(batch.pods) for batch in self.batches)


def demands_of(gang: Gang) -> tuple[Demand, ...] | Problem:
    """Its minimum before its surplus; a Problem when members are missing to a whole minimum.

    Members are chosen in the order in which the gang lists them: by priority, index, creation.
    """
    ready = [pod for pod in gang.members if pod.is_waiting and not pod.gated]
    needed = missing_by_role([pod for pod in gang.members if pod.counts_for_gang], gang.roles)
    chosen = _choose(ready, needed, max(gang.min_member - gang.active, sum(needed.values())))
    started = gang.started or (gang.is_satisfied and not needed)
    if not started and (problem := _shortage(gang, chosen, needed)):
        return problem
    ids = {pod.uid for pod in chosen}
    surplus = [pod for pod in ready if pod.uid not in ids]
    demands = (_minimum(gang, chosen, started=started), _surplus(gang, surplus))
    return tuple(demand for demand in demands if demand.batches)


def without(demand: Demand, placed: Iterable[Pod]) -> Demand:
    """The rest of a demand of which these pods were placed; any further pod would help."""
    gone = {pod.uid for pod in placed}
    rest = [pod for batch in demand.batches for pod in batch.pods if pod.uid not in gone]
    return Demand(
        gang=demand.gang, stage=demand.stage, cause=demand.cause, batches=batches_of(rest, whole=False)
    )


def _choose(ready: Sequence[Pod], needed: dict[str, int], total: int) -> list[Pod]:
    """The first `total` members, those that the minimums of roles need before all others."""
    left = dict(needed)
    first: list[Pod] = []
    others: list[Pod] = []
    for pod in ready:
        if left.get(pod.role, 0) > 0:
            left[pod.role] -= 1
            first.append(pod)
        else:
            others.append(pod)
    return [*first, *others[: max(0, total - len(first))]]


def _shortage(gang: Gang, chosen: Sequence[Pod], needed: dict[str, int]) -> Problem | None:
    """What is missing to a whole minimum."""
    for role, count in needed.items():
        present = sum(1 for pod in chosen if pod.role == role)
        if present < count:
            return _members_missing(f"role {role} needs {count} more, and {present} wait")
    missing = gang.min_member - gang.active - len(chosen)
    if missing > 0:
        present, verb = gang.active + len(chosen), "is" if missing == 1 else "are"
        return _members_missing(
            f"{present} of at least {gang.min_member} members exist, {missing} {verb} missing"
        )
    return None


def _members_missing(message: str) -> Problem:
    return Problem(
        reason=Reason.MEMBERS_MISSING,
        message=message,
        next_step="Wait for the controller to create the other pods, or lower minMember",
    )


def _minimum(gang: Gang, chosen: Sequence[Pod], *, started: bool) -> Demand:
    if started:
        return Demand(gang, Stage.REPAIR, "replace", batches_of(chosen, whole=False))
    stage = Stage.REPAIR if gang.active else Stage.START
    return Demand(gang, stage, "start", batches_of(chosen, whole=True))


def _surplus(gang: Gang, pods: Sequence[Pod]) -> Demand:
    return Demand(gang, Stage.SURPLUS, "surplus", batches_of(pods, whole=False))


def batches_of(pods: Sequence[Pod], *, whole: bool) -> tuple[Batch, ...]:
    """Group by shape, in the order in which shapes first appear."""
    groups: dict[str, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(pod.shape.key, []).append(pod)
    return tuple(
        Batch(name=_name(group), pods=tuple(group), minimum=len(group) if whole else 0)
        for group in groups.values()
    )


def _name(pods: Sequence[Pod]) -> str:
    """The roles of these pods, for messages."""
    return "+".join(dict.fromkeys(pod.role for pod in pods if pod.role)) or "pod"
