"""What a control plane must be started with, and waiting until it is usable."""

import asyncio
from collections.abc import Iterable

import aiohttp
import msgspec
from msgspec import Struct

from bench.harness.gangs import Manifest

POLL_S = 0.2


class _Spec(Struct, frozen=True):
    taints: tuple[msgspec.Raw, ...] = ()


class _Node(Struct, frozen=True):
    spec: _Spec = _Spec()


class _Nodes(Struct, frozen=True):
    items: tuple[_Node, ...] = ()


async def nodes_usable(session: aiohttp.ClientSession, *, expected: int) -> None:
    """Until so many nodes have no taint: every new node starts with not-ready."""
    decode = msgspec.json.Decoder(_Nodes).decode
    while True:
        async with session.get("/api/v1/nodes") as answer:
            nodes = decode(await answer.read()).items
        if sum(not node.spec.taints for node in nodes) >= expected:
            return
        await asyncio.sleep(POLL_S)


async def served(session: aiohttp.ClientSession, crds: Iterable[Manifest], *, path: str) -> None:
    """Until the API server answers for all kinds that were just defined, and at `path`."""
    paths = [_path(crd) for crd in crds] + ([path] if path else [])
    for each in paths:
        while not await _answers(session, each):
            await asyncio.sleep(POLL_S)


def _path(crd: Manifest) -> str:
    spec = crd["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    return f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"


async def _answers(session: aiohttp.ClientSession, path: str) -> bool:
    async with session.get(path) as answer:
        return answer.ok


def gates(wanted: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Arguments of ControlPlane.start for gates (`Gate=true`) and API versions (`group/version=true`)."""
    versions = ",".join(each for each in wanted if "/" in each)
    features = ",".join(each for each in wanted if "/" not in each)
    both = (f"--feature-gates={features}",) if features else ()
    runtime = (f"--runtime-config={versions}",) if versions else ()
    return {"apiserver_flags": (*both, *runtime), "controller_manager_flags": both}
