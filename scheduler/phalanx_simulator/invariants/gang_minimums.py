"""Minimums of a gang with subgroups, computed from its PodGroup.

Members are given by their subgroups.
"""

from collections.abc import Iterable, Mapping, Sequence

from phalanx_simulator.invariants.facts import GroupFact


def short_of(group: GroupFact, members: Sequence[str]) -> str:
    """What these members lack for a start; empty if they are enough.

    Roles are not checked.
    """
    outer = _outer(group)
    short = _short(group, members)
    names = [part.name for part in group.subgroups if not part.parent]
    whole = [name for name in names if not any(outer[one] == name for one in short)]
    needed = group.min_subgroups or len(names)
    if len(whole) < needed:
        return f"{len(whole)} of {needed} subgroups"
    inside = [one for one in members if not group.min_subgroups or outer.get(one, "") in (*whole, "")]
    missing = len(inside) < group.min_member
    return f"{len(inside)} of {group.min_member} members" if missing else ""


def begun_in_part(group: GroupFact, planned: Sequence[str], there: Iterable[str]) -> str:
    """A subgroup that gets its first members but not its minimum.

    Only for gangs that need some of their subgroups.
    """
    outer = _outer(group)
    begun = {outer.get(one, "") for one in there}
    for name in dict.fromkeys(outer.get(one, "") for one in planned) if group.min_subgroups else ():
        if name and name not in begun:
            for inner, lacking in _short(group, planned).items():
                if outer[inner] == name:
                    return f"subgroup {inner} begins with {lacking} members too few"
    return ""


def _outer(group: GroupFact) -> Mapping[str, str]:
    """Per subgroup the outermost around it."""
    return {name: around[-1] for name, around in _around(group).items()}


def _around(group: GroupFact) -> dict[str, list[str]]:
    parents = {part.name: part.parent for part in group.subgroups}
    found = {}
    for name in parents:
        around = [name]
        while parents.get(around[-1], "") in parents and parents[around[-1]] not in around:
            around.append(parents[around[-1]])
        found[name] = around
    return found


def _short(group: GroupFact, members: Iterable[str]) -> dict[str, int]:
    """How many members each subgroup lacks, those that lack some only."""
    around = _around(group)
    missing = {part.name: part.min_member for part in group.subgroups}
    for one in members:
        for name in around.get(one, ()):
            missing[name] -= 1
    return {name: count for name, count in missing.items() if count > 0}
