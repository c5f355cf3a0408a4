"""Pools of devices as drivers publish them in ResourceSlices, and what one node can use of them.

A pool is one driver's set of devices under one name. Its slices carry a generation. Only slices of the newest
generation count, and no device of the pool is allocated until all of them are there, as in kube-scheduler.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

from msgspec import Struct, structs

from phalanx.model.named_parts import belonging, domain
from phalanx.model.nodes import Node
from phalanx.model.pods import Term
from phalanx.model.selectors import node_matches_any
from phalanx.model.supplies.devices.capacity import Amount, Consumable

PoolId = tuple[str, str]
"""Driver and pool."""

DeviceId = tuple[str, str, str]
"""Driver, pool and device."""

QualifiedName = str
"""An attribute or a capacity as "domain/identifier". The domain is the driver unless another is written. It
is text, as the keys of JSON are: cycles are recorded as JSON."""

AttributeValue = int | bool | str | tuple[int | bool | str, ...] | None

CounterSets = Mapping[str, Mapping[str, Amount]]
"""Counter set -> counter -> amount."""

ANYWHERE: Final = ""
"""As `NodeChoice.node`: no particular node."""


class Attribute(Struct, frozen=True, gc=False):
    """A value, and its kind: int, bool, string, version, list, or empty for one that no release knows."""

    kind: str
    value: AttributeValue


class DeviceTaint(Struct, frozen=True, gc=False):
    """A taint that prevents allocation unless a request tolerates it."""

    key: str
    value: str
    effect: str


class TaintRule(Struct, frozen=True, gc=False):
    """A taint of all devices of this driver, pool and name; None stands for any."""

    driver: str | None
    pool: str | None
    device: str | None
    taint: DeviceTaint

    def concerns(self, driver: str, pool: str) -> bool:
        """Whether devices of the pool may have the taint."""
        return self.driver in (None, driver) and self.pool in (None, pool)


class NodeChoice(Struct, frozen=True, gc=False):
    """The nodes that can use a device: one by name, those that one of the terms matches, or all."""

    node: str = ANYWHERE
    terms: tuple[Term, ...] | None = None
    all_nodes: bool = False
    feature: str = ""
    """A feature that the kubelet of the node must declare besides."""

    @property
    def only_node(self) -> str:
        """The node of devices that are local to one; empty for others.

        Kubernetes writes it into allocations as a term for the name.
        """
        if self.node or self.terms is None or len(self.terms) != 1 or len(self.terms[0].requirements) != 1:
            return self.node
        (found,) = self.terms[0].requirements
        is_name = found.on_field and found.operator == "In" and len(found.values) == 1
        return found.values[0] if is_name else ""

    def allows(self, node: Node) -> bool:
        """Whether the node can use the device."""
        if self.feature and self.feature not in node.declared_features:
            return False
        if self.node:
            return self.node == node.name
        return self.all_nodes or (self.terms is not None and node_matches_any(node, self.terms))


class Consumption(Struct, frozen=True, gc=False):
    """What a device uses of one counter set while it is allocated."""

    counter_set: str
    counters: tuple[tuple[str, Amount], ...]


class Binding(Struct, frozen=True, gc=False):
    """What a driver reports of a device after its allocation: pods are bound once all `conditions` are true,
    and not with this allocation if one of `failures` is."""

    conditions: tuple[str, ...]
    failures: tuple[str, ...] = ()


class Device(Struct, frozen=True, gc=False):
    """One device. `choice` is set where each device of a slice names its nodes.

    `allows_shares`: several allocations may each have a share. `consumable`: what they consume of such a
    device, or where it does not follow from `capacity`: see `capacity_of` in `shares`. `binding`: set if the
    driver prepares the device before its pods are bound.
    """

    name: str
    attributes: Mapping[QualifiedName, Attribute] = {}
    capacity: Mapping[QualifiedName, Amount] = {}
    taints: tuple[DeviceTaint, ...] = ()
    consumes: tuple[Consumption, ...] = ()
    choice: NodeChoice | None = None
    binds_to_node: bool = False
    binding: "Binding | None" = None
    allows_shares: bool = False
    consumable: tuple[Consumable, ...] = ()


class Slice(Struct, frozen=True, gc=False):
    """One ResourceSlice. `problems` are its errors: a pool with an erroneous slice is not used.

    Without `choice`, each device names its nodes if `per_device` is set; else no node can use the slice.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    choice: NodeChoice | None = None
    per_device: bool = False
    devices: tuple[Device, ...] = ()
    counter_sets: CounterSets = {}
    has_compatibility_groups: bool = False
    problems: tuple[str, ...] = ()

    @property
    def pool_id(self) -> PoolId:
        """The pool that the slice is a part of."""
        return self.driver, self.pool

    def choice_of(self, device: Device) -> NodeChoice | None:
        """The nodes that can use this device of the slice; None for none."""
        return device.choice if self.per_device else self.choice

    def reaches(self, node: Node) -> bool:
        """Whether the node can use the slice, or one of its devices."""
        if self.choice is not None:
            return self.choice.allows(node)
        return self.per_device and any(
            device.choice is not None and device.choice.allows(node) for device in self.devices
        )


class Pool(Struct, frozen=True, gc=False):
    """A pool as one node sees it. `problem`: why none of its devices is allocated; empty for none."""

    id: PoolId
    slices: tuple[Slice, ...] = ()
    """The slices with devices that the node can use, by name."""
    other_slices: tuple[Slice, ...] = ()
    """The other slices with devices: those that are allocated use counters of the pool."""
    counter_sets: CounterSets = {}
    is_incomplete: bool = False
    problem: str = ""


