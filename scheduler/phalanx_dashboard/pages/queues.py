"""The tree of queues, and their shares over time as far as the dashboard has seen them."""

from collections import deque
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from phalanx.cli.verbs.formatting import is_device
from phalanx.cli.verbs.views.queues import QueueRow, QueuesView
from phalanx.model.resources import CPU, MEMORY, Resources

from phalanx_dashboard.facts import Facts

_SAMPLES_MAX: Final = 720
"""Samples of the shares of queues. With the period below these are two hours."""

_SAMPLE_PERIOD_S: Final = 10
"""Seconds between two samples of the shares of queues."""


class QueueSample(Struct, frozen=True):
    used: Resources
    fair_share: Resources


class Sample(Struct, frozen=True):
    """All queues at one time."""

    at: int
    """Seconds since the epoch."""
    queues: Mapping[str, QueueSample]


class ShareHistory:
    """The last samples. They live as long as the dashboard."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES_MAX)

    def add(self, view: QueuesView, *, now_ms: int) -> None:
        """Keep the reading, if the last one that was kept is old enough."""
        now = now_ms // 1000
        if self._samples and now - self._samples[-1].at < _SAMPLE_PERIOD_S:
            return
        rows = {row.name: QueueSample(row.used, row.fair_share) for row in view.queues}
        self._samples.append(Sample(now, rows))

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The oldest first."""
        return tuple(self._samples)


class Shares(Struct, frozen=True, rename="camel"):
    """One queue over time; None where it did not exist."""

    queue: str
    used: tuple[int | None, ...]
    fair_share: tuple[int | None, ...]


class QueuesPage(Struct, frozen=True, rename="camel"):
    resource: str
    resources: tuple[str, ...]
    """What can be shown instead."""
    left_out: str
    """Why there are no queues, if they could not be read."""
    queues: tuple[QueueRow, ...]
    times: tuple[int, ...]
    shares: tuple[Shares, ...]


def queues_page(facts: Facts, samples: tuple[Sample, ...], *, resource: str = "") -> QueuesPage:
    """The page for one resource; the one of which there is most by default."""
    view = facts.queues
    resource = resource or view.resource
    left_out = facts.seen.unread.get("Queue", "")
    if left_out:
        samples = ()
    return QueuesPage(
        resource=resource,
        resources=_resources(view),
        left_out=left_out,
        queues=view.queues,
        times=tuple(sample.at for sample in samples),
        shares=tuple(_shares(row.name, samples, resource) for row in view.queues) if samples else (),
    )


def _resources(view: QueuesView) -> tuple[str, ...]:
    parts = [part for row in view.queues for part in (row.guarantee, row.limit, row.used, row.fair_share)]
    names = {name for part in parts for name in part}
    return tuple(sorted(name for name in names | {view.resource} if is_device(name) or name in (CPU, MEMORY)))


def _shares(queue: str, samples: tuple[Sample, ...], resource: str) -> Shares:
    found = [sample.queues.get(queue) for sample in samples]
    return Shares(
        queue=queue,
        used=tuple(None if each is None else each.used.get(resource, 0) for each in found),
        fair_share=tuple(None if each is None else each.fair_share.get(resource) for each in found),
    )
