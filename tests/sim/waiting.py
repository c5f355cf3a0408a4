"""Waits for a state of the embedded cluster by its changes, not by the clock."""

import asyncio
from collections.abc import Callable

from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.store import Change, Key, Object

PATIENCE_S = 30
"""Seconds after which the test fails if the state is not reached."""


async def until(server: ApiServer, holds: Callable[[], bool]) -> None:
    """Return once `holds` is true; it is evaluated after each change."""
    changed = asyncio.Event()

    def on_change(_: Change) -> None:
        changed.set()

    unsubscribe = server.store.subscribe(None, on_change)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await changed.wait()
                changed.clear()
    finally:
        unsubscribe()


def find(server: ApiServer, resource: str, name: str, namespace: str = "") -> Object:
    """The object; fails if it does not exist."""
    entry = server.store.get(Key(resource, namespace, name))
    assert entry is not None, (resource, namespace, name)
    return entry.data


def pods(server: ApiServer) -> dict[str, Object]:
    """All pods by name."""
    return {entry.key.name: entry.data for entry in server.store.entries("pods")}


def phases(server: ApiServer) -> dict[str, str]:
    """Phase of each pod."""
    return {name: pod["status"]["phase"] for name, pod in pods(server).items()}
