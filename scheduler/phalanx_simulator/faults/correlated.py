"""F7, correlated faults: one cause hits all nodes of a rack, switch, power domain or share.

The targets are all affected nodes. Each gets a fault of kind `each` (default node-lost) with the same
duration and settings, at a random time within `within_s` seconds (default 60).
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from phalanx_simulator.faults import node_conditions, nodes, nvsentinel
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector

_SINGLE: Final[Mapping[str, Injector]] = {
    **nodes.INJECTORS,
    **node_conditions.INJECTORS,
    **nvsentinel.INJECTORS,
}
_WITHIN_S: Final = 60


async def _together(fault: Fault, context: FaultContext) -> None:
    delays = [context.random.uniform(0, fault.number("within_s", _WITHIN_S)) for _ in fault.targets]
    kind = fault.text("each", "node-lost")
    async with asyncio.TaskGroup() as group:
        for node, delay in zip(fault.targets, delays, strict=True):
            group.create_task(_one(replace(fault, kind=kind, targets=(node,)), context, delay))


async def _one(fault: Fault, context: FaultContext, delay: float) -> None:
    await context.sleep(delay)
    await _SINGLE[fault.kind](fault, context)


async def _false_positive(fault: Fault, context: FaultContext) -> None:
    """A detector reports one condition on all targets although nothing is wrong.

    Settings: type.
    """
    await _together(replace(fault, settings={**fault.settings, "each": "node-condition"}), context)


INJECTORS: Final[Mapping[str, Injector]] = {
    "rack-out": _together,
    "switch-out": _together,
    "power-out": _together,
    "share-out": _together,
    "mass-false-positive": _false_positive,
}