class Inventory:
    """All slices of a cluster, by node and by pool."""

    def __init__(self, slices: Iterable[Slice], rules: Iterable[TaintRule] = ()) -> None:
        applied = tuple(rules)
        self._of_node: dict[str, list[Slice]] = {}
        self._shared: list[Slice] = []
        self._of_pool: dict[PoolId, list[Slice]] = {}
        for written in sorted(slices, key=lambda one: one.name):
            each = with_taints(written, applied)
            self._of_pool.setdefault(each.pool_id, []).append(each)
            if each.choice is not None and each.choice.node:
                self._of_node.setdefault(each.choice.node, []).append(each)
            else:
                self._shared.append(each)

    @property
    def shared_slices(self) -> tuple[Slice, ...]:
        """The slices that are not of one node."""
        return tuple(self._shared)

    @cached_property
    def shared_pools(self) -> frozenset[PoolId]:
        """The pools with such slices."""
        return frozenset(each.pool_id for each in self._shared if each.devices)

    def device(self, name: DeviceId) -> Device | None:
        """The device in the newest generation of its pool; None if it is not published."""
        slices = self._of_pool.get(name[:2], ())
        newest = max((each.generation for each in slices), default=0)
        current = (each for each in slices if each.generation == newest)
        return next((device for each in current for device in each.devices if device.name == name[2]), None)

    def pools(self, node: Node) -> tuple[Pool, ...]:
        """The pools that the node can use, in the order of kube-scheduler: by driver and name, those with
        binding conditions last."""
        newest: dict[PoolId, list[Slice]] = {}
        for each in (*self._of_node.get(node.name, ()), *self._shared):
            if each.has_compatibility_groups or not each.reaches(node):
                continue
            known = newest.setdefault(each.pool_id, [each])
            if each.generation > known[0].generation:
                newest[each.pool_id] = [each]
            elif each.generation == known[0].generation and each is not known[0]:
                known.append(each)
        found = (self._pool(name, slices) for name, slices in newest.items())
        return tuple(sorted((pool for pool in found if pool is not None), key=_order))

    def _pool(self, name: PoolId, slices: list[Slice]) -> Pool | None:
        """The pool of these slices of one generation; None if another slice has a newer one."""
        generation, expected = slices[0].generation, slices[0].slice_count
        everything = slices
        if len(slices) != expected:
            of_pool = self._of_pool[name]
            if any(each.generation > generation for each in of_pool):
                return None
            everything = [
                each
                for each in of_pool
                if each.generation == generation and not each.has_compatibility_groups
            ]
        if len(everything) != expected:
            have = f"{len(everything)} of {expected} slices of generation {generation}"
            return Pool(id=name, is_incomplete=True, problem=f"{_shown(name)} is incomplete: {have}")
        return _complete_pool(name, slices, everything)


def with_taints(written: Slice, rules: Iterable[TaintRule]) -> Slice:
    """The slice whose devices also have the taints of these rules."""
    applying = [rule for rule in rules if rule.concerns(written.driver, written.pool)]
    if not applying:
        return written
    devices = tuple(_tainted(device, applying) for device in written.devices)
    return structs.replace(written, devices=devices)


def _tainted(device: Device, rules: Iterable[TaintRule]) -> Device:
    more = tuple(rule.taint for rule in rules if rule.device in (None, device.name))
    return structs.replace(device, taints=(*device.taints, *more)) if more else device


def _complete_pool(name: PoolId, slices: list[Slice], everything: list[Slice]) -> Pool:
    with_devices = tuple(each for each in slices if not each.counter_sets)
    others = tuple(each for each in everything if each not in slices and not each.counter_sets)
    counters: dict[str, Mapping[str, Amount]] = {}
    problem = next((each.problems[0] for each in everything if each.problems), "") or _same_name(with_devices)
    for each in everything:
        for counter_set, amounts in each.counter_sets.items():
            if counter_set in counters:
                problem = problem or f"duplicate counter set {counter_set}"
            counters[counter_set] = amounts
    problem = problem or _unknown_counter((*with_devices, *others), counters)
    return Pool(
        id=name,
        slices=with_devices,
        other_slices=others,
        counter_sets=counters,
        problem=f"{_shown(name)} is invalid: {problem}" if problem else "",
    )


def _same_name(slices: tuple[Slice, ...]) -> str:
    seen: set[str] = set()
    for each in slices:
        for device in each.devices:
            if device.name in seen:
                return f"duplicate device {device.name} in ResourceSlice {belonging(each.name, each.pool)}"
            seen.add(device.name)
    return ""


def _unknown_counter(slices: tuple[Slice, ...], counter_sets: CounterSets) -> str:
    for each in slices:
        for device in each.devices:
            for consumption in device.consumes:
                known = counter_sets.get(consumption.counter_set)
                if known is None:
                    return f"device {device.name} uses the unknown counter set {consumption.counter_set}"
                for counter, _amount in consumption.counters:
                    if counter not in known:
                        name = f"{consumption.counter_set}.{counter}"
                        return f"device {device.name} uses the unknown counter {name}"
    return ""


def _shown(name: PoolId) -> str:
    return f"pool {domain(name[1])} of driver {name[0]}"


def _order(pool: Pool) -> tuple[bool, PoolId]:
    waits = any(device.binding is not None for each in pool.slices for device in each.devices)
    return waits, pool.id
