"""Placements into and out of the counting model: hints, and solutions."""

from ortools.sat.python import cp_model

from phalanx.solver.counting.model import CountingModel
from phalanx.solver.counting.node_groups import Group, Pattern
from phalanx.solver.nodetable import Counts, Found
from phalanx.solver.splitting import split


def hint(model: CountingModel, found: Found) -> None:
    """Gives every variable its value in this placement, in place of earlier hints."""
    lines = {node: line for line, node in enumerate(found.nodes.tolist())}
    model.cp.clear_hints()  # type: ignore[no-untyped-call]
    used_domains: set[tuple[int, int, int]] = set()
    everyone = tuple(range(len(model.problem.roles)))
    openers = [(everyone, model.opened), *((one.roles, opened) for one, opened in model.gathered)]
    for index, group in enumerate(model.groups):
        here = found.counts[[lines[node] for node in group.nodes if node in lines]]
        for role, count in enumerate(here.sum(axis=0).tolist()):
            if (role, index) in model.pods:
                model.cp.add_hint(model.pods[role, index], count)
        if len(group.patterns) > 1:
            for pattern, count in enumerate(_patterns_used(group, here)):
                model.cp.add_hint(model.used[index, pattern], count)
        for number, (roles, per_level) in enumerate(openers):
            if here[:, list(roles)].any():
                used_domains.update((number, level, group.domains[level]) for level in per_level)
    for number, (_, per_level) in enumerate(openers):
        for level, opened in per_level.items():
            for domain, variable in opened.items():
                model.cp.add_hint(variable, (number, level, domain) in used_domains)


def solution(model: CountingModel, solver: cp_model.CpSolver) -> Found:
    """The placement that the solver found."""
    groups = range(len(model.groups))
    roles = range(len(model.problem.roles))
    pods = [
        [solver.value(model.pods[role, index]) if (role, index) in model.pods else 0 for role in roles]
        for index in groups
    ]
    used = [
        [
            solver.value(model.used[index, pattern])
            for pattern in range(len(model.groups[index].patterns))
            if (index, pattern) in model.used
        ]
        for index in groups
    ]
    return split(model.groups, pods, used)


def _patterns_used(group: Group, here: Counts) -> list[int]:
    """Per pattern, how many nodes use it when each busy node takes the first that holds its pods."""
    times = [0] * len(group.patterns)
    for counts in here[here.any(axis=1)].tolist():
        times[next(index for index, pattern in enumerate(group.patterns) if _within(counts, pattern))] += 1
    return times


def _within(counts: list[int], pattern: Pattern) -> bool:
    return all(count <= most for count, most in zip(counts, pattern, strict=True))
