"""Where members of a subgroup run already, in the numbers that backends use for domains."""

from phalanx.solver.arrays import Rows
from phalanx.solver.problem_rules import Bond, Gathering


def anchored(rows: Rows, bond: Bond) -> dict[int, int]:
    """How many members run in each domain of the bond's level that has usable nodes."""
    numbers = {key: number for number, key in enumerate(rows.tree.keys[bond.level])}
    return {numbers[path]: count for path, count in sorted(bond.anchors.items()) if path in numbers}


def homes(rows: Rows, bond: Bond) -> tuple[int, ...] | None:
    """The domains in which a subgroup that must share one may lie, as its members run; None for any."""
    if not bond.anchors:
        return None
    return tuple(anchored(rows, bond)) if len(bond.anchors) == 1 else ()


def inhabited(rows: Rows, gathering: Gathering, level: int) -> tuple[int, ...]:
    """The domains of a level that have usable nodes and in which members run: lying there costs nothing."""
    there = gathering.anchored(level)
    return tuple(number for number, key in enumerate(rows.tree.keys[level]) if key in there) if there else ()
