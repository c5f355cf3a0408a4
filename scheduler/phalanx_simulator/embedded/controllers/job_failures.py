"""podFailurePolicy: which failed pods count against backoffLimit, and which fail the Job."""

from typing import Any

from msgspec import Struct

from phalanx_simulator.embedded.store import Object


class Failures(Struct, frozen=True):
    """Effect of a Job's newly failed pods.

    `verdict`: why the Job fails, empty if it does not.
    """

    counted: int
    verdict: str = ""


def judge(job: Object, failed: list[Object]) -> Failures:
    """Apply the podFailurePolicy to failed pods: the first matching rule decides."""
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or []
    counted, verdict = 0, ""
    for pod in failed:
        action, why = _first_match(rules, pod)
        counted += action != "Ignore"
        if action == "FailJob" and not verdict:
            verdict = why
    return Failures(counted, verdict)


def _first_match(rules: list[Any], pod: Object) -> tuple[str, str]:
    """Action of the first matching rule (Count without one), and the Job's message."""
    for index, rule in enumerate(rules):
        found = _matched(rule, pod)
        if found:
            return rule["action"], f"{found} matching {rule['action']} rule at index {index}"
    return "Count", ""


def _matched(rule: Object, pod: Object) -> str:
    """The part of the pod that the rule matches; empty if it does not."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    if rule.get("onExitCodes"):
        container, code = _exit_code(rule["onExitCodes"], pod["status"])
        return f"Container {container} for pod {name} failed with exit code {code}" if container else ""
    statuses = {one["type"]: one["status"] for one in pod["status"].get("conditions", [])}
    for pattern in rule.get("onPodConditions") or []:
        if statuses.get(pattern["type"]) == pattern.get("status", "True"):
            return f"Pod {name} has condition {pattern['type']}"
    return ""


def _exit_code(wanted: Object, status: Object) -> tuple[str, int]:
    """The first container that ended with one of the codes, or with none of them for NotIn."""
    containers = [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
    for container in containers:
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
        is_meant = wanted.get("containerName", container["name"]) == container["name"]
        if is_meant and code and (code in wanted["values"]) == (wanted["operator"] == "In"):
            return container["name"], code
    return "", 0
