"""All injectors of faults in objects, by kind of fault."""

from collections.abc import Mapping
from typing import Final

from phalanx_simulator.faults import competing_work as rivals
from phalanx_simulator.faults import correlated, health, nodes, nvsentinel, objects, pods, xids
from phalanx_simulator.faults import foreign_pods as foreign
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector

INJECTORS: Final[Mapping[str, Injector]] = {
    **nodes.INJECTORS,
    **health.INJECTORS,
    **nvsentinel.INJECTORS,
    **xids.INJECTORS,
    **correlated.INJECTORS,
    **pods.INJECTORS,
    **objects.INJECTORS,
    **foreign.INJECTORS,
    **rivals.INJECTORS,
}
"""By kind. The kinds of F3 to F5 (network, API, watches, leaders) are not here: kinds.py names them."""


async def inject(fault: Fault, context: FaultContext) -> None:
    """Inject a fault: wait until it is detectable (`detect_s`), do it, wait, undo it.

    It does not wait for `at_s`. Raises KeyError for a kind that is not in INJECTORS.
    """
    injector = INJECTORS[fault.kind]
    if fault.number("detect_s"):
        await context.sleep(fault.number("detect_s"))
    await injector(fault, context)
