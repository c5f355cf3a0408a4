"""Waits for the worst moment of a fault: a bind, or the loss of a member.

The simulated network delays what the scheduler sees, so an injector that reacts to a write in the API acts
before the scheduler sees it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from phalanx_simulator.embedded.apiserver.objects import is_deleting
from phalanx_simulator.embedded.store import Change, ChangeType, Key
from phalanx_simulator.faults.edits import group_of, is_ours, is_over
from phalanx_simulator.faults.fault import Fault, FaultContext

Picks = Callable[[Change], bool]


def is_bind(change: Change) -> bool:
    """Whether one of our pods was just bound."""
    before = None if change.previous is None else change.previous.data
    pod = change.entry.data
    if change.type is ChangeType.DELETED or before is None or not is_ours(pod):
        return False
    return bool(pod["spec"].get("nodeName")) and not before["spec"].get("nodeName")


def is_break(change: Change) -> bool:
    """Whether a gang just lost a bound pod: failed, being deleted, or gone."""
    before = None if change.previous is None else change.previous.data
    pod = change.entry.data
    if before is None or not is_ours(pod) or not group_of(pod) or not before["spec"].get("nodeName"):
        return False
    if is_over(before) or is_deleting(before):
        return False
    is_gone = change.type is ChangeType.DELETED or is_deleting(pod)
    return is_gone or bool(pod["status"].get("phase") == "Failed")


def is_new(change: Change) -> bool:
    """Whether this is a new pod of ours without a node."""
    pod = change.entry.data
    return change.type is ChangeType.ADDED and is_ours(pod) and not pod["spec"].get("nodeName")


async def pods_that(
    context: FaultContext, picks: Picks, *, within_s: float, limit: int = 1
) -> AsyncIterator[Key]:
    """The pods of matching changes as they happen, for `within_s` and at most `limit`.

    Iterate to the end.
    """
    found: asyncio.Queue[Key] = asyncio.Queue()

    def on_change(change: Change) -> None:
        if picks(change):
            found.put_nowait(change.entry.key)

    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    unsubscribe = context.client.subscribe("pods", on_change)
    try:
        for _ in range(limit):
            key = await _first(found, end - loop.time())
            if key is None:
                return
            yield key
    finally:
        unsubscribe()


async def _first(found: asyncio.Queue[Key], within_s: float) -> Key | None:
    try:
        async with asyncio.timeout(within_s):
            return await found.get()
    except TimeoutError:
        return None


async def in_mid_cycle(fault: Fault, context: FaultContext) -> None:
    """Wait for the next bind, at most `bind_within_s` seconds; 0 does not wait."""
    within_s = fault.number("bind_within_s")
    if within_s > 0:
        _ = [key async for key in pods_that(context, is_bind, within_s=within_s)]
