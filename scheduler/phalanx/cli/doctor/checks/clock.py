"""The clocks of this machine, of the leader and of the nodes agree with that of the API server."""

from collections.abc import Iterator

from phalanx.cli.doctor.finding import Finding, Severity, names
from phalanx.cli.doctor.installation import Installation
from phalanx.cli.doctor.limits import CLOCK_SKEW_S
from phalanx.cli.formatting import count
from phalanx.model.api.core import Lease

_ACTION = "Synchronise it by NTP."


def check(seen: Installation) -> Iterator[Finding]:
    """A Lease that was renewed in the future shows a clock that is ahead."""
    differs = round((seen.local_ms - seen.server_ms) / 1000)
    if abs(differs) > CLOCK_SKEW_S:
        direction = "ahead of" if differs > 0 else "behind"
        yield Finding(
            Severity.WARNING,
            "clock of this machine",
            f"It is {abs(differs)} s {direction} that of the API server.",
            f"{_ACTION} Either of the two clocks may be wrong.",
        )
    if seen.lease is not None and (ahead := _ahead_s(seen.lease, seen)) > CLOCK_SKEW_S:
        yield Finding(
            Severity.WARNING,
            f"clock of the leader {seen.lease.spec.holder_identity or ''}".rstrip(),
            f"It is {ahead} s ahead of that of the API server.",
            f"{_ACTION} Times in the status of gangs and queues are wrong until then.",
        )
    ahead_by = {each.metadata.name: _ahead_s(each, seen) for each in seen.node_leases}
    wrong = [name for name, seconds in ahead_by.items() if seconds > CLOCK_SKEW_S]
    if wrong:
        yield Finding(
            Severity.WARNING,
            "clocks of nodes",
            f"{count(len(wrong), 'node')} ahead of the API server by up to"
            f" {max(ahead_by[name] for name in wrong)} s: {names(wrong)}.",
            f"{_ACTION} Times of faults on these nodes are wrong until then.",
        )


def _ahead_s(lease: Lease, seen: Installation) -> int:
    return round(-(seen.seconds_since(lease.spec.renew_time) or 0))
