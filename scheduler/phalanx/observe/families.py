"""Metrics with their children by labels, and the bound on how many children a metric may have."""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Generic, TypeVar

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from phalanx.limits import METRIC_SERIES_MAX

M = TypeVar("M", Counter, Gauge, Histogram)


class Family(Generic[M]):
    """A metric and its children by their labels; a metric without labels is its own only child."""

    def __init__(self, metric: M) -> None:
        self._metric: M = metric
        self._children: dict[tuple[str, ...], M] = {(): metric}

    def __len__(self) -> int:
        return len(self._children) - 1

    def has(self, *labels: str) -> bool:
        return labels in self._children

    def of(self, *labels: str) -> M:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._metric.labels(*labels)
        return child

    def keep(self, labels: Collection[tuple[str, ...]]) -> None:
        """Remove all children with other labels."""
        for each in [known for known in self._children if known and known not in labels]:
            self.forget(each)

    def forget(self, labels: tuple[str, ...]) -> None:
        """Remove a child."""
        self._metric.remove(*labels)
        del self._children[labels]


class Gauges(Family[Gauge]):
    """A gauge whose children are all set at once."""

    def __init__(self, metric: Gauge) -> None:
        super().__init__(metric)
        self._shown: dict[tuple[str, ...], float] = {}

    def show(self, values: Mapping[tuple[str, ...], float]) -> bool:
        """Set these children and remove all others; unchanged values cost nothing.

        Whether some were left out: a metric has at most METRIC_SERIES_MAX children, the first ones.
        """
        kept = dict(islice(values.items(), METRIC_SERIES_MAX))
        for labels in self._shown.keys() - kept.keys():
            self.forget(labels)
        for labels, value in kept.items():
            if self._shown.get(labels) != value:
                self.of(*labels).set(value)
        self._shown = kept
        return len(kept) < len(values)


class Refresh(Collector):
    """Has no metrics. It is asked first when the metrics are read, and lets others be computed then."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        self._refresh = refresh

    def describe(self) -> Iterable[Metric]:
        """Declare nothing; the registry would ask `collect` otherwise."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Compute the others."""
        self._refresh()
        return ()
