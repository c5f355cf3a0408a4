"""The optional policy that keeps the retries of Jobs, on a real API server."""

import asyncio
from typing import Any

import pytest
import yaml
from phalanx_controlplane.controlplane import ControlPlane

from tests.deploy.manifests import DEPLOY

pytestmark = [pytest.mark.controlplane, pytest.mark.asyncio(loop_scope="session")]

API = "/apis/admissionregistration.k8s.io/v1"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
IGNORED = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
]
COUNTED = [{"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]


def job(*, scheduler: str = "phalanx", restart: str = "Never", **fields: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "train:1"}]
    spec = {"schedulerName": scheduler, "restartPolicy": restart, "containers": containers}
    body = {"suspend": True, "template": {"spec": spec}, **fields}
    meta = {"generateName": "retries-"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}


async def test_a_job_without_a_policy_gets_one(control_plane: ControlPlane) -> None:
    text = (DEPLOY / "retries" / "jobs.yaml").read_text()
    policy, binding = yaml.safe_load_all(text)
    paths = [f"{API}/mutatingadmissionpolicies", f"{API}/mutatingadmissionpolicybindings"]
    async with control_plane.session() as session:

        async def rules(made: dict[str, Any]) -> Any:
            query = {"dryRun": "All"}
            async with session.post(JOBS, json=made, params=query) as answer:
                assert answer.status == 201, await answer.text()
                return (await answer.json())["spec"].get("podFailurePolicy", {}).get("rules")

        for path, document in zip(paths, (policy, binding), strict=True):
            async with session.post(path, json=document) as answer:
                assert answer.status == 201, await answer.text()
        try:
            async with asyncio.timeout(60):
                while await rules(job()) != IGNORED:
                    await asyncio.sleep(0.5)
            # A Job may have another policy, belong to another scheduler, or restart its containers itself.
            assert await rules(job(podFailurePolicy={"rules": COUNTED})) == COUNTED
            assert await rules(job(scheduler="other")) is None
            assert await rules(job(restart="OnFailure")) is None
        finally:
            for path, document in zip(paths, (policy, binding), strict=True):
                name = document["metadata"]["name"]
                async with session.delete(f"{path}/{name}", raise_for_status=True):
                    pass
