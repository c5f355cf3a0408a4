"""F11, competing work: fillers that take a broken gang's capacity, gangs with interleaved pods.

All that is created here is deleted at the end of the fault. The namespace is `namespace` (default `default`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from phalanx.model.resources import GPU

from phalanx_simulator.embedded.manifests import pod, pod_group
from phalanx_simulator.embedded.store import Key
from phalanx_simulator.faults.edits import POD_GROUPS, PRIORITY_CLASSES, create, delete
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector, pause
from phalanx_simulator.faults.moments import is_break, pods_that

_NAME_BITS: Final = 32


async def _fillers(fault: Fault, context: FaultContext) -> None:
    """At each loss of a gang's pod, single pods of the same priority request its capacity.

    Settings: pods, for each loss (default 4); gpus of each (default 8); breaks, the number of
    losses (default 1). The fillers stay `hold_s` seconds (default 300).
    """
    made: list[Key] = []
    limit = fault.number("breaks", 1)
    async for key in pods_that(context, is_break, within_s=fault.seconds, limit=limit):
        priority = _priority_class(context, key)
        for _ in range(fault.number("pods", 4)):
            made += _submit(context, fault, _name(context, "filler"), "", **priority)
    await context.sleep(fault.number("hold_s", 300))
    _remove(context, made)


def _priority_class(context: FaultContext, key: Key) -> dict[str, Any]:
    """The priority class of the lost pod, if it still exists."""
    lost = context.client.get(key)
    name = None if lost is None else lost["spec"].get("priorityClassName")
    return {"priorityClassName": name} if name else {}


async def _interleaved(fault: Fault, context: FaultContext) -> None:
    """Gangs whose pods are created in turns, so that each could hold a part of the cluster.

    Settings: order, one letter per gang, in the order in which their pods are created in each round
    (default ACBD; AB for two); pods and gpus of each gang (default 4 pods of 8); shuffled, 1 if each round
    has a random order; late, 1 if the PodGroups are created after the pods; pause_ms between pods.
    """
    names = {letter: _name(context, f"gang-{letter.lower()}") for letter in fault.text("order", "ACBD")}
    made: list[Key] = []
    if not fault.number("late"):
        made += _groups(context, fault, names.values())
    for _ in range(fault.number("pods", 4)):
        for letter in _round(fault, context, list(names)):
            made += _submit(context, fault, _name(context, "member"), names[letter])
            await context.sleep(fault.number("pause_ms") / 1000)
    if fault.number("late"):
        made += _groups(context, fault, names.values())
    await context.sleep(fault.seconds)
    _remove(context, made)


async def _priority_storm(fault: Fault, context: FaultContext) -> None:
    """Gangs of a higher priority arrive evenly over the fault's duration.

    Settings: gangs (default 4), pods and gpus of each (default 4 pods of 8); value of their priority class.
    """
    high = _name(context, "urgent")
    priority = {"metadata": {"name": high}, "value": fault.number("value", 1_000)}
    made = [create(context.client, PRIORITY_CLASSES, "", priority)]
    gangs = fault.number("gangs", 4)
    for _ in range(gangs):
        name = _name(context, "storm")
        made += _groups(context, fault, [name], priorityClassName=high)
        for _ in range(fault.number("pods", 4)):
            made += _submit(context, fault, _name(context, "member"), name, priorityClassName=high)
        if not await pause(context, fault.seconds / gangs):
            break
    _remove(context, [key for key in made if key is not None])


def _round(fault: Fault, context: FaultContext, letters: list[str]) -> list[str]:
    return context.random.sample(letters, len(letters)) if fault.number("shuffled") else letters


def _groups(context: FaultContext, fault: Fault, names: Iterable[str], **spec: Any) -> list[Key]:
    namespace, members = fault.text("namespace", "default"), fault.number("pods", 4)
    manifests = [pod_group(name, min_member=members, namespace=namespace, **spec) for name in names]
    made = [create(context.client, POD_GROUPS, namespace, manifest) for manifest in manifests]
    return [key for key in made if key is not None]


def _submit(context: FaultContext, fault: Fault, name: str, group: str, **spec: Any) -> list[Key]:
    namespace = fault.text("namespace", "default")
    requests = {GPU: str(fault.number("gpus", 8))}
    new = pod(name, namespace=namespace, group=group, requests=requests, **spec)
    key = create(context.client, "pods", namespace, new)
    return [] if key is None else [key]


def _name(context: FaultContext, prefix: str) -> str:
    return f"{prefix}-{context.random.getrandbits(_NAME_BITS):08x}"


def _remove(context: FaultContext, keys: list[Key]) -> None:
    for key in keys:
        delete(context.client, key)


INJECTORS: Final[Mapping[str, Injector]] = {
    "filler-thief": _fillers,
    "interleaved-gangs": _interleaved,
    "priority-storm": _priority_storm,
}
