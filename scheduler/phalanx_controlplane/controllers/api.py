"""Sends manifests of any kind to the API server."""

import asyncio

import aiohttp

from phalanx_controlplane import limits
from phalanx_controlplane.controllers.definition import Manifest


class Refused(Exception):
    """The API server refused a manifest. The message has its answer."""


class NotServed(Exception):
    """A kind is not served. The message names it."""


async def apply(session: aiohttp.ClientSession, manifest: Manifest) -> None:
    """Create or change an object. Raises Refused."""
    headers = {
        "Content-Type": "application/apply-patch+yaml",
        "Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",  # a CRD has a megabyte
    }
    query = {"fieldManager": "phalanx-controlplane", "force": "true"}
    path = await path_of(session, manifest)
    async with session.patch(path, json=manifest, params=query, headers=headers) as answer:
        if not answer.ok:
            name = manifest["metadata"]["name"]
            raise Refused(f"{manifest['kind']} {name}: {answer.status} {await answer.text()}")
        await answer.read()


async def delete(session: aiohttp.ClientSession, manifest: Manifest) -> None:
    """Delete an object and, after it, its dependents. It may be gone. Raises Refused."""
    path = await path_of(session, manifest)
    async with session.delete(path, params={"propagationPolicy": "Background"}) as answer:
        if not answer.ok and answer.status != 404:
            raise Refused(f"delete {path}: {answer.status} {await answer.text()}")
        await answer.read()


async def path_of(session: aiohttp.ClientSession, manifest: Manifest) -> str:
    """The path of an object. Raises NotServed."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    async with session.get(base) as answer:
        resources = (await answer.json())["resources"] if answer.ok else []
    for resource in resources:
        if resource["kind"] == kind and "/" not in resource["name"]:
            space = manifest["metadata"].get("namespace", "default")
            scope = f"/namespaces/{space}" if resource["namespaced"] else ""
            return f"{base}{scope}/{resource['name']}/{manifest['metadata']['name']}"
    raise NotServed(f"{kind} of {version} is not served")


async def install(session: aiohttp.ClientSession, definitions: list[Manifest]) -> None:
    """Apply CRDs, and wait until the API server serves them. Raises Refused and TimeoutError."""
    async with asyncio.timeout(limits.CONTROL_PLANE_START_TIMEOUT_S):
        await asyncio.gather(*(apply(session, each) for each in definitions))
        await asyncio.gather(*(_served(session, each) for each in definitions))


async def _served(session: aiohttp.ClientSession, definition: Manifest) -> None:
    """Wait until every version of a CRD is served. That is after the condition Established."""
    spec = definition["spec"]
    for version in [each["name"] for each in spec["versions"] if each["served"]]:
        named: Manifest = {
            "apiVersion": f"{spec['group']}/{version}",
            "kind": spec["names"]["kind"],
            "metadata": {"name": ""},
        }
        while not await _is_served(session, named):
            await asyncio.sleep(limits.CONTROL_PLANE_POLL_S)


async def _is_served(session: aiohttp.ClientSession, manifest: Manifest) -> bool:
    try:
        await path_of(session, manifest)
    except NotServed:
        return False
    return True
