"""All checks in their order, each with what it needs."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from phalanx.cli.doctor.checks import (
    clock,
    configuration,
    crds,
    evicted_jobs,
    lease,
    other_schedulers,
    pods,
    queues,
    rights,
    taints,
    topology,
    upgrade,
    webhooks,
)
from phalanx.cli.doctor.finding import CheckFindings, Finding, Severity
from phalanx.cli.doctor.installation import Installation


class Check(Struct, frozen=True):
    """One check and the fields of the installation that it reads."""

    name: str
    find: Callable[[Installation], Iterator[Finding]]
    needs: tuple[str, ...]


CHECKS: Final = (
    Check("crds", crds.check, ("crds",)),
    Check("rights", rights.check, ("rights",)),
    Check("lease", lease.check, ("lease",)),
    Check("configuration", configuration.check, ("events",)),
    Check("clock", clock.check, ("lease", "node_leases")),
    Check("topology", topology.check, ("nodes", "topologies")),
    Check("taints", taints.check, ("nodes", "pods")),
    Check("schedulers", other_schedulers.check, ("nodes", "pods")),
    Check("queues", queues.check, ("queues",)),
    Check("webhooks", webhooks.check, ("webhooks", "endpoint_slices")),
    Check("pods", pods.check, ("pods",)),
    Check("jobs", evicted_jobs.check, ("events", "jobs")),
    Check(
        "upgrade",
        upgrade.check,
        ("nodes", "pods", "queues", "namespaces", "priority_classes", "pod_groups", "budgets"),
    ),
)


def examine(seen: Installation) -> tuple[CheckFindings, ...]:
    """The findings of all checks. A check that lacks its input is a finding too."""
    return tuple(CheckFindings(check.name, tuple(_found(check, seen))) for check in CHECKS)


def _found(check: Check, seen: Installation) -> Iterator[Finding]:
    unread = [seen.unread[field] for field in check.needs if field in seen.unread]
    if not unread:
        yield from check.find(seen)
    for reason in unread:
        yield Finding(
            Severity.WARNING,
            f"check {check.name}",
            f"It was not made: {reason}.",
            "Use a kubeconfig of a cluster administrator.",
        )


def is_wrong(results: tuple[CheckFindings, ...]) -> bool:
    """Whether there is more than notes."""
    return any(each.severity is not Severity.NOTE for result in results for each in result.findings)
