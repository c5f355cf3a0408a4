"""The configuration file that the scheduler was given last is used."""

from collections.abc import Iterator
from typing import Final

from phalanx.cli.doctor.finding import Finding, Severity
from phalanx.cli.doctor.installation import Installation, Values

REASONS: Final = ("ConfigReloaded", "ConfigRefused")
"""The events about the Lease that say it."""


def check(seen: Installation) -> Iterator[Finding]:
    """At most one finding, of the newest event. Events are kept for an hour by default."""
    ours = [event for event in seen.events if event.get("reason") in REASONS]
    last = max(ours, key=_time, default=None)
    if last is not None and last["reason"] == "ConfigRefused":
        yield Finding(
            Severity.ERROR,
            f"Lease {seen.namespace}/{seen.lease_name}",
            str(last.get("note") or "The configuration was refused, the old one stays in effect."),
            "Correct the file: `phalanx config check FILE` says where it is wrong.",
        )


def _time(event: Values) -> str:
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("eventTime") or "")
