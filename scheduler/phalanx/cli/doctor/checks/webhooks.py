"""Every webhook whose service is in the cluster can be reached."""

from collections.abc import Iterator
from typing import Final

from phalanx.cli.doctor.finding import Finding, Severity
from phalanx.cli.doctor.installation import Installation, Values

_SERVICE_LABEL: Final = "kubernetes.io/service-name"
_CONCERNS: Final = frozenset(
    {"*", "*/*", "pods", "pods/*", "pods/binding", "pods/status", "podgroups", "queues", "topologies", "jobs"}
)
"""The resources without which gangs are not created or not started."""


def check(seen: Installation) -> Iterator[Finding]:
    """One finding for each webhook without a ready endpoint."""
    ready = {
        (each["metadata"].get("namespace", ""), (each["metadata"].get("labels") or {}).get(_SERVICE_LABEL))
        for each in seen.endpoint_slices
        if any(_is_ready(endpoint) for endpoint in each.get("endpoints") or ())
    }
    for configuration in seen.webhooks:
        for webhook in configuration.get("webhooks") or ():
            service = webhook["clientConfig"].get("service")
            if service is None or (service["namespace"], service["name"]) in ready:
                continue
            is_fatal = webhook.get("failurePolicy", "Fail") == "Fail" and _concerns_gangs(webhook)
            yield Finding(
                Severity.ERROR if is_fatal else Severity.WARNING,
                f"{configuration['kind']} {configuration['metadata']['name']}",
                f"Its webhook {webhook['name']} calls the service {service['namespace']}/{service['name']},"
                f" which has no ready endpoint; {_effect(webhook)}.",
                "Start the pods of the service, or delete the configuration if its project is not installed.",
            )


def _is_ready(endpoint: Values) -> bool:
    """An endpoint without the condition counts as ready, as the API defines it."""
    return (endpoint.get("conditions") or {}).get("ready") is not False


def _concerns_gangs(webhook: Values) -> bool:
    return any(_CONCERNS.intersection(rule.get("resources") or ()) for rule in webhook.get("rules") or ())


def _effect(webhook: Values) -> str:
    resources = sorted({name for rule in webhook.get("rules") or () for name in rule.get("resources") or ()})
    verb = "are refused" if webhook.get("failurePolicy", "Fail") == "Fail" else "are delayed"
    return f"requests for {', '.join(resources) or 'its resources'} {verb}"
