"""The service account of the scheduler has every right that `deploy/base` grants."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from phalanx.cli.doctor.finding import Finding, Severity
from phalanx.cli.doctor.installation import Installation, Right
from phalanx.kube.workload_suspender import SUSPENSIONS_NAME
from phalanx.model.workloads.known import KNOWN

_ROLE: Final = "ClusterRole"

_SUSPENDED: Final = frozenset(
    (kind.group, kind.plural) for kind in (*KNOWN.by_name.values(), *KNOWN.above.values()) if kind.suspended
)
_LOST: Final = " So evicted pods are deleted instead of suspending their workload, and may cost it retries."


def _serves_suspension(right: Right) -> bool:
    """Whether evictions work without the right, but cost retries."""
    is_workload = (right.group, right.resource) in _SUSPENDED and right.verb in ("get", "patch")
    return is_workload or right.name == SUSPENSIONS_NAME


_SHOWN: Final = 5
"""Resources that one finding lists. A role that was not applied lacks a hundred rights."""


def check(seen: Installation) -> Iterator[Finding]:
    """One finding for each role, with the rights that it lacks, and one for those of suspensions."""
    missing: dict[tuple[str, bool], dict[tuple[str, str, str, str], list[str]]] = {}
    for right in sorted(right for right, allowed in seen.rights.items() if not allowed):
        role = "Role phalanx-lease" if right.namespace else "ClusterRole phalanx-scheduler"
        about = (right.group, right.resource, right.namespace, right.name)
        of_role = missing.setdefault((role, _serves_suspension(right)), {})
        of_role.setdefault(about, []).append(right.verb)
    account = f"ServiceAccount {seen.namespace}/{seen.service_account}"
    for (role, is_optional), lacking in missing.items():
        texts = [_text(*about, verbs) for about, verbs in lacking.items()]
        more = len(texts) - _SHOWN
        listed = "; ".join(texts[:_SHOWN]) + (f"; and {more} more resources" if more > 0 else "")
        yield Finding(
            Severity.WARNING if is_optional else Severity.ERROR,
            account,
            f"It may not {listed}.{_LOST if is_optional else ''}",
            f"Apply the {role} and its binding: `kubectl apply -k deploy/base`.",
        )


def _text(group: str, resource: str, namespace: str, name: str, verbs: list[str]) -> str:
    which = f"{resource}.{group}" if group else resource
    where = (f" named {name}" if name else "") + (f" in namespace {namespace}" if namespace else "")
    return f"{', '.join(verbs)} {which}{where}"


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
