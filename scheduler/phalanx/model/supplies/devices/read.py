"""Conversion of ResourceSlices, DeviceClasses and ResourceClaims. Errors become texts, never exceptions."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from phalanx.model.api import core
from phalanx.model.api.values import seconds
from phalanx.model.conversion.selectors import read_selector
from phalanx.model.named_parts import belonging
from phalanx.model.pods import Toleration
from phalanx.model.resources import InvalidQuantity, billionths
from phalanx.model.supplies.devices import api as devices
from phalanx.model.supplies.devices.capacity import Amount, Amounts, Consumable, Policy
from phalanx.model.supplies.devices.claims import (
    ALL_DEVICES,
    AllocatedDevice,
    Allocation,
    Claim,
    ClaimSpec,
    Constraint,
    DeviceClass,
    Request,
    Selector,
)
from phalanx.model.supplies.devices.extended_resources import ANNOTATION
from phalanx.model.supplies.devices.limits import CLAIM_DEVICES_MAX, DEVICE_BIND_TIMEOUT_S
from phalanx.model.supplies.devices.pools import (
    Attribute,
    Binding,
    Consumption,
    Device,
    DeviceTaint,
    NodeChoice,
    QualifiedName,
    Slice,
    TaintRule,
)

T = TypeVar("T")

_EXACT: Final = "ExactCount"
_ALL: Final = "All"
_UNKNOWN_SELECTOR: Final = "is of a kind that is not known"
_OPTIONAL_OPERATIONS: Final = "DRAOptionalNodeOperations"
"""What a kubelet declares that can leave out node operations of a device (skipNodeOperations)."""


# --- ResourceSlice ------------------------------------------------------------------------------------------


def read_slice(written: devices.ResourceSlice) -> Slice:
    """A slice, with its errors as "ResourceSlice NAME: field: error"."""
    spec, wrong = written.spec, list[str]()
    counter_sets = {
        each.name: _counters(each.counters, f"spec.sharedCounters[{index}].counters", wrong)
        for index, each in enumerate(spec.shared_counters)
    }
    if len(counter_sets) < len(spec.shared_counters):
        wrong.append("spec.sharedCounters: has two sets of one name")
    found = tuple(
        _device(each, f"spec.devices[{index}]", spec.driver, wrong) for index, each in enumerate(spec.devices)
    )
    name = belonging(written.metadata.name, spec.pool.name)
    consumptions = (use for each in spec.devices for use in each.consumes_counters)
    return Slice(
        name=written.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        choice=_choice(spec.node_name, spec.node_selector, spec.all_nodes, "spec", wrong),
        per_device=bool(spec.per_device_node_selection),
        devices=found,
        counter_sets=counter_sets,
        has_compatibility_groups=any(use.compatibility_groups for use in consumptions),
        problems=tuple([f"ResourceSlice {name}: {each}" for each in wrong]),
    )


def read_taint_rule(written: devices.DeviceTaintRule) -> TaintRule | None:
    selector, taint = written.spec.device_selector, written.spec.taint
    if selector is None:
        return None
    own = DeviceTaint(taint.key, taint.value, taint.effect)
    return TaintRule(selector.driver, selector.pool, selector.device, own)


def _device(written: devices.SliceDevice, path: str, driver: str, wrong: list[str]) -> Device:
    return Device(
        name=written.name,
        attributes=_qualified(
            {name: _attribute(value) for name, value in written.attributes.items()}, driver
        ),
        capacity=_qualified(
            {
                name: _read_amount(each.value, f"{path}.capacity[{name}].value", wrong)
                for name, each in written.capacity.items()
            },
            driver,
        ),
        taints=tuple(DeviceTaint(each.key, each.value, each.effect) for each in written.taints),
        consumes=tuple(
            Consumption(
                counter_set=each.counter_set,
                counters=tuple(
                    sorted(
                        _counters(each.counters, f"{path}.consumesCounters[{index}].counters", wrong).items()
                    )
                ),
            )
            for index, each in enumerate(written.consumes_counters)
        ),
        choice=_choice(written.node_name, written.node_selector, written.all_nodes, path, wrong),
        binds_to_node=bool(written.binds_to_node),
        binding=read_binding(written),
        allows_shares=bool(written.allow_multiple_allocations),
        consumable=read_consumable(written, driver, path, wrong),
    )


def _choice(
    node: str | None, selector: core.NodeSelector | None, all_nodes: bool | None, path: str, wrong: list[str]
) -> NodeChoice | None:
    """The nodes that these fields name, the first of them that is set; None if none is set."""
    if node:
        return NodeChoice(node=node)
    if all_nodes:
        return NodeChoice(all_nodes=True)
    if selector is not None:
        return NodeChoice(terms=read_selector(selector, f"{path}.nodeSelector", wrong))
    return None


def _attribute(written: devices.DeviceAttribute) -> Attribute:
    """The value in the order in which kube-scheduler looks for it."""
    for values in (written.ints, written.bools, written.strings, written.versions):
        if values is not None:
            kind = "versions" if values is written.versions else "list"
            return Attribute(kind, values)
    if written.integer is not None:
        return Attribute("int", written.integer)
    if written.boolean is not None:
        return Attribute("bool", written.boolean)
    if written.text is not None:
        return Attribute("string", written.text)
    return Attribute("version", written.version) if written.version is not None else Attribute("", None)


def _qualified(values: Mapping[str, T], driver: str) -> Mapping[QualifiedName, T]:
    """The values by domain and identifier. A name with a domain goes before the same one without."""
    unqualified = {f"{driver}/{name}": value for name, value in values.items() if "/" not in name}
    qualified = {name: value for name, value in values.items() if "/" in name}
    return dict(sorted({**unqualified, **qualified}.items()))


def _counters(written: Mapping[str, devices.Counter], path: str, wrong: list[str]) -> Mapping[str, Amount]:
    return {name: _read_amount(each.value, f"{path}[{name}].value", wrong) for name, each in written.items()}


# --- DeviceClass and ResourceClaim --------------------------------------------------------------------------


def read_device_class(written: devices.DeviceClass) -> DeviceClass:
    """A class, with its errors as "DeviceClass NAME: field: error"."""
    wrong: list[str] = []
    return DeviceClass(
        name=written.metadata.name,
        selectors=_selectors(written.spec.selectors, "spec", wrong),
        extended_resource=written.spec.extended_resource_name or "",
        created=seconds(written.metadata.creation_timestamp),
        problems=tuple(f"DeviceClass {written.metadata.name}: {each}" for each in wrong),
    )


def read_resource_claim(written: devices.ResourceClaim) -> Claim:
    """A claim. Claims of one template have equal specs."""
    meta, (unbound, has_failed) = written.metadata, read_unbound(written.status)
    return Claim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        spec=read_claim_spec(written.spec),
        allocation=_allocation(written.status.allocation),
        unbound=unbound,
        has_failed=has_failed,
        ready_by=read_ready_by(written.status) if unbound else 0,
        reserved_for=tuple(each.uid for each in written.status.reserved_for),
        owner=next((each.uid for each in meta.owner_references if each.controller), ""),
        is_for_extended=meta.annotations.get(ANNOTATION) == "true",
        deleting=meta.deletion_timestamp is not None,
    )


def read_claim_spec(written: devices.ResourceClaimSpec) -> ClaimSpec:
    """What a claim asks for, with its errors and its unsupported fields as "field: reason"."""
    wrong, unsupported = list[str](), list[str]()
    requests: list[tuple[Request, ...]] = []
    for index, each in enumerate(written.devices.requests):
        path = f"spec.devices.requests[{index}]"
        if each.exactly is not None:
            exactly = _request(each.exactly, each.name, f"{path}.exactly", wrong, unsupported)
            requests.append((exactly,))
        elif each.first_available:
            requests.append(tuple(_alternatives(each, path, wrong, unsupported)))
        else:
            wrong.append(f"{path}: {_UNKNOWN_SELECTOR}")
    if sum(min(_least(each) for each in alternatives) for alternatives in requests) > CLAIM_DEVICES_MAX:
        wrong.append(f"spec.devices.requests: need more than {CLAIM_DEVICES_MAX} devices")
    return ClaimSpec(
        requests=tuple(requests),
        constraints=tuple(_constraints(written.devices.constraints, wrong)),
        problems=tuple(wrong),
        unsupported=tuple(unsupported),
    )


def _least(request: Request) -> int:
    return 0 if request.count == ALL_DEVICES else request.count


def _alternatives(
    written: devices.DeviceRequest, path: str, wrong: list[str], unsupported: list[str]
) -> Iterator[Request]:
    for index, each in enumerate(written.first_available):
        field = f"{path}.firstAvailable[{index}]"
        yield _request(each, f"{written.name}/{each.name}", field, wrong, unsupported)


def _request(
    written: devices.ExactDeviceRequest | devices.DeviceSubRequest,
    name: str,
    path: str,
    wrong: list[str],
    unsupported: list[str],
) -> Request:
    if not written.device_class_name:
        wrong.append(f"{path}.deviceClassName: is empty")
    if written.allocation_mode not in ("", _EXACT, _ALL):
        wrong.append(f"{path}.allocationMode: {written.allocation_mode!r} is not {_EXACT} or {_ALL}")
    if written.count < 0:
        wrong.append(f"{path}.count: {written.count} is negative")
    if written.derived_attributes:
        unsupported.append(f"{path}.derivedAttributes: derived attributes are off in Kubernetes by default")
    admin = isinstance(written, devices.ExactDeviceRequest) and bool(written.admin_access)
    return Request(
        name=name,
        field=path,
        device_class=written.device_class_name,
        selectors=_selectors(written.selectors, path, wrong),
        count=ALL_DEVICES if written.allocation_mode == _ALL else max(1, written.count),
        admin_access=admin,
        tolerations=tuple(
            Toleration(each.key, each.operator or "Equal", each.value, each.effect)
            for each in written.tolerations
        ),
        capacity=_read_requested(written.capacity, path, wrong),
    )


def _selectors(
    written: tuple[devices.DeviceSelector, ...], path: str, wrong: list[str]
) -> tuple[Selector, ...]:
    found = []
    for index, each in enumerate(written):
        if each.cel is None:
            wrong.append(f"{path}.selectors[{index}]: {_UNKNOWN_SELECTOR}")
        else:
            found.append(Selector(each.cel.expression, f"{path}.selectors[{index}].cel"))
    return tuple(found)


def _constraints(written: tuple[devices.DeviceConstraint, ...], wrong: list[str]) -> Iterator[Constraint]:
    for index, each in enumerate(written):
        attribute = each.match_attribute or each.distinct_attribute
        if attribute is None or "/" not in attribute:
            wrong.append(f"spec.devices.constraints[{index}]: needs an attribute as domain/name")
            continue
        yield Constraint(
            attribute=attribute,
            distinct=each.match_attribute is None,
            requests=tuple(sorted(set(each.requests))),
        )


def _allocation(written: devices.AllocationResult | None) -> Allocation | None:
    if written is None:
        return None
    selector, skips = (
        written.node_selector,
        any(each.skip_node_operations for each in written.devices.results),
    )
    feature = _OPTIONAL_OPERATIONS if skips else ""
    return Allocation(
        devices=tuple(
            AllocatedDevice(
                request=each.request,
                device=(each.driver, each.pool, each.device),
                admin_access=bool(each.admin_access),
                share_id=each.share_id or "",
                consumed=_read_consumed(each),
            )
            for each in written.devices.results
        ),
        # The API server has checked the selector; one that it would refuse matches no node.
        nodes=NodeChoice(all_nodes=True, feature=feature)
        if selector is None
        else NodeChoice(terms=read_selector(selector, "status.allocation.nodeSelector", []), feature=feature),
    )


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


def _read_amount(written: core.Quantity, path: str, wrong: list[str]) -> Amount:
    """The quantity in billionths; 0 for an invalid one."""
    try:
        return str(billionths(written))
    except InvalidQuantity as invalid:
        wrong.append(f"{path}: {invalid}")
        return "0"


def read_consumable(
    written: devices.SliceDevice, driver: str, path: str, wrong: list[str]
) -> tuple[Consumable, ...]:
    """What allocations consume of the device; nothing where it follows from the capacity that is read."""
    if not written.capacity or not (written.allow_multiple_allocations or _is_for_extended(written, driver)):
        return ()
    return tuple(
        Consumable(
            name,
            _read_amount(each.value, f"{path}.capacity[{name}].value", wrong),
            _policy(each.request_policy, f"{path}.capacity[{name}].requestPolicy", wrong),
        )
        for name, each in sorted(written.capacity.items())
    )


def _is_for_extended(written: devices.SliceDevice, driver: str) -> bool:
    """Whether names, policies or amounts are those that a driver need not write for whole devices."""
    return any(
        name.startswith(f"{driver}/") or each.request_policy is not None or str(each.value).startswith("-")
        for name, each in written.capacity.items()
    )


def _policy(written: devices.CapacityRequestPolicy | None, path: str, wrong: list[str]) -> Policy | None:
    if written is None:
        return None

    def amount(quantity: core.Quantity | None, field: str) -> Amount | None:
        return None if quantity is None else _read_amount(quantity, f"{path}.{field}", wrong)

    found = written.valid_range or devices.CapacityRequestPolicyRange()
    return Policy(
        default=amount(written.default, "default"),
        values=tuple(
            _read_amount(each, f"{path}.validValues[{index}]", wrong)
            for index, each in enumerate(written.valid_values)
        ),
        minimum=amount(found.min, "validRange.min"),
        maximum=amount(found.max, "validRange.max"),
        step=amount(found.step, "validRange.step"),
    )


def _read_requested(written: devices.CapacityRequirements | None, path: str, wrong: list[str]) -> Amounts:
    """What a request asks for."""
    return _amounts(written.requests if written is not None else {}, f"{path}.capacity.requests", wrong)


def _read_consumed(written: devices.DeviceRequestAllocationResult) -> Amounts:
    """What a share consumes. The API server has checked the quantities."""
    return _amounts(written.consumed_capacity, "", [])


def _amounts(written: Mapping[str, core.Quantity], path: str, wrong: list[str]) -> Amounts:
    return tuple(
        sorted((name, _read_amount(each, f"{path}[{name}]", wrong)) for name, each in written.items())
    )
