"""A planned fault, what its injector may use, and the two shapes that an injector has.

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
    """What faults ask of the fake kubelets."""

    def lose(self, node: str) -> None:
        """The node falls silent: its Ready becomes Unknown once its lease is old."""
        ...

    def find(self, node: str, *, restarted: bool = False) -> None:
        """The node is back; after a restart nothing that ran on it runs any more."""
        ...

    def fail(self, pod: Key, /, *, exit_code: int, reason: str, message: str) -> bool:
        """The pod's containers end with this exit code, now; 0 lets it succeed. False where none run."""
        ...


class Fault(Struct, frozen=True):
    """What goes wrong, when, on whom, for how long.

    family: F3 to F11, as in the fault matrix.
    at_s: simulated seconds since the start.
    targets: nodes by name, namespaced objects as namespace/name; empty where the injector draws lots.
    seconds: how long it lasts; 0 where nobody undoes it.
    settings: what the injector of this kind wants to know. All know `detect_s`: seconds until it can be seen.
    """

    family: str
    kind: str
    at_s: float
    targets: tuple[str, ...] = ()
    seconds: float = 0.0
    settings: Settings = NO_SETTINGS

    def number(self, name: str, default: int = 0) -> int:
        """A setting that is an integer."""
        return int(self.settings.get(name, default))

    def text(self, name: str, default: str = "") -> str:
        """A setting that is a string."""
        return str(self.settings.get(name, default))


class FaultContext(Struct, frozen=True):
    """The world as injectors reach it.

    `sleep` waits in simulated seconds, and returns early when the run is over: what lasts is undone then.
    """

    client: Client
    kubelets: Kubelets
    random: Random
    sleep: Callable[[float], Awaitable[None]]


Injector = Callable[[Fault, FaultContext], Awaitable[None]]
"""Does the fault, waits as long as it lasts, undoes it. A target that is gone is not an error."""

Undo = Callable[[], None]
"""Takes back what was done, as far as it is still there."""


def lasting(begin: Callable[[Fault, FaultContext, str], Undo]) -> Injector:
    """The injector of a fault that begins at once on each target and ends for all of them together."""

    async def injector(fault: Fault, context: FaultContext) -> None:
        undos = [begin(fault, context, target) for target in fault.targets]
        if fault.seconds > 0:
            await context.sleep(fault.seconds)
            for undo in undos:
                undo()

    return injector


async def pause(context: FaultContext, seconds: float) -> bool:
    """Wait between two acts of a fault; false where the run was over earlier, and no more must be done."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    await context.sleep(seconds)
    return loop.time() >= end - _EARLY_S


def nothing() -> None:
    """The undoing of what was never done."""
