"""Admission policies on a real API server, and a user who may edit one namespace.

The bindings select this namespace only, since other tests use the same server.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import yaml

from tests.crds import api
from tests.deploy.manifests import DEPLOY, Document

ANN = {"Impersonate-User": "ann@example.com"}
ACTIVE_S = 60
_EDIT = ("system:aggregate-to-edit", "phalanx-edit")
"""The rules of the role `edit`, which a controller fills in."""

_COLLECTIONS = {
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    ),
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
}


def policies(*names: str) -> list[Document]:
    """The documents of these files of deploy/policies."""
    texts = [(DEPLOY / "policies" / f"{name}.yaml").read_text() for name in names]
    return [document for text in texts for document in yaml.safe_load_all(text)]


async def open_namespace(session: aiohttp.ClientSession, name: str, labels: dict[str, str]) -> None:
    """A namespace with the account of pods, in which the user has the role `edit`."""
    metadata = {"name": name, "labels": labels}
    await api.apply(session, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    account = {"name": "default", "namespace": name}
    await api.apply(session, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    for role in _EDIT:
        await api.apply(session, bind(role, name))


def bind(role: str, namespace: str) -> Document:
    """The user has this role in the namespace."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"ann-{role.replace(':', '-')}", "namespace": namespace},
        "subjects": [{"apiGroup": group, "kind": "User", "name": ANN["Impersonate-User"]}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
    }


@asynccontextmanager
async def active(
    session: aiohttp.ClientSession, documents: list[Document], namespace: str, refused: Iterable[Document]
) -> AsyncIterator[None]:
    """Install policies, wait until they refuse these objects, and remove them at the end."""
    for document in documents:
        _restrict(document, namespace)
        async with session.post(_COLLECTIONS[document["kind"]], json=document) as answer:
            assert answer.status == 201, await answer.text()
    try:
        await _refused(session, list(refused))
        yield
    finally:
        for document in documents:
            path = f"{_COLLECTIONS[document['kind']]}/{document['metadata']['name']}"
            async with session.delete(path, raise_for_status=True):
                pass


def _restrict(document: Document, namespace: str) -> None:
    """Let a binding select the namespace of the test only, by its own selector as well."""
    if document["kind"].endswith("Binding"):
        chosen = document["spec"].setdefault("matchResources", {}).setdefault("namespaceSelector", {})
        chosen["matchLabels"] = {"kubernetes.io/metadata.name": namespace}


async def _refused(session: aiohttp.ClientSession, documents: list[Document]) -> None:
    """Wait until all are refused: the API server reads policies and their parameters by watches."""
    try:
        async with asyncio.timeout(ACTIVE_S):
            while documents:
                documents = [each for each in documents if (await send(session, each))[0] != 422]
                await asyncio.sleep(0.2 if documents else 0)
    except TimeoutError:
        raise AssertionError(f"not refused: {[await send(session, each) for each in documents]}") from None


async def send(session: aiohttp.ClientSession, document: Document) -> tuple[int, str]:
    """Create the object as the user, as a trial; return HTTP status and message."""
    query = {"dryRun": "All"}
    async with session.post(api.collection(document), json=document, params=query, headers=ANN) as answer:
        return answer.status, (await answer.json()).get("message", "")


async def change(
    session: aiohttp.ClientSession, document: Document, fields: dict[str, Any]
) -> tuple[int, str]:
    """Merge-patch the object as the user; return HTTP status and message."""
    headers = {**ANN, "Content-Type": "application/merge-patch+json"}
    path = f"{api.collection(document)}/{document['metadata']['name']}"
    async with session.patch(path, json=fields, headers=headers) as answer:
        return answer.status, (await answer.json()).get("message", "")
