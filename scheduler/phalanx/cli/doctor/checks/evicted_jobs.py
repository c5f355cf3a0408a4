"""Jobs of this scheduler that have failed after their pods were evicted: nobody creates their pods again."""

from collections.abc import Iterator
from typing import Final

from phalanx.cli.doctor.finding import Finding, Severity, names
from phalanx.cli.doctor.installation import Installation, Values
from phalanx.cli.formatting import count

_FAILED: Final = "Failed"
_TOO_MANY: Final = "BackoffLimitExceeded"
EVICTED: Final = "Preempted"
"""The reason of the event about a Job of which pods were evicted."""


def check(seen: Installation) -> Iterator[Finding]:
    """At most one finding. Jobs are known by events, which are kept for an hour by default."""
    evicted = {
        (event.get("regarding") or {}).get("uid") for event in seen.events if event.get("reason") == EVICTED
    }
    lost = [job for job in seen.jobs if job["metadata"].get("uid") in evicted and _is_over_limit(job)]
    if lost:
        listed = names(f"{job['metadata']['namespace']}/{job['metadata']['name']}" for job in lost)
        yield Finding(
            Severity.WARNING,
            "Jobs",
            f"{count(len(lost), 'Job')} failed by an eviction, which cost all retries: {listed}.",
            "Submit them again, with a podFailurePolicy that ignores DisruptionTarget.",
        )


def _is_over_limit(job: Values) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(
        each.get("type") == _FAILED and each.get("status") == "True" and each.get("reason") == _TOO_MANY
        for each in conditions
    )
