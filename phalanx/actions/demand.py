"""What a gang needs now: the members of its minimum that are missing, and the surplus beyond it."""

from collections.abc import Iterable, Sequence
from enum import IntEnum

from msgspec import Struct

from phalanx.model.gangs import Gang, lineages, missing_by_role, missing_by_subgroup
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
    """Pods of one shape and subgroup, in the order in which they get nodes. At least `minimum` are placed."""

    name: str
    pods: tuple[Pod, ...]
    minimum: int

    @property
    def subgroup(self) -> str:
        """The subgroup that the pods name; empty for none."""
        return self.pods[0].subgroup


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


class Needed(Struct, frozen=True):
    """How many members roles and subgroups lack to their own minimums, by name."""

    roles: dict[str, int]
    subgroups: dict[str, int]


def demands_of(gang: Gang) -> tuple[Demand, ...] | Problem:
    """Its minimum before its surplus; a Problem when members are missing to a whole minimum.

    Members are chosen in the order in which the gang lists them: by priority, index, creation.
    """
    ready = [pod for pod in gang.members if pod.is_waiting and not pod.gated]
    counted = [pod for pod in gang.members if pod.counts_for_gang]
    needed = Needed(missing_by_role(counted, gang.roles), missing_by_subgroup(counted, gang.subgroups))
    chosen = _choose(gang, ready, needed)
    started = gang.started or gang.minimum.is_reached(counted)
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


def _choose(gang: Gang, ready: Sequence[Pod], needed: Needed) -> list[Pod]:
    """Those that the minimums of roles and subgroups need, then the first others to the gang's minimum."""
    roles, subgroups = dict(needed.roles), dict(needed.subgroups)
    around = lineages(gang.subgroups)
    first: list[Pod] = []
    others: list[Pod] = []
    for pod in ready:
        lacking = [name for name in around.get(pod.subgroup, ()) if subgroups.get(name, 0) > 0]
        if roles.get(pod.role, 0) > 0 or lacking:
            roles[pod.role] = roles.get(pod.role, 0) - 1
            for name in around.get(pod.subgroup, ()):
                subgroups[name] = subgroups.get(name, 0) - 1
            first.append(pod)
        else:
            others.append(pod)
    return [*first, *others[: max(0, gang.min_member - gang.active - len(first))]]


def _shortage(gang: Gang, chosen: Sequence[Pod], needed: Needed) -> Problem | None:
    """What is missing to a whole minimum."""
    for role, count in needed.roles.items():
        present = sum(1 for pod in chosen if pod.role == role)
        if present < count:
            return _members_missing(f"role {role} needs {count} more, and {present} wait")
    around = lineages(gang.subgroups)
    for name, count in needed.subgroups.items():
        present = sum(1 for pod in chosen if name in around.get(pod.subgroup, ()))
        if present < count:
            return _members_missing(f"subgroup {name} needs {count} more, and {present} wait")
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
    """Group by subgroup and shape, in the order in which they first appear."""
    groups: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        groups.setdefault((pod.subgroup, pod.shape.key), []).append(pod)
    return tuple(
        Batch(name=_name(group), pods=tuple(group), minimum=len(group) if whole else 0)
        for group in groups.values()
    )


def _name(pods: Sequence[Pod]) -> str:
    """The roles of these pods, or else their subgroup, for messages."""
    roles = dict.fromkeys(pod.role for pod in pods if pod.role)
    return "+".join(roles) or pods[0].subgroup or "pod"
