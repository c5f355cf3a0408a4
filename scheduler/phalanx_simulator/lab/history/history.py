"""A history: its jobs, and what it says of the cluster."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx_simulator.lab.engine.cluster import Pool
from phalanx_simulator.lab.engine.jobs import RecordedJob

_FORBIDDEN: Final = re.compile(r"[^a-z0-9]+")
_LABEL_CHARACTERS: Final = 63
_NAMELESS: Final = "none"


class HistoryError(ValueError):
    """A history cannot be read; the message names the file, its place, and what was expected."""


class RecordedQueue(Struct, frozen=True):
    """What a history says of a tenant's queue."""

    guarantee: int
    weight: int


class History(Struct, frozen=True):
    """`jobs` in order of submission, the first at 0 ms. `pools` are empty if it does not say them.

    `notes`: what was left out or assumed, one note each.
    """

    jobs: tuple[RecordedJob, ...]
    pools: tuple[Pool, ...] = ()
    queues: dict[str, RecordedQueue] = {}
    notes: tuple[str, ...] = ()


def in_order(jobs: Sequence[RecordedJob]) -> tuple[RecordedJob, ...]:
    """In order of submission, the first at 0 ms; files need not be sorted."""
    first = min((job.submit_ms for job in jobs), default=0)
    moved = (replace(job, submit_ms=job.submit_ms - first) for job in jobs)
    return tuple(sorted(moved, key=lambda job: job.submit_ms))


NodeKind = tuple[int, str, int, int]
"""Nodes that are equal: GPUs, their model, CPU in thousandths of a core, MiB of memory."""


def pools_of(nodes: Mapping[NodeKind, int], *, racks: Mapping[NodeKind, int] = {}) -> tuple[Pool, ...]:
    """A pool for each kind of nodes, the most GPUs first. How many nodes and racks there are of each."""
    return tuple(
        Pool(f"p{number}-", nodes[kind], kind[0], kind[2], kind[3], kind[1], racks.get(kind, 0))
        for number, kind in enumerate(sorted(nodes, reverse=True), start=1)
    )


class QueueNames:
    """Names of queues for names of tenants, which need not be labels; each tenant gets its own."""

    def __init__(self) -> None:
        self._by_tenant: dict[str, str] = {}
        self._taken: set[str] = set()

    def name_of(self, tenant: str) -> str:
        """The same name for the same tenant."""
        known = self._by_tenant.get(tenant)
        if known is None:
            known = self._by_tenant[tenant] = self._free(label_of(tenant))
            self._taken.add(known)
        return known

    def _free(self, name: str) -> str:
        number, tried = 1, name
        while tried in self._taken:
            number += 1
            end = f"-{number}"
            tried = name[: _LABEL_CHARACTERS - len(end)] + end
        return tried


def label_of(text: str) -> str:
    """The text as an RFC 1123 label."""
    return _FORBIDDEN.sub("-", text.lower()).strip("-")[:_LABEL_CHARACTERS].strip("-") or _NAMELESS


def counted(amount: int, one: str, many: str) -> str:
    """`1 job` or `3 jobs`."""
    return f"{amount:,} {one if amount == 1 else many}"


def notes_of(*found: tuple[int, str]) -> tuple[str, ...]:
    """Notes whose number is not 0, each after `N jobs`."""
    return tuple(f"{counted(amount, 'job', 'jobs')} {text}" for amount, text in found if amount)


def tenants_of(jobs: Iterable[RecordedJob]) -> tuple[str, ...]:
    """The queues that jobs name, sorted."""
    return tuple(sorted({job.tenant for job in jobs}))
