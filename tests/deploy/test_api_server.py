"""A real API server accepts the manifests, and the roles grant exactly what they should."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio
import yaml
from phalanx.model.api.kinds import KINDS, READ_KINDS
from phalanx_controlplane.controlplane import ControlPlane

from tests.crds import api
from tests.crds.files import definitions
from tests.deploy.manifests import DEPLOY, Document, base, resources

pytestmark = [pytest.mark.controlplane, pytest.mark.asyncio(loop_scope="session")]

RIGHTS = {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
ACCOUNT = "system:serviceaccount:phalanx-system:phalanx"

ALLOWED = [
    *[(KINDS[name].group, KINDS[name].plural, "list", "") for name in READ_KINDS],
    *[(KINDS[name].group, KINDS[name].plural, "watch", "") for name in READ_KINDS],
    ("", "pods/binding", "create", ""),
    ("", "pods/status", "patch", ""),
    ("", "pods", "delete", ""),
    ("events.k8s.io", "events", "create", ""),
    ("scheduling.phalanx.dev", "podgroups/status", "patch", ""),
    ("coordination.k8s.io", "leases", "create", ""),
    ("coordination.k8s.io", "leases", "patch", "phalanx"),
    ("", "configmaps", "create", ""),
    ("", "configmaps", "get", "phalanx-records"),
    ("", "configmaps", "patch", "phalanx-records"),
]
DENIED = [
    ("", "secrets", "get", ""),
    ("", "configmaps", "get", "phalanx-config"),
    ("", "configmaps", "list", ""),
    ("", "configmaps", "delete", "phalanx-records"),
    ("", "pods", "create", ""),
    ("", "pods", "patch", ""),
    ("", "pods", "deletecollection", ""),
    ("", "pods/eviction", "create", ""),
    ("", "pods/exec", "create", ""),
    ("", "nodes", "patch", ""),
    ("", "nodes/status", "patch", ""),
    ("scheduling.phalanx.dev", "podgroups", "patch", ""),
    ("scheduling.phalanx.dev", "podgroups", "delete", ""),
    ("scheduling.phalanx.dev", "queues", "update", ""),
    ("coordination.k8s.io", "leases", "patch", "kube-scheduler"),
    ("coordination.k8s.io", "leases", "delete", "phalanx"),
    ("rbac.authorization.k8s.io", "clusterroles", "update", ""),
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def session(control_plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    """A session after the CRDs, the namespace and the roles were created, but no workload."""
    async with control_plane.session() as session:
        await api.install(session, list(definitions().values()))
        for document in resources(DEPLOY / "base"):
            if document["kind"] in RIGHTS:
                await api.apply(session, document)
        yield session


async def may(
    session: aiohttp.ClientSession, user: str, *, group: str, resource: str, **attributes: str
) -> bool:
    name, _, subresource = resource.partition("/")
    asked = {"group": group, "resource": name, "subresource": subresource, **attributes}
    review = {"spec": {"user": user, "resourceAttributes": asked}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    async with session.post(path, json=review, raise_for_status=True) as answer:
        return bool((await answer.json())["status"]["allowed"])


@pytest.mark.parametrize(("group", "resource", "verb", "name"), ALLOWED)
async def test_allowed(
    session: aiohttp.ClientSession, group: str, resource: str, verb: str, name: str
) -> None:
    where = "phalanx-system" if resource in ("leases", "configmaps") else ""
    asked = {"verb": verb, "name": name, "namespace": where}
    assert await may(session, ACCOUNT, group=group, resource=resource, **asked)


@pytest.mark.parametrize(("group", "resource", "verb", "name"), DENIED)
async def test_denied(
    session: aiohttp.ClientSession, group: str, resource: str, verb: str, name: str
) -> None:
    asked = {"verb": verb, "name": name, "namespace": "phalanx-system"}
    assert not await may(session, ACCOUNT, group=group, resource=resource, **asked)


async def test_leases_of_other_namespaces_are_denied(session: aiohttp.ClientSession) -> None:
    asked = {"verb": "patch", "name": "phalanx", "namespace": "default"}
    assert not await may(session, ACCOUNT, group="coordination.k8s.io", resource="leases", **asked)


async def test_the_other_manifests_are_accepted(session: aiohttp.ClientSession) -> None:
    documents = [each for each in resources(DEPLOY / "base") if each["kind"] not in RIGHTS]
    new = [each for each in documents if each["kind"] != "CustomResourceDefinition"]
    assert len(new) >= 2
    for document in new:
        assert await api.dry_run(session, document) == (201, "")


async def test_the_examples_are_accepted(session: aiohttp.ClientSession) -> None:
    gang = list(yaml.safe_load_all((DEPLOY / "kind" / "gang.yaml").read_text()))
    for document in [*resources(DEPLOY / "examples"), *gang]:
        assert await api.dry_run(session, renamed(document)) == (201, "")


async def test_the_pods_satisfy_the_restricted_standard(session: aiohttp.ClientSession) -> None:
    """The namespace enforces it, so the API server would refuse the pods of the ReplicaSet."""
    template = base("Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**template["metadata"], "name": "phalanx", "namespace": "phalanx-system"}
    assert await api.dry_run(session, pod) == (201, "")
    privileged = {**pod, "spec": {**pod["spec"], "hostNetwork": True}}
    status, message = await api.dry_run(session, privileged)
    assert (status, "violates PodSecurity" in message) == (403, True)


def renamed(document: Document) -> Document:
    """Under another name: a queue named default may exist already."""
    return {
        **document,
        "metadata": {**document["metadata"], "name": f"deploy-{document['metadata']['name']}"},
    }
