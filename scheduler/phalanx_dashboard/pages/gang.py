"""One gang: verdict, timeline, its pods in the topology, certificate, events."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from phalanx.cli.verbs.views.gangs import GangEntry, is_alive
from phalanx.cli.verbs.views.nodes import NodeRow
from phalanx.cli.verbs.views.why import WhyView, why_view
from phalanx.model.api.values import seconds
from phalanx.model.gangs import Gang
from phalanx.model.pods import Pod

from phalanx_dashboard.facts import Facts
from phalanx_dashboard.pages.topology import Levels, levels_of, node_path

_PODS_SHOWN: Final = 500
"""Pods that the page of a gang lists. `kubectl get pods` lists the others."""

_DOMAINS_SHOWN: Final = 64
"""Domains that the picture of a gang shows, those with most pods first."""


class Step(Struct, frozen=True, rename="camel"):
    """A step in the life of a gang."""

    at: int
    """Seconds since the epoch."""
    what: str


class PodLine(Struct, frozen=True, rename="camel"):
    name: str
    role: str
    phase: str
    node: str
    since: int
    """When it got its node, in seconds since the epoch; 0 if it has none."""


class NodeCell(Struct, frozen=True, rename="camel"):
    """A node in the picture of a gang."""

    name: str
    pods: int
    """Pods of this gang."""
    condition: str
    free: int | None
    total: int


class DomainCells(Struct, frozen=True, rename="camel"):
    """The nodes of a domain of the innermost level."""

    path: tuple[str, ...]
    """The domains around it, the widest first; empty without a topology."""
    pods: int
    """Pods of this gang."""
    nodes: tuple[NodeCell, ...]


class GangPage(Struct, frozen=True, rename="camel"):
    why: WhyView
    resource: str
    levels: tuple[str, ...]
    timeline: tuple[Step, ...]
    """The oldest first."""
    domains: tuple[DomainCells, ...]
    """Those with pods of the gang, with most pods first."""
    more_domains: int
    pods: tuple[PodLine, ...]
    more_pods: int


def gang_page(facts: Facts, *, namespace: str, kind: str, name: str) -> GangPage | None:
    entry = find(facts, namespace=namespace, kind=kind, name=name)
    if entry is None:
        return None
    members = entry.gang.members if entry.gang is not None else ()
    levels = levels_of(facts, entry.gang.topology.name if entry.gang is not None else None)
    domains = _domains(members, levels, facts)
    return GangPage(
        why=why_view(entry, (each.row for each in facts.entries), facts.events),
        resource=facts.nodes.resource,
        levels=tuple(level.name for level in levels),
        timeline=tuple(sorted(_steps(entry), key=lambda step: step.at)),
        domains=tuple(domains[:_DOMAINS_SHOWN]),
        more_domains=max(len(domains) - _DOMAINS_SHOWN, 0),
        pods=tuple(_pod(pod) for pod in members[:_PODS_SHOWN]),
        more_pods=max(len(members) - _PODS_SHOWN, 0),
    )


def find(facts: Facts, *, namespace: str, kind: str, name: str) -> GangEntry | None:
    """The gang that is shown under this kind and name."""
    wanted = (namespace, kind, name)
    for entry in facts.entries:
        if (entry.row.namespace, entry.row.kind, entry.row.name) == wanted:
            return entry
    return None


def _steps(entry: GangEntry) -> Iterator[Step]:
    gang, group = entry.gang, entry.group
    started = group.status.started_at if group is not None else None
    if gang is None:
        created = group.metadata.creation_timestamp if group is not None else None
        yield from (
            Step(seconds(at), what) for at, what in ((created, "created"), (started, "started")) if at
        )
        return
    yield Step(gang.created, "created")
    yield from _placements(gang)
    if gang.started_at or started:
        yield Step(gang.started_at or seconds(started or ""), "started")
    yield from _ends(gang.members)


def _placements(gang: Gang) -> Iterator[Step]:
    """When its pods got nodes: the first and the last one, and replacements of lost ones."""
    times = sorted(pod.bound_since for pod in gang.members if pod.bound_since)
    if not times:
        return
    late = [at for at in times if gang.started_at and at > gang.started_at]
    early = times[: len(times) - len(late)]
    if early:
        yield Step(early[0], "first pod placed")
        if len(early) > 1:
            yield Step(early[-1], f"{len(early)} pods placed")
    for at, number in sorted(Counter(late).items()):
        yield Step(at, f"{number} more pod{'s' if number > 1 else ''} placed")
    running = [pod.running_since for pod in gang.members if pod.running_since]
    if running:
        yield Step(max(running), f"{len(running)} pod{'s' if len(running) > 1 else ''} running")


def _ends(members: Sequence[Pod]) -> Iterator[Step]:
    for at, number in sorted(Counter(pod.disrupted for pod in members if pod.disrupted).items()):
        yield Step(at, f"{number} evicted")
    for at, number in sorted(Counter(pod.ended for pod in members if pod.ended).items()):
        yield Step(at, f"{number} failed or deleted")
    done = [pod.ran[1] for pod in members if pod.ran]
    if done:
        yield Step(max(done), f"{len(done)} finished")


def _pod(pod: Pod) -> PodLine:
    return PodLine(pod.name, pod.role, pod.phase.value, pod.node or "", pod.bound_since)


def _domains(members: Sequence[Pod], levels: Levels, facts: Facts) -> list[DomainCells]:
    """The domains of the innermost level that have pods of the gang, with all their nodes."""
    counts = Counter(str(pod.node) for pod in members if pod.node is not None and is_alive(pod))
    if not counts:
        return []
    paths = {name: node_path(facts, name, levels) for name in counts}
    wanted = set(paths.values())
    found: dict[tuple[str, ...], list[NodeCell]] = {path: [] for path in wanted}
    rows = facts.node_by_name
    for name, row in rows.items():
        path = node_path(facts, name, levels)
        # Without levels all nodes are one domain, of which only those of the gang are of interest.
        if path in wanted and (path or name in counts):
            found[path].append(_cell(row, counts, facts))
    for name, number in counts.items():
        if name not in rows:  # nodes may not be read
            found[paths[name]].append(NodeCell(name, number, "", None, 0))
    return _ordered(found)


def _cell(row: NodeRow, counts: Mapping[str, int], facts: Facts) -> NodeCell:
    resource = facts.nodes.resource
    free = None if row.free is None else max(row.free.get(resource, 0), 0)
    total = row.allocatable.get(resource, 0)
    return NodeCell(row.name, counts.get(row.name, 0), row.condition.value, free, total)


def _ordered(found: Mapping[tuple[str, ...], Sequence[NodeCell]]) -> list[DomainCells]:
    domains = [
        DomainCells(path, sum(cell.pods for cell in cells), tuple(sorted(cells, key=lambda cell: cell.name)))
        for path, cells in found.items()
    ]
    return sorted(domains, key=lambda domain: (-domain.pods, domain.path))
