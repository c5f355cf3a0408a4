"""`phalanx what-if`: what would start, wait and be evicted after a change. The cluster is not touched."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec.structs import replace

from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.formatting import count
from phalanx.cli.verbs.formatting import names
from phalanx.cli.verbs.jobs import nodes_text
from phalanx.cli.verbs.options import ViewOptions
from phalanx.cli.verbs.printing import BOLD, DIM, GOOD, WARN, Cell, Format, Line, Span, line
from phalanx.cli.verbs.read import with_records
from phalanx.cli.verbs.runner import NotReadable, Question, ask
from phalanx.cli.verbs.seen import Seen
from phalanx.cli.verbs.tables import Column, table
from phalanx.cli.verbs.trial import Changes, try_changes
from phalanx.cli.verbs.views.gangs import NodeShare
from phalanx.cli.verbs.views.what_if import WhatIfView
from phalanx.model.api.kinds import KINDS, OF_STATUSES, STORAGE_KINDS, WATCHED_KINDS

_KINDS = tuple(kind for kind in (*WATCHED_KINDS, *STORAGE_KINDS) if kind not in OF_STATUSES)


def what_if(
    *,
    submit: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None,
    drain: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None,
    add_nodes: int = 0,
    like: str | None = None,
    queue: str | None = None,
    weight: int | None = None,
    config: Path | None = None,
    scheduler_namespace: str = "phalanx-system",
    options: ViewOptions | None = None,
) -> int:
    """Say what would start, wait and be evicted after a change, without touching the cluster.

    It reads the cluster and runs the code of the scheduler here, once without and once with the changes, as
    `phalanx decide` does. You need the right to list nodes and the pods of all namespaces. Several changes
    can be combined. The exit code is 5 if a gang that was submitted would wait.

    Parameters
    ----------
    submit
        Manifests to submit: files, folders, or - for standard input. Workloads such as Jobs get their pods.
    drain
        Nodes to drain: their pods are evicted, and controllers create them again.
    add_nodes
        How many nodes to add.
    like
        The node that added nodes are like.
    queue
        The queue whose weight is changed.
    weight
        The new weight of the queue.
    config
        The scheduler's configuration file; default: all defaults.
    scheduler_namespace
        The namespace of the scheduler, _where it keeps its records of gangs without a PodGroup.
    """
    options = options or ViewOptions()
    changes = Changes(
        submit=tuple(submit or ()),
        drain=tuple(drain or ()),
        add_nodes=add_nodes,
        like=like,
        queue=queue,
        weight=weight,
    )
    _check(changes)

    question = Question(
        name="what-if",
        kinds=_KINDS,
        view=partial(_answer, changes=changes, config=config),
        lines=_what_if_lines,
        code=lambda found: Exit.WAITS if found.submitted_waits else Exit.OK,
        everywhere=frozenset(kind for kind in _KINDS if KINDS[kind].namespaced),
        needed=("Node", "Pod"),
        enrich=partial(with_records, namespace=scheduler_namespace),
    )
    return ask(options, question)


def _answer(seen: Seen, *, changes: Changes, config: Path | None) -> WhatIfView:
    if not seen.knows_all_pods:
        raise NotReadable("it needs the right to list the pods of all namespaces, which use the nodes")
    found = try_changes(seen, changes, config=config, namespace=seen.namespace or "default")
    if not found.converged:
        print("note: the decisions did not converge", file=sys.stderr)
    return found


def _check(changes: Changes) -> None:
    """Raise BadInput for changes that make no sense together."""
    if (changes.add_nodes > 0) != (changes.like is not None) or changes.add_nodes < 0:
        raise BadInput("--add-nodes, --like: expected a number above 0 and a node, both or neither")
    if (changes.queue is None) != (changes.weight is None):
        raise BadInput("--queue, --weight: expected both or neither")
    if changes.weight is not None and changes.weight < 1:
        raise BadInput(f"--weight: expected a number above 0, found {changes.weight}")
    if not any((changes.submit, changes.drain, changes.add_nodes, changes.queue)):
        raise BadInput("expected a change: --submit, --drain, --add-nodes or --queue")


def _what_if_lines(view: WhatIfView, how: Format) -> list[Line]:
    """Changes, what starts, who is evicted, what waits; wide: also what happens without the change."""
    return list(_lines(view, how))


def _lines(view: WhatIfView, how: Format) -> Iterator[Line]:
    for change in view.changes:
        yield line(Span("if ", DIM), change)
    starts = [each for each in view.starts if how.is_wide or not each.also_without]
    evicted = [each for each in view.evicted if how.is_wide or not each.also_without]
    waits = [
        each for each in view.waits if how.is_wide or not each.also_without or each.gang in view.submitted
    ]
    yield from _section(
        Span("starts", GOOD),
        (Column("GANG"), Column("PODS"), Column("WHERE", wraps=True)),
        ((each.gang, str(each.pods), _where(each.domain, each.nodes, how)) for each in starts),
        how,
    )
    yield from _section(
        Span("evicted", WARN),
        (Column("GANG"), Column("PODS"), Column("REASON"), Column("FOR", wraps=True)),
        ((each.gang, str(each.pods), each.reason, each.beneficiary or "-") for each in evicted),
        how,
    )
    yield from _section(
        Span("waits", WARN),
        (Column("GANG"), Column("REASON"), Column("MESSAGE", wraps=True)),
        ((each.gang, each.reason, each.message) for each in waits),
        how,
    )
    for each in waits:
        for step in each.help:
            yield line(Span(f"  {each.gang}: ", DIM), step)
    if view.no_longer_waiting:
        yield ()
        yield line(Span("no longer waits: ", BOLD), names(view.no_longer_waiting, is_wide=how.is_wide))
    if not (starts or evicted or waits or view.no_longer_waiting):
        yield line("Nothing changes.")
    yield from _same(view, how)


def _same(view: WhatIfView, how: Format) -> Iterator[Line]:
    if how.is_wide:
        return
    starts = sum(each.also_without for each in view.starts)
    waits = sum(each.also_without and each.gang not in view.submitted for each in view.waits)
    counted = ((starts, "start"), (waits, "wait"))
    shown = [(count(number, "gang"), verb, number) for number, verb in counted if number]
    parts = [f"{gangs} {verb}{'' if number > 1 else 's'}" for gangs, verb, number in shown]
    if parts:
        yield line(Span(f"as without it: {' and '.join(parts)} (-o wide shows them)", DIM))


def _section(
    title: Span, header: Sequence[Column], rows: Iterable[Sequence[Cell]], how: Format
) -> Iterator[Line]:
    listed = list(rows)
    if listed:
        yield ()
        yield (title,)
        for each in table(header, listed, replace(how, width=max(how.width - 2, 0))):
            yield (Span("  "), *each)


def _where(domain: str, nodes: Sequence[NodeShare], how: Format) -> str:
    """Domain and nodes of a placement."""
    shown = nodes_text(nodes, is_wide=how.is_wide)
    return f"{domain}: {shown}" if domain else shown
