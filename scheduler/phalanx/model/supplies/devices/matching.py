"""Which devices the selectors of a class or a request match, each evaluated once.

An expression is evaluated for the values that it reads. Devices that differ in other attributes, such as
their serial numbers, share the result, and so do the slices of later generations.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, structs

from phalanx.model.supplies.devices.capacity import Amount
from phalanx.model.supplies.devices.claims import ClaimSpec, DeviceClass, DeviceClasses, Request, Selector
from phalanx.model.supplies.devices.expressions import (
    EvaluationFailed,
    Evaluator,
    Expression,
    InvalidExpression,
)
from phalanx.model.supplies.devices.pools import AttributeValue, Device, QualifiedName

CEL_EXPRESSIONS_MAX: Final = 4096
"""Compiled expressions that are kept: some kilobytes each. Clusters have a handful of device classes."""

CEL_RESULTS_MAX: Final = 1 << 18
"""Results of expressions that are kept: about 200 bytes each."""

_Read = tuple[tuple[QualifiedName, str, AttributeValue], ...]
_Inputs = tuple[str, str, bool, _Read, tuple[tuple[QualifiedName, Amount], ...]]


class MatchError(Struct, frozen=True, gc=False):
    """A selector has no value for a device. The text names the object and the field."""

    text: str


Match = bool | MatchError


class Matcher:
    """Evaluates selectors, and keeps results. It may be used for many snapshots."""

    def __init__(self) -> None:
        self._evaluator = Evaluator()
        self._compiled: dict[str, Expression | str] = {}
        self._results: dict[_Inputs, bool | str] = {}

    def problems(self, spec: ClaimSpec, classes: DeviceClasses) -> tuple[str, ...]:
        """Why claims with this spec cannot be allocated whatever the devices: unknown classes and selectors
        that do not compile, as "object: field: error"; errors of the claim itself have no object."""
        found = list(spec.problems)
        for alternatives in spec.requests:
            for request in alternatives:
                device_class = classes.get(request.device_class)
                if device_class is None:
                    found.append(
                        f"{request.field}.deviceClassName: DeviceClass {request.device_class} does not exist"
                    )
                else:
                    found += self._class_problems(device_class)
                found += (each for each in map(self._error, request.selectors) if each)
        return tuple(dict.fromkeys(found))

    def _class_problems(self, device_class: DeviceClass) -> list[str]:
        errors = (self._error(each) for each in device_class.selectors)
        named = (f"DeviceClass {device_class.name}: {each}" for each in errors if each)
        return [*device_class.problems, *named]

    def _error(self, selector: Selector) -> str:
        problem = self.problem_of(selector.expression)
        return f"{selector.field}: does not compile: {problem}" if problem else ""

    def problem_of(self, expression: str) -> str:
        """Why an expression does not compile; empty if it does."""
        compiled = self._compile(expression)
        return compiled if isinstance(compiled, str) else ""

    def _compile(self, expression: str) -> Expression | str:
        known = self._compiled.get(expression)
        if known is None:
            if len(self._compiled) >= CEL_EXPRESSIONS_MAX:
                self._compiled.clear()
            try:
                known = self._evaluator.compile(expression)
            except InvalidExpression as error:
                known = str(error)
            self._compiled[expression] = known
        return known

    def matches(self, request: Request, device_class: DeviceClass, driver: str, device: Device) -> Match:
        """Whether all selectors of the class and then of the request match."""
        for owner, selectors in (
            (f"DeviceClass {device_class.name}: ", device_class.selectors),
            ("", request.selectors),
        ):
            for selector in selectors:
                result = self._evaluate(selector.expression, driver, device)
                if isinstance(result, str):
                    where = f"on device {device.name} of driver {driver}"
                    return MatchError(f"{owner}{selector.field}: has no value {where}: {result}")
                if not result:
                    return False
        return True

    def _evaluate(self, expression: str, driver: str, device: Device) -> bool | str:
        compiled = self._compile(expression)
        if isinstance(compiled, str):
            return f"does not compile: {compiled}"
        device = _only(device, compiled.reads)
        inputs = (
            expression,
            driver,
            device.allows_shares,
            tuple((name, each.kind, each.value) for name, each in device.attributes.items()),
            tuple(device.capacity.items()),
        )
        known = self._results.get(inputs)
        if known is None:
            if len(self._results) >= CEL_RESULTS_MAX:
                self._results.clear()
            try:
                known = compiled.matches(driver, device)
            except EvaluationFailed as error:
                known = str(error)
            self._results[inputs] = known
        return known


def _only(device: Device, reads: frozenset[QualifiedName] | None) -> Device:
    """The device with the values that are read. A value of an unknown kind remains: with it, no expression
    has a value, as in kube-scheduler."""
    if reads is None:
        return device
    attributes = {name: each for name, each in device.attributes.items() if name in reads or not each.kind}
    capacity: Mapping[QualifiedName, Amount] = {
        name: amount for name, amount in device.capacity.items() if name in reads
    }
    return structs.replace(device, attributes=attributes, capacity=capacity)
