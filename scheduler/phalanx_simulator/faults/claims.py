"""F14: provisioners that are slow or fail, drivers that withdraw or taint devices, claims that are refused.

The kinds, each undone after its duration:

| kind | settings |
| --- | --- |
| provisioner-slow | delay_s: seconds that a volume takes |
| provisioner-fails | no volume can be created for the targets |
| devices-fewer | count: devices that the driver still publishes on the targets |
| devices-tainted | count: devices that cannot be allocated any more |
| driver-stopped | the slices of the targets are withdrawn |
| claims-refused | kubelets of the targets cannot prepare claims |
| volume-taken | count: local volumes without a claim that another client takes, or removes |

`faults/schedulers.py` injects other kinds of F14, which affect requests and leaders.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from phalanx_simulator.embedded.controllers.device_driver import DEVICES, DRIVER_STOPPED, TAINTED_DEVICES
from phalanx_simulator.embedded.controllers.provisioner import (
    CLASSES,
    PROVISIONING_FAILS,
    PROVISIONING_SECONDS,
)
from phalanx_simulator.embedded.controllers.volumes import VOLUMES
from phalanx_simulator.embedded.kubelets.prepared_claims import CLAIMS_REFUSED
from phalanx_simulator.embedded.store import Object
from phalanx_simulator.faults.edits import edit, node_key, with_metadata, with_spec
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector, Undo, lasting

FAMILY: Final = "F14"


def _with_annotation(item: Object, name: str, value: str | None) -> Object:
    return with_metadata(item, "annotations", **{name: value})


def annotated(name: str, value: Callable[[Fault], str]) -> Injector:
    """Sets an annotation of the targets, which are nodes."""

    def begin(fault: Fault, context: FaultContext, node: str) -> Undo:
        edit(context.client, node_key(node), lambda item: _with_annotation(item, name, value(fault)))
        return partial(edit, context.client, node_key(node), lambda item: _with_annotation(item, name, None))

    return lasting(begin)


def _of_classes(name: str, value: Callable[[Fault], str]) -> Injector:
    """Sets an annotation of all StorageClasses."""

    async def injector(fault: Fault, context: FaultContext) -> None:
        _annotate_classes(context, name, value(fault))
        await context.sleep(fault.seconds)
        _annotate_classes(context, name, None)

    return injector


def _annotate_classes(context: FaultContext, name: str, value: str | None) -> None:
    for key in context.client.keys(CLASSES):
        edit(context.client, key, lambda item: _with_annotation(item, name, value))


async def _taken(fault: Fault, context: FaultContext) -> None:
    """Let some local volumes name a claim of another client, until the end of the fault."""
    free = [key for key in context.client.keys(VOLUMES) if _is_free(context.client.get(key))]
    taken = context.random.sample(free, min(len(free), fault.number("count")))
    for key in taken:
        reference = {"namespace": "default", "name": f"foreign-{key.name}"}
        edit(context.client, key, lambda item, to=reference: with_spec(item, claimRef=to))  # type: ignore[misc]
    await context.sleep(fault.seconds)
    for key in taken:
        edit(context.client, key, _freed)


def _is_free(volume: Object | None) -> bool:
    return volume is not None and "claimRef" not in volume["spec"]


def _freed(volume: Object) -> Object:
    reference = volume["spec"].get("claimRef") or {}
    is_taken = str(reference.get("name", "")).startswith("foreign-")
    return with_spec(volume, claimRef=None) if is_taken else volume


INJECTORS: Final[Mapping[str, Injector]] = {
    "provisioner-slow": _of_classes(PROVISIONING_SECONDS, lambda fault: fault.text("delay_s")),
    "provisioner-fails": _of_classes(PROVISIONING_FAILS, lambda fault: ",".join(fault.targets)),
    "devices-fewer": annotated(DEVICES, lambda fault: fault.text("count")),
    "devices-tainted": annotated(TAINTED_DEVICES, lambda fault: fault.text("count")),
    "driver-stopped": annotated(DRIVER_STOPPED, lambda _: "true"),
    "claims-refused": annotated(CLAIMS_REFUSED, lambda _: "true"),
    "volume-taken": _taken,
}
