"""`phalanx doctor` on a real API server: with every fault put in, without any, and without rights."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from phalanx.cli.app import main
from phalanx.cli.doctor.examination import CHECKS
from phalanx.clock import SystemClock
from phalanx.kube.api_fields import format_micro_time
from phalanx_controlplane.controlplane import ControlPlane

from tests.crds import api
from tests.crds.files import definitions
from tests.deploy.manifests import DEPLOY, base, resources

pytestmark = [pytest.mark.controlplane, pytest.mark.asyncio(loop_scope="session")]

Values = dict[str, Any]

RIGHTS = {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
MERGE = {"Content-Type": "application/merge-patch+json"}
QUEUE_CRD = "queues.scheduling.phalanx.dev"


class Findings:
    """The answer of one `phalanx doctor -o json`."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        answer = json.loads(text)
        self.checks: list[str] = answer["checks"]
        self.lines = [
            f"{each['check']}: {each['severity']}: {each['object']}: {each['problem']}"
            for each in answer["findings"]
        ]

    def has(self, start: str, part: str = "") -> bool:
        return any(line.startswith(start) and part in line for line in self.lines)


async def doctor(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> Findings:
    capsys.readouterr()
    code = await asyncio.to_thread(main, ["doctor", "-o", "json", "--kubeconfig", str(kubeconfig)])
    out, err = capsys.readouterr()
    assert err == ""
    return Findings(code, out)


def lease(*, seconds: int) -> Values:
    """A Lease that is renewed so many seconds from now."""
    renewed = format_micro_time(SystemClock().now_ms() + 1000 * seconds)
    return {"spec": {"holderIdentity": "doctor-test", "leaseDurationSeconds": 15, "renewTime": renewed}}


async def send(session: aiohttp.ClientSession, method: str, path: str, body: Values | None = None) -> None:
    headers = MERGE if method == "PATCH" else None
    async with session.request(method, path, json=body, headers=headers) as answer:
        assert answer.status < 300, await answer.text()


@asynccontextmanager
async def there(session: aiohttp.ClientSession, collection: str, manifest: Values) -> AsyncIterator[str]:
    """An object that exists for a while; its path."""
    await send(session, "POST", collection, manifest)
    path = f"{collection}/{manifest['metadata']['name']}"
    try:
        yield path
    finally:
        await send(session, "DELETE", f"{path}?gracePeriodSeconds=0")


NODE: Values = {
    "metadata": {"name": "doctor-node"},
    "spec": {"taints": [{"key": "doctor", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"nvidia.com/gpu": "8"}, "capacity": {"nvidia.com/gpu": "8"}},
}
TOPOLOGY: Values = {
    "apiVersion": "scheduling.phalanx.dev/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "doctor"},
    "spec": {"levels": [{"name": "rack", "nodeLabel": "doctor/rack"}]},
}
QUEUE: Values = {
    "apiVersion": "scheduling.phalanx.dev/v1alpha1",
    "kind": "Queue",
    "metadata": {"name": "doctor"},
    "spec": {},
}
WEBHOOK: Values = {
    "metadata": {"name": "doctor"},
    "webhooks": [
        {
            "name": "pods.doctor.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"service": {"namespace": "doctor", "name": "missing"}, "caBundle": ""},
            "objectSelector": {"matchLabels": {"doctor": "on-no-pod"}},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ],
        }
    ],
}


EVENTS = "/apis/events.k8s.io/v1/namespaces/phalanx-system/events"
REFUSED: Values = {
    "metadata": {"name": "doctor", "namespace": "phalanx-system"},
    "eventTime": "2126-01-01T00:00:00.000000Z",
    "reportingController": "phalanx",
    "reportingInstance": "doctor-test",
    "action": "Reloading",
    "type": "Warning",
    "reason": "ConfigRefused",
    "note": "The configuration was refused: line 2",
    "regarding": {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "name": "phalanx",
        "namespace": "phalanx-system",
    },
}


def pod(name: str, **spec: Any) -> Values:
    requests = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "none", "resources": requests}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "automountServiceAccountToken": False, **spec},
    }


