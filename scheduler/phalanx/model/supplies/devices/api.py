"""Kinds of Dynamic Resource Allocation (resource.k8s.io/v1), reduced to the fields that the scheduler reads.

A ResourceClaimTemplate is not read: a controller of Kubernetes makes a ResourceClaim of it for each pod, and
writes its name into the status of the pod.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import field

from phalanx.model.api.core import NodeSelector, Present, Quantity
from phalanx.model.api.kind import Kind, Watched
from phalanx.model.api.meta import ApiStruct, Int64, KubeObject

# --- selectors and requests ---------------------------------------------------------------------------------


class CelDeviceSelector(ApiStruct, frozen=True):
    """A CEL expression over the variable `device`."""

    expression: str = ""


class DeviceSelector(ApiStruct, frozen=True):
    """One selector. One without an expression is of a kind that a later release added."""

    cel: CelDeviceSelector | None = None


class DeviceToleration(ApiStruct, frozen=True):
    """One toleration; an empty operator means Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class CapacityRequirements(ApiStruct, frozen=True):
    """Capacity that a request needs of each device."""

    requests: Mapping[str, Quantity] = {}


class RequestedDevices(ApiStruct, frozen=True):
    """Devices of one class. By default it is one device."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[Present, ...] = ()


class ExactDeviceRequest(RequestedDevices, frozen=True):
    admin_access: bool | None = None


class DeviceSubRequest(RequestedDevices, frozen=True):
    name: str = ""


class DeviceRequest(ApiStruct, frozen=True):
    """A request: either `exactly`, or the first of several alternatives that can be allocated."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct, frozen=True):
    """A condition on all devices of these requests together; without requests, on all of the claim."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(ApiStruct, frozen=True):
    """What a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()


# --- ResourceClaim ------------------------------------------------------------------------------------------


class ResourceClaimSpec(ApiStruct, frozen=True):
    """The desired devices."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(ApiStruct, frozen=True):
    """One allocated device. With `share_id` it is a share of a device, which consumes capacity."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = field(name="shareID", default=None)
    consumed_capacity: Mapping[str, Quantity] = {}
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class DeviceAllocationResult(ApiStruct, frozen=True):
    """All allocated devices of a claim."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(ApiStruct, frozen=True):
    """An allocation. Without a node selector its devices can be used from all nodes."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ConsumerReference(ApiStruct, frozen=True):
    """A pod, or a PodGroup, that may use an allocated claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(ApiStruct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(ApiStruct, frozen=True):
    """What the driver says about an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(name="shareID", default=None)
    conditions: tuple[DeviceCondition, ...] = ()


class ResourceClaimStatus(ApiStruct, frozen=True):
    """The allocation of a claim, who uses it, and the states of its devices."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(KubeObject, frozen=True):
    """A claim to devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


# --- DeviceClass --------------------------------------------------------------------------------------------


class DeviceClassSpec(ApiStruct, frozen=True):
    """Selectors that hold for each device of the class."""

    selectors: tuple[DeviceSelector, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(KubeObject, frozen=True):
    spec: DeviceClassSpec = DeviceClassSpec()


# --- ResourceSlice ------------------------------------------------------------------------------------------


class ResourcePool(ApiStruct, frozen=True):
    """The pool of a slice. It is complete when there are `resource_slice_count` slices of its newest
    generation."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class DeviceAttribute(ApiStruct, frozen=True):
    """The value of an attribute; exactly one is set. Lists are behind a feature gate."""

    integer: Int64 | None = field(name="int", default=None)
    boolean: bool | None = field(name="bool", default=None)
    text: str | None = field(name="string", default=None)
    version: str | None = None
    ints: tuple[Int64, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRequestPolicyRange(ApiStruct, frozen=True):
    """Amounts from a minimum to a maximum, in steps."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(ApiStruct, frozen=True):
    """What one allocation may consume of a capacity, and what it consumes by default."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(ApiStruct, frozen=True):
    """An amount that a device has. The request policy matters only to devices with several allocations."""

    value: Quantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True):
    """An amount that the devices of a pool share."""

    value: Quantity = 0


class CounterSet(ApiStruct, frozen=True):
    """Named counters of a pool."""

    name: str = ""
    counters: Mapping[str, Counter] = {}


class DeviceCounterConsumption(ApiStruct, frozen=True):
    """What a device uses of a counter set while it is allocated."""

    counter_set: str = ""
    counters: Mapping[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class DeviceTaint(ApiStruct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceTaintSelector(ApiStruct, frozen=True):
    """Selects devices by all of these that are set."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(ApiStruct, frozen=True):
    """A taint, and the devices that have it. Without a selector, no device has it."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(KubeObject, frozen=True):
    """A taint that an administrator sets on devices, beside those of their driver."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class SliceDevice(ApiStruct, frozen=True):
    name: str = ""
    attributes: Mapping[str, DeviceAttribute] = {}
    capacity: Mapping[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None


class ResourceSliceSpec(ApiStruct, frozen=True):
    """Devices or counters of a pool, and the nodes that can use them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[SliceDevice, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(KubeObject, frozen=True):
    """A part of a pool, published by a driver."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


KINDS: Final = (
    Kind(
        ResourceClaim,
        "resource.k8s.io/v1",
        "resourceclaims",
        namespaced=True,
        optional=True,
        watched=Watched.FOR_DEVICES,
    ),
    Kind(
        DeviceClass,
        "resource.k8s.io/v1",
        "deviceclasses",
        namespaced=False,
        optional=True,
        watched=Watched.FOR_DEVICES,
    ),
    Kind(
        ResourceSlice,
        "resource.k8s.io/v1",
        "resourceslices",
        namespaced=False,
        optional=True,
        watched=Watched.FOR_DEVICES,
    ),
    Kind(
        DeviceTaintRule,
        "resource.k8s.io/v1",
        "devicetaintrules",
        namespaced=False,
        optional=True,
        watched=Watched.FOR_DEVICES,
    ),
)
