"""docs/metrics.md lists every metric with its type and labels."""

import re
from pathlib import Path

from phalanx.observe.metrics import Metrics
from prometheus_client import Counter, Gauge, Histogram

from tests.manual_clock import ManualClock

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
TYPES = {Counter: "counter", Gauge: "gauge", Histogram: "histogram"}


def declared() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels of every metric, by the name that the page uses."""
    found = {}
    for collector in Metrics(ManualClock()).registry._collector_to_names:
        kind = TYPES.get(type(collector))  # type: ignore[arg-type]
        if kind is not None and isinstance(collector, Counter | Gauge | Histogram):
            name = collector._name + ("_total" if kind == "counter" else "")
            found[name] = (kind, tuple(collector._labelnames))
    return found


def test_the_page_has_type_and_labels_of_every_metric() -> None:
    rows = re.findall(r"^\| `(phalanx_\w+)` \| (\w+) \| ([^|]*)\|", PAGE, re.MULTILINE)
    assert {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows} == declared()
