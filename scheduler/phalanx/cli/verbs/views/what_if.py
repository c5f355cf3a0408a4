"""What would start, wait and be evicted after a change, compared with what happens without it."""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from phalanx.cli.verbs.views.gangs import NodeShare
from phalanx.cli.verbs.views.why import split_steps
from phalanx.model.decisions import CycleResult, Placement


class Started(Struct, frozen=True, rename="camel"):
    """A gang, or missing members of it, that gets nodes."""

    gang: str
    pods: int
    domain: str = ""
    nodes: tuple[NodeShare, ...] = ()
    also_without: bool = False
    """Whether the same gang starts without the change, perhaps elsewhere."""


class Waiting(Struct, frozen=True, rename="camel"):
    """A gang that waits in the end."""

    gang: str
    reason: str
    message: str
    help: tuple[str, ...] = ()
    also_without: bool = False


class Evicted(Struct, frozen=True, rename="camel"):
    """A gang of which pods are evicted."""

    gang: str
    pods: int
    reason: str
    beneficiary: str = ""
    """The gang that needs the capacity; empty if the change itself evicts, as draining does."""
    also_without: bool = False


class WhatIfView(Struct, frozen=True, rename="camel"):
    changes: tuple[str, ...]
    starts: tuple[Started, ...]
    waits: tuple[Waiting, ...]
    evicted: tuple[Evicted, ...]
    no_longer_waiting: tuple[str, ...]
    """Gangs that wait without the change, and do not wait with it."""
    submitted: tuple[str, ...] = ()
    """Gangs that were submitted."""
    converged: bool = True

    @property
    def submitted_waits(self) -> bool:
        return any(wait.gang in self.submitted for wait in self.waits)


class Outcome(Struct, frozen=True):
    """The cycles until nothing changes any more."""

    results: tuple[CycleResult, ...]
    converged: bool

    @property
    def placements(self) -> list[Placement]:
        return [placement for result in self.results for placement in result.placements]


def what_if_view(
    before: Outcome,
    after: Outcome,
    *,
    changes: Sequence[str],
    drained: Iterable[str],
    submitted: Iterable[str],
    names: dict[str, str],
) -> WhatIfView:
    """Compare both outcomes. `drained`: the gang of each pod that the change evicts; `names`: gangs by id."""
    starts_before = {placement.group for placement in before.placements}
    evicted_before = {each.gang for each in _evicted(before, (), names)}
    waits_before = {verdict.group for verdict in before.results[-1].verdicts}
    waits = {verdict.group: verdict for verdict in after.results[-1].verdicts}
    return WhatIfView(
        changes=tuple(changes),
        starts=tuple(_started(placement, starts_before) for placement in after.placements),
        waits=tuple(
            Waiting(
                gang=group,
                reason=verdict.reason.value,
                message=verdict.message,
                help=tuple(split_steps(verdict.next_step)),
                also_without=group in waits_before,
            )
            for group, verdict in sorted(waits.items())
        ),
        evicted=tuple(_evicted(after, drained, names, before=evicted_before)),
        no_longer_waiting=tuple(sorted(waits_before - waits.keys())),
        submitted=tuple(sorted(set(submitted))),
        converged=before.converged and after.converged,
    )


def _started(placement: Placement, before: set[str]) -> Started:
    nodes = Counter(bind.node for bind in placement.binds)
    return Started(
        gang=placement.group,
        pods=len(placement.binds),
        domain=f"{placement.level} {placement.domain}".strip(),
        nodes=tuple(NodeShare(node, number) for node, number in sorted(nodes.items())),
        also_without=placement.group in before,
    )


def _evicted(
    outcome: Outcome, drained: Iterable[str], names: dict[str, str], *, before: Iterable[str] = ()
) -> list[Evicted]:
    """Evictions by gang, reason and beneficiary; first those of the change itself."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for gang in drained:
        counts[gang, "Drained", ""] += 1
    for result in outcome.results:
        for evict in result.evictions:
            gang = names.get(evict.gang, f"{evict.namespace}/{evict.name}")
            counts[gang, evict.reason.value, evict.beneficiary] += 1
    return [
        Evicted(gang, number, reason, beneficiary, also_without=gang in before)
        for (gang, reason, beneficiary), number in counts.items()
    ]
