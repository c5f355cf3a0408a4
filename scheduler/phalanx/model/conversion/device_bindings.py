"""Conversion of binding conditions: what a driver must report before the pods of a claim are bound."""

from phalanx.limits import DEVICE_BIND_TIMEOUT_S
from phalanx.model.api import devices
from phalanx.model.api.values import seconds
from phalanx.model.devices.pools import Binding


def read_binding(written: devices.SliceDevice) -> Binding | None:
    """The binding conditions of a published device; None if it has none."""
    if not written.binding_conditions:
        return None
    return Binding(written.binding_conditions, written.binding_failure_conditions)


def read_unbound(status: devices.ResourceClaimStatus) -> tuple[str, bool]:
    """Why pods cannot use the allocated devices yet, by their binding conditions, and whether they never can;
    empty if they can."""
    found = {(each.driver, each.pool, each.device, each.share_id): each for each in status.devices}
    missing = ""
    for each in status.allocation.devices.results if status.allocation is not None else ():
        if each.binding_conditions:
            known = found.get((each.driver, each.pool, each.device, each.share_id))
            true = (
                {one.type: one for one in known.conditions if one.status == "True"}
                if known is not None
                else {}
            )
            failed = next((one for one in each.binding_failure_conditions if one in true), "")
            if failed:
                return f"device {each.device}: {_failure(true[failed])}", True
            lacking = next((one for one in each.binding_conditions if one not in true), "")
            if lacking and not missing:
                missing = f"device {each.device}: its binding condition {lacking} is not true yet"
    return missing, False


def read_ready_by(status: devices.ResourceClaimStatus) -> int:
    """When devices that are not ready are given back, as in kube-scheduler (ms since the epoch); 0 without a
    time of the allocation."""
    allocated = seconds(status.allocation.allocation_timestamp) if status.allocation is not None else 0
    return round((allocated + DEVICE_BIND_TIMEOUT_S) * 1000) if allocated else 0


def _failure(condition: devices.DeviceCondition) -> str:
    why = ": ".join(filter(None, (condition.reason, condition.message)))
    text = f"its binding condition {condition.type} says that it failed"
    return f"{text} ({why})" if why else text
