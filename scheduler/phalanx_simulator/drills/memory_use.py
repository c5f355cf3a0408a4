"""Memory use of a process: sizes of all containers reachable from its scheduler.

They are found by walking, so that a container added later is found without a list.

So that nothing of ours grows unseen: a queue that somebody adds tomorrow is found without naming it here.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct
from phalanx.deciders.inline import InlineDecider
from phalanx.model.memory import Memory

from phalanx_simulator.hosts.event_loop import VirtualLoop
from phalanx_simulator.hosts.replica import Process

_CONTAINERS: Final = (dict, list, set, frozenset, tuple, deque)
_ALSO_OURS: Final = (asyncio.Queue, Memory, InlineDecider)
_NOT_OURS: Final = ("phalanx_simulator", "phalanx.clock")
"""The simulated world around a scheduler, which a walk must not enter."""


def holdings(process: Process, loop: VirtualLoop, *, into_elements: bool) -> dict[str, int]:
    """Sum of the sizes of the containers at each path.

    A path names attributes from the Scheduler on; [] stands for all elements of a container, `timers` for
    what was put off until later. Immutable data of the model counts as one thing. Without `into_elements` it
    is a quick look: only at containers that are attributes themselves.
    """
    found = {"timers": loop.timers_of(process.host)}
    seen: set[int] = set()
    todo: deque[tuple[str, object]] = deque([("", process.scheduler)])
    while todo:
        path, item = todo.popleft()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, asyncio.Queue):
            found[path] = found.get(path, 0) + item.qsize()
        elif isinstance(item, _CONTAINERS):
            found[path] = found.get(path, 0) + len(item)
            if into_elements:
                todo.extend((f"{path}[]", one) for one in _elements(item) if _may_hold(one))
        else:
            todo.extend((f"{path}.{name}", value) for name, value in _attributes(item) if _may_hold(value))
    return found


def _elements(container: Any) -> Iterable[object]:
    found: Iterable[object] = container.values() if isinstance(container, dict) else container
    return found


def _may_hold(item: object) -> bool:
    if isinstance(item, (*_CONTAINERS, *_ALSO_OURS)):
        return True
    kind = type(item)
    if not kind.__module__.startswith("phalanx.") or kind.__module__.startswith(_NOT_OURS):
        return False
    return not (isinstance(item, Struct) and item.__struct_config__.frozen)


def _attributes(item: object) -> Iterator[tuple[str, object]]:
    if isinstance(item, Struct):
        yield from ((name, getattr(item, name)) for name in item.__struct_fields__)
    else:
        yield from getattr(item, "__dict__", {}).items()
