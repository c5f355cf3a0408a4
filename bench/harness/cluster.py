"""Waiting for a fake cluster to be usable."""

import asyncio

import aiohttp
import msgspec
from msgspec import Struct

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


async def crds_served(session: aiohttp.ClientSession, *, path: str) -> None:
    """Until the API server answers for a kind that was just defined."""
    while True:
        async with session.get(path) as answer:
            if answer.ok:
                return
        await asyncio.sleep(POLL_S)
