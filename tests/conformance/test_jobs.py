"""Defaults and validation of Jobs."""

from typing import Any

import pytest

from tests.conformance.api import Api, Object

RULE: Object = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def job(restart: str = "Never", **spec: Any) -> Object:
    """A Job that is suspended, so that no controller creates pods for it."""
    container = {"name": "main", "image": "busybox:1"}
    pod = {"restartPolicy": restart, "containers": [container]}
    return {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": {"spec": pod}, **spec}}


def path(api: Api) -> str:
    return f"/apis/batch/v1/namespaces/{api.namespace}/jobs"


async def test_defaults(api: Api) -> None:
    spec = (await api.post(path(api), job())).object["spec"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert (spec["completionMode"], spec["podReplacementPolicy"]) == ("NonIndexed", "TerminatingOrFailed")


async def test_with_a_failure_policy_pods_are_replaced_after_they_failed(api: Api) -> None:
    rule = {**RULE, "onPodConditions": [{"type": "DisruptionTarget"}]}
    spec = (await api.post(path(api), job(podFailurePolicy={"rules": [rule]}))).object["spec"]
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["podFailurePolicy"] == {"rules": [RULE]}


@pytest.mark.parametrize(
    ("restart", "spec", "field"),
    [
        ("Always", {}, "spec.template.spec.restartPolicy"),
        ("OnFailure", {"podFailurePolicy": {"rules": [RULE]}}, "spec.template.spec.restartPolicy"),
        (
            "Never",
            {"podFailurePolicy": {"rules": [RULE]}, "podReplacementPolicy": "TerminatingOrFailed"},
            "spec.podReplacementPolicy",
        ),
    ],
)
async def test_invalid_fields_of_a_job(api: Api, restart: str, spec: Object, field: str) -> None:
    code, reason, message = (await api.post(path(api), job(restart, **spec))).refusal
    assert (code, reason) == (422, "Invalid")
    assert field in message


async def test_a_job_without_a_pod_template(api: Api) -> None:
    manifest = {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": {}}}
    code, reason, message = (await api.post(path(api), manifest)).refusal
    assert (code, reason) == (422, "Invalid")
    assert "spec.template.spec.restartPolicy" in message
