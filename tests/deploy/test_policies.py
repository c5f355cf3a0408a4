"""The admission policies, played against a real API server by a user who may edit one namespace.

The bindings select this namespace only, since other tests use the same server.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from phalanx_controlplane.controlplane import ControlPlane

from tests.crds import api
from tests.deploy.manifests import DEPLOY, Document, resources

pytestmark = [pytest.mark.controlplane, pytest.mark.asyncio(loop_scope="session")]

NAMESPACE = "policies"
ANN = {"Impersonate-User": "ann@example.com"}
POLICIES = "/apis/admissionregistration.k8s.io/v1"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CHARGED = "scheduling.phalanx.dev/charged-queue"
USER = "example.com/user"
MINE = {USER: "ann.example.com"}
EDIT = "system:aggregate-to-edit"
"""The rules of the role `edit`, which a controller fills in."""

ACTIVE_S = 60


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def session(control_plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    """A session after the policies became active."""
    async with control_plane.session() as session:
        await api.apply(session, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for kind in ("ServiceAccount", "RoleBinding"):
            await api.apply(session, right(kind))
        documents = resources(DEPLOY / "policies")
        for document in documents:
            await put(session, document)
        try:
            async with asyncio.timeout(ACTIVE_S):
                while not all([await refuses(session, bad) for bad in REFUSED.values()]):
                    await asyncio.sleep(0.2)
            yield session
        finally:
            for document in documents:
                async with session.delete(path_of(document), raise_for_status=True):
                    pass


def right(kind: str) -> Document:
    """The account of pods, and the right of the user to edit the namespace."""
    if kind == "ServiceAccount":
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "default", "namespace": NAMESPACE}}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "ann", "namespace": NAMESPACE},
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ANN["Impersonate-User"]}
        ],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": EDIT},
    }


def path_of(document: Document) -> str:
    plural = {
        "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    }[document["kind"]]
    return f"{POLICIES}/{plural}/{document['metadata']['name']}"


async def put(session: aiohttp.ClientSession, document: Document) -> None:
    """Create a policy or a binding; a binding for the namespace of the test only."""
    if document["kind"].endswith("Binding"):
        selector = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
        document["spec"]["matchResources"] = {"namespaceSelector": selector}
    async with session.post(path_of(document).rpartition("/")[0], json=document) as answer:
        assert answer.status == 201, await answer.text()


def pod(name: str = "p", *, labels: Any = None, annotations: Any = None, **spec: Any) -> Document:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": MINE if labels is None else labels}
    metadata.update({"annotations": annotations} if annotations else {})
    whole = {"schedulerName": "phalanx", "containers": [{"name": "main", "image": "train:1"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


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
}
"""What each refused object is refused for."""

ACCEPTED: dict[str, Document] = {
    "a pod": pod(),
    "a job": job(MINE),
    "an hour": pod(terminationGracePeriodSeconds=3600),
    "another annotation": pod(annotations={"example.com/note": "x"}),
    "a pod of another scheduler": pod(schedulerName="other", nodeName="n1", labels={}),
}


async def send(session: aiohttp.ClientSession, document: Document) -> tuple[int, str]:
    """Create the object as the user, as a trial."""
    query = {"dryRun": "All"}
    async with session.post(api.collection(document), json=document, params=query, headers=ANN) as answer:
        return answer.status, (await answer.json()).get("message", "")


async def refuses(session: aiohttp.ClientSession, document: Document) -> bool:
    status, _ = await send(session, document)
    return status == 422


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


async def test_only_a_bind_writes_the_charged_queue(session: aiohttp.ClientSession) -> None:
    """The user may change other annotations and labels of a bound pod, and neither of these two."""
    async with session.post(PODS, json=pod("bound"), headers=ANN, raise_for_status=True):
        pass
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "bound", "namespace": NAMESPACE, "annotations": {CHARGED: "mine"}},
        "target": {"kind": "Node", "name": "n1"},
    }
    async with session.post(f"{PODS}/bound/binding", json=binding) as answer:
        assert answer.status == 201
    for fields, status in (
        ({"annotations": {CHARGED: "theirs"}}, 422),
        ({"annotations": {CHARGED: None}}, 422),
        ({"labels": {USER: "fresh"}}, 422),
        ({"annotations": {"example.com/note": "x"}, "labels": {"a": "b"}}, 200),
    ):
        headers = {**ANN, "Content-Type": "application/merge-patch+json"}
        async with session.patch(f"{PODS}/bound", json={"metadata": fields}, headers=headers) as answer:
            assert (answer.status, fields) == (status, fields)
    async with session.get(f"{PODS}/bound", raise_for_status=True) as answer:
        assert (await answer.json())["metadata"]["annotations"][CHARGED] == "mine"
    query = {"gracePeriodSeconds": "0"}
    async with session.delete(f"{PODS}/bound", params=query, raise_for_status=True):
        pass