@asynccontextmanager
async def all_faults(session: aiohttp.ClientSession) -> AsyncIterator[None]:
    """Every fault that an API server can hold, undone at the end."""
    role = base("ClusterRole", "phalanx-scheduler")
    without = {**role, "rules": [rule for rule in role["rules"] if rule["resources"] != ["pods/binding"]]}
    phalanx = "/apis/scheduling.phalanx.dev/v1alpha1"
    webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{QUEUE_CRD}"
    pods = "/api/v1/namespaces/default/pods"
    message = "QueueNotFound: there is no queue doctor-2"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    not_ready = {
        "type": "Ready",
        "status": "False",
        "reason": "QueueInvalid",
        "message": "its parent is missing",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    ahead = {"metadata": {"name": "doctor-node"}, **lease(seconds=3600)}
    async with (
        there(session, "/api/v1/nodes", NODE),
        there(session, f"{phalanx}/topologies", TOPOLOGY),
        there(session, f"{phalanx}/queues", QUEUE) as queue,
        there(session, webhooks, WEBHOOK),
        there(session, LEASES.format("kube-node-lease"), ahead),
        there(session, EVENTS, REFUSED),
        there(session, pods, pod("doctor-other", schedulerName="other", nodeName="doctor-node")),
        there(session, pods, pod("doctor-waits", schedulerName="phalanx")) as waits,
    ):
        await api.apply(session, without)
        await send(session, "PATCH", crd, {"spec": {"names": {"categories": ["changed"]}}})
        await send(session, "PATCH", f"{queue}/status", {"status": {"conditions": [not_ready]}})
        await send(session, "PATCH", f"{waits}/status", {"status": {"conditions": [condition]}})
        await send(session, "PATCH", f"{LEASES.format('phalanx-system')}/phalanx", lease(seconds=-1050))
        try:
            yield
        finally:
            await api.apply(session, role)
            await api.install(session, [definitions()["Queue"]])
            await send(session, "PATCH", f"{LEASES.format('phalanx-system')}/phalanx", lease(seconds=0))


EXPECTED = [
    (f"crds: error: CustomResourceDefinition {QUEUE_CRD}: It differs", "spec.names.categories"),
    ("rights: error: ServiceAccount phalanx-system/phalanx: It may not create pods/binding.", ""),
    ("lease: error: Lease phalanx-system/phalanx: doctor-test renewed it 10", "more than 15 s"),
    ("configuration: error: Lease phalanx-system/phalanx: The configuration was refused: line 2", ""),
    ("clock: warning: clocks of nodes:", "doctor-node"),
    ("topology: warning: Topology doctor:", "doctor/rack"),
    ("taints: warning: taint doctor:NoSchedule: No pod of phalanx tolerates it", "doctor-node"),
    ("schedulers: warning: scheduler other: It placed", "default/doctor-other on doctor-node"),
    ("queues: error: Queue doctor: QueueInvalid: its parent is missing", ""),
    ("webhooks: error: ValidatingWebhookConfiguration doctor:", "doctor/missing"),
    ("pods: warning: Pod default/doctor-waits: 1 pod waiting: QueueNotFound:", ""),
]


@asynccontextmanager
async def installed(session: aiohttp.ClientSession) -> AsyncIterator[None]:
    """CRDs, roles, and a Lease that is held; the Lease of another test is removed."""
    await api.install(session, list(definitions().values()))
    for document in resources(DEPLOY / "base"):
        if document["kind"] in RIGHTS:
            await api.apply(session, document)
    leases = LEASES.format("phalanx-system")
    async with session.delete(f"{leases}/phalanx"):
        pass
    async with there(session, leases, {"metadata": {"name": "phalanx"}, **lease(seconds=0)}):
        yield


async def test_every_fault_is_found_and_none_when_they_are_undone(
    control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    async with control_plane.session() as session, installed(session):
        async with all_faults(session):
            faulty = await doctor(control_plane.kubeconfig_path, capsys)
        healthy = await doctor(control_plane.kubeconfig_path, capsys)
    assert faulty.code == 1
    assert [start for start, part in EXPECTED if not faulty.has(start, part)] == [], faulty.lines
    found = {start.partition(":")[0] for start, _ in EXPECTED}
    assert found == {check.name for check in CHECKS} - {"upgrade", "jobs"}, (
        "upgrade finds no faults, only what changes; only its controller fails a Job"
    )
    assert [start for start, part in EXPECTED if healthy.has(start, part)] == []
    assert not any(healthy.has(check) for check in ("crds", "rights", "lease", "clock"))


async def test_a_user_without_rights_gets_a_finding_for_each_check(
    control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = await control_plane.service_account_kubeconfig("default", "doctor-nobody")
    seen = await doctor(kubeconfig, capsys)
    assert seen.code == 1
    assert [
        name for name in seen.checks if not seen.has(f"{name}: warning: check {name}: It was not made")
    ] == []
    assert seen.has("rights", "you may not create SubjectAccessReviews")
