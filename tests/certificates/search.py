"""All possible placements of a step, and the best of them, as docs/certificates.md defines both.

Nothing of `phalanx` is imported here: these definitions check those of the product.
"""

from collections.abc import Iterator, Sequence

from tests.certificates.cluster import GPU, Kind, Located, Node, Pod, depth, may_use, needs
from tests.certificates.terms import Step, Terms

Counts = tuple[tuple[int, ...], ...]
"""Pods of each kind on each node."""


def placements(step: Step) -> Iterator[list[Located]]:
    """Every possible placement of the step; pods of one kind are interchangeable."""
    groups: dict[Kind, list[Pod]] = {}
    for pod in step.pods:
        groups.setdefault(pod.kind, []).append(pod)
    for counts in _counts(step, list(groups.items())):
        placed = [
            Located(pod, node)
            for pods, row in zip(groups.values(), counts, strict=True)
            for pod, node in zip(pods, _spots(step, row), strict=False)
        ]
        if respects_rules(step, placed):
            yield placed


def _spots(step: Step, row: Sequence[int]) -> list[str]:
    return [node.name for node, count in zip(step.case.nodes, row, strict=True) for _ in range(count)]


class _NodeState:
    """What is left of a node and of the limits that count it while pods are placed."""

    def __init__(self, step: Step, node: Node, limits: Sequence[dict[str, int]]) -> None:
        self._node, self._limits = node, limits
        self._free = dict(step.free[node.name])
        self._devices = step.devices[node.name]
        self._shares: list[int] = []

    def fits(self, kind: Kind, count: int) -> bool:
        """Whether so many pods fit, one of them at least."""
        asked = needs(kind)
        return (
            may_use(kind, self._node)
            and all(self._free.get(name, 0) >= count * need for name, need in asked.items())
            and (not kind.share or self._shares_fit(kind, count))
            and all(
                rest[name] >= count * asked[name] for rest in self._limits for name in rest if name in asked
            )
        )

    def _shares_fit(self, kind: Kind, count: int) -> bool:
        shares = sorted([*self._shares, *[kind.share] * count], reverse=True)
        return GPU not in self._node.allocatable and _packs(shares, self._devices)

    def take(self, kind: Kind, count: int) -> None:
        """Place so many pods; a negative number gives back what was taken last."""
        for name, need in needs(kind).items():
            for amounts in (self._free, *(rest for rest in self._limits if name in rest)):
                amounts[name] = amounts.get(name, 0) - count * need
        if kind.share and count > 0:
            self._shares += [kind.share] * count
        elif kind.share and count < 0:
            del self._shares[count:]


def _counts(step: Step, groups: Sequence[tuple[Kind, list[Pod]]]) -> Iterator[Counts]:
    """The counts that the nodes and the limits of the queue allow."""
    budgets = step.before.budgets()
    states = [
        _NodeState(step, node, [rest for names, rest in budgets if node.name in names])
        for node in step.case.nodes
    ]

    def extend(group: int, row: list[int], done: list[tuple[int, ...]]) -> Iterator[Counts]:
        if group == len(groups):
            yield tuple(done)
            return
        kind, pods = groups[group]
        if len(row) == len(states):
            if sum(row) == len(pods) or not step.whole:
                yield from extend(group + 1, [], [*done, tuple(row)])
            return
        state = states[len(row)]
        for count in range(len(pods) - sum(row) + 1):
            if count and not state.fits(kind, count):
                break
            state.take(kind, count)
            yield from extend(group, [*row, count], done)
            state.take(kind, -count)

    yield from extend(0, [], [])


def _packs(shares: Sequence[int], devices: Sequence[int]) -> bool:
    """Whether the shares, the largest first, fit the GPUs, each one on a single GPU."""
    if not shares:
        return True
    first, *rest = shares
    for index, left in enumerate(devices):
        if left >= first and _packs(rest, [*devices[:index], left - first, *devices[index + 1 :]]):
            return True
    return False


def respects_rules(step: Step, placed: Sequence[Located]) -> bool:
    """Whether the rules of the gang, its subgroups and its pods hold."""
    return (
        _is_in_required_domain(step, placed, step.gang.required, step.members)
        and all(_subgroup_holds(step, placed, one.name) for one in step.gang.subgroups)
        and _keeps_apart(step, placed)
        and _keeps_together(step, placed)
    )


def _is_in_required_domain(
    step: Step, placed: Sequence[Located], level: str, members: Sequence[Located], topology: str = ""
) -> bool:
    if not level or not placed:
        return True
    number = depth(step.case, level, topology)
    domains = {step.new_domain(step.nodes[one.node], number, topology) for one in placed}
    domains |= {step.member_domain(step.nodes[one.node], number, topology) for one in members}
    return len(domains) == 1 and all(kind == "labels" for kind, *_ in domains)


def _subgroup_holds(step: Step, placed: Sequence[Located], name: str) -> bool:
    one = next(one for one in step.gang.subgroups if one.name == name)
    mine = [at for at in placed if step.is_inside(at.pod, name)]
    there = [at for at in step.members if step.is_inside(at.pod, name)]
    if not one.segment:
        return _is_in_required_domain(step, mine, one.required, there, one.topology)
    number = depth(step.case, one.required, one.topology)
    counts: dict[tuple[object, ...], int] = {}
    for at in mine:
        domain = step.new_domain(step.nodes[at.node], number, one.topology)
        counts[domain] = counts.get(domain, 0) + 1
    for at in there:
        domain = step.member_domain(step.nodes[at.node], number, one.topology)
        if domain in counts:
            counts[domain] += 1
    return all(kind == "labels" and not count % one.segment for (kind, *_), count in counts.items())


def _keeps_apart(step: Step, placed: Sequence[Located]) -> bool:
    everyone = [*placed, *step.members]
    for number, one in enumerate(everyone):
        label = one.pod.kind.apart
        mine = step.nodes[one.node].labels.get(label) if label else None
        if mine is None:
            continue
        for index, other in enumerate(everyone):
            is_new = number < len(placed) or index < len(placed)
            if index != number and is_new and step.nodes[other.node].labels.get(label) == mine:
                return False
    return True


def _keeps_together(step: Step, placed: Sequence[Located]) -> bool:
    labels = {one.pod.kind.together for one in placed} - {""}
    return all(
        len({step.nodes[one.node].labels.get(label) for one in placed}) == 1
        and step.nodes[placed[0].node].labels.get(label) is not None
        for label in labels
    )


def best(step: Step) -> Terms | None:
    """The terms of the best placement; None if there is none."""
    found = (step.terms(placed) for placed in placements(step))
    return min(found, key=lambda terms: tuple(terms.values()), default=None)
