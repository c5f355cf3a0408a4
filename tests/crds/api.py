"""Helpers that send manifests to a real API server."""

import json
from typing import Any

import aiohttp
import msgspec

from tests.crds.files import Document

PLURALS = {
    "CustomResourceDefinition": "customresourcedefinitions",
    "PodGroup": "podgroups",
    "Topology": "topologies",
}
CLUSTER_KINDS = {"CustomResourceDefinition", "Namespace", "ClusterRole", "ClusterRoleBinding"}
OUR_CLUSTER_KINDS = {"Queue", "Topology"}
LINE_BYTES_MAX = 1 << 22
"""A CRD with its managed fields is one line of a watch."""


def collection(document: Document) -> str:
    """The API path of the collection of the document."""
    version, kind = document["apiVersion"], document["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = document["metadata"].get("namespace", "default")
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    return (
        f"{root}/{plural}"
        if kind in CLUSTER_KINDS | OUR_CLUSTER_KINDS
        else f"{root}/namespaces/{namespace}/{plural}"
    )


async def dry_run(session: aiohttp.ClientSession, document: Document) -> tuple[int, str]:
    """Create with dryRun and strict field validation; return HTTP status and message."""
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    async with session.post(collection(document), json=document, params=query) as answer:
        return answer.status, (await answer.json()).get("message", "")


async def apply(session: aiohttp.ClientSession, document: Document) -> Document:
    """Server-side apply: create or update."""
    headers = {"Content-Type": "application/apply-patch+yaml"}
    query = {"fieldManager": "tests", "force": "true"}
    path = f"{collection(document)}/{document['metadata']['name']}"
    async with session.patch(path, json=document, params=query, headers=headers) as answer:
        body: Document = await answer.json()
        assert answer.status in (200, 201), body
        return body


async def patch_status(
    session: aiohttp.ClientSession, document: Document, status: msgspec.Struct
) -> Document:
    """Merge-patch the status subresource; return the new status."""
    headers = {"Content-Type": "application/merge-patch+json"}
    path = f"{collection(document)}/{document['metadata']['name']}/status"
    body = msgspec.json.encode({"status": status})
    async with session.patch(path, data=body, headers=headers) as answer:
        found: Document = await answer.json()
        assert answer.status == 200, found
        return dict(found["status"])


async def table(session: aiohttp.ClientSession, document: Document) -> tuple[dict[str, int], dict[str, Any]]:
    """The columns of `kubectl get -o wide` for one object: priority and cell by column."""
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    path = f"{collection(document)}/{document['metadata']['name']}"
    async with session.get(path, headers=headers) as answer:
        body = await answer.json()
    columns = body["columnDefinitions"]
    (row,) = body["rows"]
    names = [column["name"] for column in columns]
    return {c["name"]: c["priority"] for c in columns}, dict(zip(names, row["cells"], strict=True))


async def install(session: aiohttp.ClientSession, definitions: list[Document]) -> None:
    """Apply CRDs and wait until the API server serves them."""
    for definition in definitions:
        await apply(session, definition)
        await established(session, definition["metadata"]["name"])


async def established(session: aiohttp.ClientSession, name: str) -> None:
    """Watch one CRD until it is established; the watch starts with its current state."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    query = {"watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": "60"}
    async with session.get(path, params=query, read_bufsize=LINE_BYTES_MAX) as answer:
        async for line in answer.content:
            conditions = json.loads(line)["object"]["status"].get("conditions") or []
            if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
                return
    raise AssertionError(f"{name} was not established within a minute")
