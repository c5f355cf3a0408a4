"""A joint problem and its answer, as data: many gangs that start anew, over one set of node classes."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from phalanx.limits import JOINT_DETERMINISTIC_LIMIT
from phalanx.model.decisions import Certificate
from phalanx.model.rules import Rule
from phalanx.solver.problem import Assignment, NodeClass, Placed, RoleDemand

LEFT_OUT: Final = "value-left-out"
"""The only term of a joint certificate: the value of all gangs less that of the admitted ones."""


class PodClass(Struct, frozen=True):
    """Pods that are the same to every node, of whichever gang. `request` is aligned with the resources."""

    name: str
    request: tuple[int, ...]


class GangRole(Struct, frozen=True):
    """So many pods of a kind (an index), at least one, that lie in the same `subgroups`."""

    kind: int
    count: int
    subgroups: tuple[str, ...] = ()


class GangDemand(Struct, frozen=True):
    """A gang that is placed whole or not at all, and what it is worth (at least 1).

    `must`: it has to be admitted. A Budget among the rules is shared by all gangs that have one of this name.
    """

    name: str
    parts: tuple[GangRole, ...]
    rules: tuple[Rule, ...] = ()
    value: int = 1
    must_admit: bool = False


class JointProblem(Struct, frozen=True):
    """Admit gangs of the greatest total value. `eligible` and `price` of classes are aligned with `kinds`.

    `levels` are the names of the topology's levels, widest first. `budgets` of classes are not read. Gangs
    come in the order in which they are served: of equal gangs, earlier ones are admitted first.
    """

    resources: tuple[str, ...]
    levels: tuple[str, ...]
    kinds: tuple[PodClass, ...]
    gangs: tuple[GangDemand, ...]
    classes: tuple[NodeClass, ...]
    seed: int = 0


JointAssignment = Mapping[int, tuple[Assignment, ...]]
"""Admitted gangs, by index, and where their pods go; the role of an assignment is the index of a part."""


class Admitted(Struct, frozen=True):
    """A gang, by index, and its placement. Its certificate is about the gang alone, while the others stay."""

    gang: int
    placed: Placed


class JointAnswer(Struct, frozen=True):
    """The admitted gangs in order, checked together. The certificate is on value only.

    `admitted` is None where nothing more valuable than the arrangement to start from was found: it stands.
    `defects` names what failed a check on the way and was dropped: a bug, to be reported.
    """

    admitted: tuple[Admitted, ...] | None
    certificate: Certificate
    errors: tuple[str, ...] = ()


class Declined(Struct, frozen=True):
    """The engine does not answer this problem, and why."""

    why: str


class JointLimits(Struct, frozen=True):
    """How much effort one answer may take, in CP-SAT's deterministic units, shared by all of its solves."""

    deterministic: float = JOINT_DETERMINISTIC_LIMIT


def worth(problem: JointProblem, gangs: Mapping[int, object]) -> int:
    """The total value of these gangs."""
    return sum(problem.gangs[gang].value for gang in gangs)


def roles_of(problem: JointProblem, gang: GangDemand) -> tuple[RoleDemand, ...]:
    """The parts of a gang as the roles of a problem of its own: all of their pods are placed."""
    kinds = problem.kinds
    return tuple(
        RoleDemand(kinds[part.kind].name, kinds[part.kind].request, part.count, part.count, part.subgroups)
        for part in gang.parts
    )
