"""A planned fault, the context of its injector, and the types of injectors.

A kind's meaning and its settings are in the docstring of its injector, one file per family.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct
from phalanx.clock import Random

from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.store import Key

Setting = str | int
Settings = Mapping[str, Setting]

_EARLY_S: Final = 1e-6

NO_SETTINGS: Final[Settings] = {}


class Kubelets(Protocol):
    """Methods of the fake kubelets that faults use."""

    def lose(self, node: str) -> None:
        """Disconnect the node: its Ready becomes Unknown once its lease is old."""
        ...

    def find(self, node: str, *, restarted: bool = False) -> None:
        """Reconnect the node; after a restart its containers have ended."""
        ...

    def fail(self, pod: Key, /, *, exit_code: int, reason: str, message: str) -> bool:
        """End the pod's containers with this exit code; 0 makes it succeed.

        False if none run.
        """
        ...


class Fault(Struct, frozen=True):
    """A fault: kind, time, targets and duration.

    family: F3 to F11, F14 and F15, as in the fault matrix.
    at_s: simulated seconds since the start.
    targets: nodes by name, namespaced objects as namespace/name; empty if the injector draws its own.
    seconds: its duration; 0 if it is not undone.
    settings: parameters of the injector. All kinds have `detect_s`: seconds until the fault can be detected.
    """

    family: str
    kind: str
    at_s: float
    targets: tuple[str, ...] = ()
    seconds: float = 0.0
    settings: Settings = NO_SETTINGS

    def number(self, name: str, default: int = 0) -> int:
        """An integer setting."""
        return int(self.settings.get(name, default))

    def text(self, name: str, default: str = "") -> str:
        """A string setting."""
        return str(self.settings.get(name, default))


class FaultContext(Struct, frozen=True):
    """The simulated cluster as injectors use it.

    `sleep` waits in simulated seconds, and returns early when the run is over, so that the fault is
    undone then.
    """

    client: Client
    kubelets: Kubelets
    random: Random
    sleep: Callable[[float], Awaitable[None]]


Injector = Callable[[Fault, FaultContext], Awaitable[None]]
"""Injects the fault, waits for its duration, undoes it. A missing target is not an error."""

Undo = Callable[[], None]
"""Reverts the changes of a fault where they still exist."""


def lasting(begin: Callable[[Fault, FaultContext, str], Undo]) -> Injector:
    """An injector that starts on each target at once and ends on all together."""

    async def injector(fault: Fault, context: FaultContext) -> None:
        undos = [begin(fault, context, target) for target in fault.targets]
        if fault.seconds > 0:
            await context.sleep(fault.seconds)
            for undo in undos:
                undo()

    return injector


async def pause(context: FaultContext, seconds: float) -> bool:
    """Wait between two steps of a fault; false if the run has ended meanwhile."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    await context.sleep(seconds)
    return loop.time() >= end - _EARLY_S


def nothing() -> None:
    """An undo that does nothing."""
