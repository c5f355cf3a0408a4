"""F10, foreign load: pods of other schedulers take capacity of nodes."""

from collections import deque
from collections.abc import Mapping
from typing import Final

from phalanx.model.resources import CPU, GPU, MEMORY, Resources, add

from phalanx_simulator.embedded.pod_requests import allocatable_of, requests_of
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import create, delete, is_over, node_key
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector, pause

FOREIGN: Final = "sim.phalanx.dev/foreign"
"""Label of the pods that this module creates."""

_SCHEDULER: Final = "default-scheduler"
_NAMESPACE: Final = "default"
_DAEMON: Final = {CPU: "100m", MEMORY: "128Mi"}


def put(
    context: FaultContext, node: str, *, requests: Mapping[str, str], is_daemon: bool = False
) -> Key | None:
    """Create a foreign pod that is bound to a node already."""
    container = {"name": "main", "image": "foreign:1", "resources": {"requests": dict(requests)}}
    if GPU in requests:
        container["resources"]["limits"] = {GPU: requests[GPU]}  # type: ignore[index]
    spec: Object = {"schedulerName": _SCHEDULER, "nodeName": node, "containers": [container]}
    if is_daemon:
        spec["tolerations"] = [{"operator": "Exists"}]
    metadata = {"generateName": "foreign-", "labels": {FOREIGN: "true"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return create(context.client, "pods", _NAMESPACE, pod)


def fill(context: FaultContext, node: str) -> list[Key]:
    """Create one foreign pod that takes all free GPUs of the node."""
    free = free_gpus(context, node)
    made = put(context, node, requests={GPU: str(free)}) if free > 0 else None
    return [] if made is None else [made]


def free_gpus(context: FaultContext, node: str) -> int:
    """GPUs of the node less those that its pods hold."""
    found = context.client.get(node_key(node))
    if found is None:
        return 0
    used: Resources = {}
    for key in context.client.pods_on(node):
        pod = context.client.get(key)
        if pod is not None and not is_over(pod):
            used = add(used, requests_of(pod))
    return allocatable_of(found).get(GPU, 0) - used.get(GPU, 0)


async def _load(fault: Fault, context: FaultContext) -> None:
    """Foreign pods arrive on random target nodes, `per_minute` a minute (12,000 is 200 a second).

    Settings: per_minute; gpus and milli_cpu of each, both 0 for pods without requests; hold_s, the
    lifetime of each (default 60). All are deleted at the end.
    """
    requests = _requests(fault)
    pause_s = 60 / max(1, fault.number("per_minute", 60))
    hold = max(1, round(fault.number("hold_s", 60) / pause_s))
    guests: deque[Key | None] = deque()
    for _ in range(round(fault.seconds / pause_s) if fault.targets else 0):
        guests.append(put(context, context.random.choice(fault.targets), requests=requests))
        if not await pause(context, pause_s):
            break
        if len(guests) >= hold:
            _remove(context, guests.popleft())
    while guests:
        _remove(context, guests.popleft())


def _requests(fault: Fault) -> dict[str, str]:
    asked = {GPU: str(fault.number("gpus")), CPU: f"{fault.number('milli_cpu')}m"}
    return {name: amount for name, amount in asked.items() if amount not in ("0", "0m")}


def _remove(context: FaultContext, key: Key | None) -> None:
    if key is not None:
        delete(context.client, key, grace_s=0)


async def _daemons(fault: Fault, context: FaultContext) -> None:
    """One daemon on each target node; it tolerates everything and requests little."""
    made = [put(context, node, requests=_DAEMON, is_daemon=True) for node in fault.targets]
    await context.sleep(fault.seconds)
    for key in made:
        _remove(context, key)


INJECTORS: Final[Mapping[str, Injector]] = {"foreign-load": _load, "foreign-daemons": _daemons}
