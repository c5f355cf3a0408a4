"""A scheduler leads: the Lease exists, is held, and is renewed."""

from collections.abc import Iterator

from phalanx.cli.doctor.finding import Finding, Severity
from phalanx.cli.doctor.installation import Installation
from phalanx.cli.doctor.limits import CLOCK_SKEW_S
from phalanx.cli.verbs.formatting import age


def check(seen: Installation) -> Iterator[Finding]:
    """At most one finding."""
    problem = _problem(seen)
    if problem:
        yield Finding(
            Severity.ERROR,
            f"Lease {seen.namespace}/{seen.lease_name}",
            problem,
            f"No scheduler runs. Look at its pods and logs: `kubectl -n {seen.namespace} get pods`."
            " If it runs in another namespace, set --namespace.",
        )


def _problem(seen: Installation) -> str | None:
    if seen.lease is None:
        return "It does not exist: no scheduler has ever led."
    spec = seen.lease.spec
    if not spec.holder_identity:
        return "Nobody holds it: the last leader has stopped."
    since = seen.seconds_since(spec.renew_time)
    age = round(since) if since is not None else None
    allowed = (spec.lease_duration_seconds or 0) + CLOCK_SKEW_S
    if age is None or age > allowed:
        ago = f"{age} s ago" if age is not None else "never"
        return f"{spec.holder_identity} renewed it {ago}, more than {spec.lease_duration_seconds} s."
    return None


def leader(seen: Installation) -> str:
    """Who leads, and since when; empty for nobody."""
    if seen.lease is None or _problem(seen) is not None:
        return ""
    since = seen.seconds_since(seen.lease.spec.acquire_time)
    return f"{seen.lease.spec.holder_identity}" + (f", for {age(round(since))}" if since else "")
