"""The service account of the scheduler has every right that `deploy/base` grants."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from phalanx.cli.doctor.finding import Finding, Severity
from phalanx.cli.doctor.installation import Installation, Right

_ROLE: Final = "ClusterRole"


def check(seen: Installation) -> Iterator[Finding]:
    """One finding for each resource, with the verbs that are missing."""
    missing: dict[tuple[str, str, str, str], list[str]] = {}
    for right in sorted(right for right, allowed in seen.rights.items() if not allowed):
        key = (right.group, right.resource, right.namespace, right.name)
        missing.setdefault(key, []).append(right.verb)
    account = f"ServiceAccount {seen.namespace}/{seen.service_account}"
    for (group, resource, namespace, name), verbs in missing.items():
        which = f"{resource}.{group}" if group else resource
        where = (f" named {name}" if name else "") + (f" in namespace {namespace}" if namespace else "")
        role = "Role phalanx-lease" if namespace else "ClusterRole phalanx-scheduler"
        yield Finding(
            Severity.ERROR,
            account,
            f"It may not {', '.join(verbs)} {which}{where}.",
            f"Apply the {role} and its binding: `kubectl apply -k deploy/base`.",
        )


def granted(roles: Iterator[Mapping[str, Any]], *, namespace: str) -> Iterator[Right]:
    """The rights in the rules of the roles; those of a Role are for this namespace."""
    for role in roles:
        place = "" if role["kind"] == _ROLE else namespace
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames", [""]):
                            yield Right(group, resource, verb, place, name)
