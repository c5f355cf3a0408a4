"""The admission policies that keep tenants inside their queues, played by a user of one namespace."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from phalanx_controlplane.controlplane import ControlPlane

from tests.crds import api
from tests.crds.files import API_VERSION, definitions
from tests.deploy.manifests import DEPLOY, Document, resources
from tests.deploy.policies import ACTIVE_S, ANN, active, bind, change, open_namespace, policies, send

pytestmark = [pytest.mark.controlplane, pytest.mark.asyncio(loop_scope="session")]

NAMESPACE = "policies"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUP = "scheduling.phalanx.dev"
CHARGED = f"{GROUP}/charged-queue"
SHARE, MEMORY, INDEX, TAKEN = (f"{GROUP}/gpu-{name}" for name in ("share", "memory", "index", "taken"))
USER = "example.com/user"
MINE = {USER: "ann.example.com"}
GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
START_BY = "2100-01-01T00:00:00Z"

POLICIES = (
    *("bound-pods", "charged-queue", "gpu-shares", "grace-period"),
    *("scheduler-name", "start-by", "user-label"),
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def session(control_plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    """A session after the policies became active."""
    async with control_plane.session() as session:
        await api.install(session, list(definitions().values()))
        for role in resources(DEPLOY / "base"):
            if role["metadata"]["name"] == "phalanx-edit":
                await api.apply(session, role)
        await open_namespace(session, NAMESPACE, {f"{GROUP}/queue": "mine"})
        async with active(session, policies(*POLICIES), NAMESPACE, REFUSED.values()):
            yield session


def pod(name: str = "p", *, labels: Any = None, annotations: Any = None, **spec: Any) -> Document:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": MINE if labels is None else labels}
    metadata.update({"annotations": annotations} if annotations else {})
    whole = {"schedulerName": "phalanx", "containers": [{"name": "main", "image": "train:1"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def gang(name: str = "g", **spec: Any) -> Document:
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 1, **spec}}


def gpu_pod(**spec: Any) -> Document:
    return pod(containers=[{"name": "main", "image": "train:1", **GPU}], **spec)


def job(labels: Any) -> Document:
    template = {"metadata": {"labels": labels}, "spec": {**pod()["spec"], "restartPolicy": "Never"}}
    meta = {"name": "j", "namespace": NAMESPACE}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}


REFUSED: dict[str, Document] = {
    "spec.nodeName": pod(nodeName="n1"),
    CHARGED: pod(annotations={CHARGED: "theirs"}),
    "terminationGracePeriodSeconds": pod(terminationGracePeriodSeconds=3601),
    "must be ann.example.com": pod(labels={USER: "bob"}),
    "label example.com/user": pod(labels={}),
    "of the pods must be": job({USER: "fresh-1"}),
    "gpu-index and": pod(annotations={INDEX: "0", SHARE: "100"}),
    "and scheduling.phalanx.dev/gpu-taken": pod(annotations={TAKEN: "1", SHARE: "100"}),
    "from 1 to 1000": pod(annotations={SHARE: "1001"}),
    "above zero, such as 20Gi": pod(annotations={MEMORY: "20 GiB"}),
    "gpu-memory are both set": pod(annotations={SHARE: "100", MEMORY: "20Gi"}),
    "not both": {**gpu_pod(), "metadata": pod(annotations={SHARE: "100"})["metadata"]},
    "schedulerName must be phalanx": gpu_pod(schedulerName="other"),
    "ann@example.com may not set or change spec.startBy": gang(startBy=START_BY),
}
"""What each refused object is refused for."""

ACCEPTED: dict[str, Document] = {
    "a pod": pod(),
    "a job": job(MINE),
    "an hour": pod(terminationGracePeriodSeconds=3600),
    "another annotation": pod(annotations={"example.com/note": "x"}),
    "thousandths": pod(annotations={SHARE: "1000"}),
    "bytes": pod(annotations={MEMORY: "20Gi"}),
    "whole GPUs": gpu_pod(),
    "a gang": gang(),
    "a pod of another scheduler": pod(schedulerName="other", nodeName="n1", labels={}),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_refused(session: aiohttp.ClientSession, why: str) -> None:
    status, message = await send(session, REFUSED[why])
    assert status == 422
    assert why in message


@pytest.mark.parametrize("what", ACCEPTED)
async def test_accepted(session: aiohttp.ClientSession, what: str) -> None:
    assert await send(session, ACCEPTED[what]) == (201, "")


async def test_controllers_create_pods_for_users(session: aiohttp.ClientSession) -> None:
    account = "system:serviceaccount:kube-system:job-controller"
    headers = {"Impersonate-User": account, "Impersonate-Group": "system:masters"}
    query = {"dryRun": "All"}
    async with session.post(PODS, json=pod(labels={USER: "bob"}), params=query, headers=headers) as answer:
        assert answer.status == 201


async def test_only_a_bind_writes_what_a_pod_got(session: aiohttp.ClientSession) -> None:
    """The user may change other annotations and labels of a bound pod, and neither of these two."""
    async with session.post(
        PODS, json=pod("bound", annotations={SHARE: "250"}), headers=ANN, raise_for_status=True
    ):
        pass
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "bound", "namespace": NAMESPACE, "annotations": {CHARGED: "mine", TAKEN: "250"}},
        "target": {"kind": "Node", "name": "n1"},
    }
    async with session.post(f"{PODS}/bound/binding", json=binding) as answer:
        assert answer.status == 201
    for fields, status in (
        ({"annotations": {CHARGED: "theirs"}}, 422),
        ({"annotations": {CHARGED: None}}, 422),
        ({"annotations": {SHARE: "1"}}, 422),
        ({"annotations": {TAKEN: "1"}}, 422),
        ({"labels": {USER: "fresh"}}, 422),
        ({"annotations": {"example.com/note": "x"}, "labels": {"a": "b"}}, 200),
    ):
        assert ((await change(session, pod("bound"), {"metadata": fields}))[0], fields) == (status, fields)
    async with session.get(f"{PODS}/bound", raise_for_status=True) as answer:
        annotations = (await answer.json())["metadata"]["annotations"]
    assert (annotations[CHARGED], annotations[SHARE], annotations[TAKEN]) == ("mine", "250", "250")
    query = {"gracePeriodSeconds": "0"}
    async with session.delete(f"{PODS}/bound", params=query, raise_for_status=True):
        pass


async def test_who_has_the_right_sets_start_by(session: aiohttp.ClientSession) -> None:
    """The right is given in a namespace, and it covers changes of the time."""
    await api.apply(session, gang("g", startBy=START_BY))
    later, note = {"spec": {"startBy": "2101-01-01T00:00:00Z"}}, {"metadata": {"labels": {"a": "b"}}}
    assert (await change(session, gang(), later))[0] == 422
    assert (await change(session, gang(), {"spec": {"startBy": None}}))[0] == 422
    assert await change(session, gang(), note) == (200, "")
    right = bind("phalanx-start-by", NAMESPACE)
    await api.apply(session, right)
    try:
        async with asyncio.timeout(ACTIVE_S):
            while await change(session, gang(), later) != (200, ""):
                await asyncio.sleep(0.2)
        assert await send(session, gang("other", startBy=START_BY)) == (201, "")
    finally:
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings"
        for each in (f"{path}/{right['metadata']['name']}", f"{api.collection(gang())}/g"):
            async with session.delete(each, raise_for_status=True):
                pass
