"""The nodes on which the claims of a pod can be allocated are those of kube-scheduler's allocator."""

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given
from phalanx.model.supplies.devices.matching import Matcher

from tests.examples import holds
from tests.oracle.clusters import Case
from tests.oracle.device_clusters import DRIVERS, POD, cases_with_devices, cluster, document
from tests.oracle.device_comparison import allocations, compare, shown
from tests.oracle.plugins import Plugins

MATCHER: Final = Matcher()


@pytest.mark.slow
@holds(25, suppress_health_check=list(HealthCheck))
@given(case=cases_with_devices())
def test_random_clusters_with_devices(plugins: Plugins, case: Case) -> None:
    found = compare(plugins, case.objects, POD, MATCHER)
    assert not found.problem, shown(found)


@pytest.mark.slow
@holds(12, suppress_health_check=list(HealthCheck))
@given(case=cases_with_devices())
def test_allocations_are_those_that_kube_scheduler_writes(plugins: Plugins, case: Case) -> None:
    """The same devices, with the same fields: binding conditions, tolerations, nodes."""
    answer = plugins.ask(case.objects, POD, reserve=True)
    if answer.error or not answer.feasible:
        return
    for name, ours in allocations(case.objects, POD, answer.feasible[0], MATCHER).items():
        theirs = answer.claims[name]["allocation"]
        assert ours is not None
        assert ours.pop("allocationTimestamp")
        assert theirs.pop("allocationTimestamp")
        for result in ours["devices"]["results"]:
            for each in result.get("tolerations", ()):
                # as the API server stores them
                each.setdefault("operator", "Equal")
                if not each.get("value"):
                    each.pop("value", None)
        for result, other in zip(ours["devices"]["results"], theirs["devices"]["results"], strict=True):
            # kube-scheduler draws the ID of a share by lot
            assert bool(result.pop("shareID", "")) == bool(other.pop("shareID", ""))
        assert ours == theirs, answer.feasible[0]


DRIVER: Final = DRIVERS[0]
_OWN: Final = f'device.attributes["{DRIVER}"]'
_AMOUNT: Final = f'device.capacity["{DRIVER}"]'
_DEVICE: Final[dict[str, Any]] = {
    "name": "d0",
    "attributes": {
        "name": {"string": "H100 80GB"},
        "index": {"int": 3},
        "mig": {"bool": False},
        "version": {"version": "550.54.14-rc.1+build"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    },
    "capacity": {"memory": {"value": "81559Mi"}, "part": {"value": "500m"}},
}
EXPRESSIONS: Final = (
    "true",
    f'device.driver == "{DRIVER}"',
    "device.allowMultipleAllocations",
    f'{_OWN}.name == "H100 80GB"',
    f'{_OWN}["name"].lowerAscii().matches("^h100.*$")',
    f"{_OWN}.name.contains('H100') && !{_OWN}.mig",
    f"{_OWN}.index in [1, 3, 5]",
    f"{_OWN}.index % 2 == 1 ? true : false",
    f"{_OWN}.index == 3.0",
    f"{_OWN}.mig == 0",
    f"{_OWN}.name == 3",
    f'{_OWN}.name.split(" ")[1] == "80GB"',
    f"[1, 2, 3].exists(x, x == {_OWN}.index)",
    f'sets.contains(["H100 80GB", "b"], [{_OWN}.name])',
    f"sets.intersects([true], [{_OWN}.mig])",
    f"sets.equivalent([3, 3], [{_OWN}.index])",
    'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"',
    f'{_AMOUNT}.memory.compareTo(quantity("40Gi")) >= 0',
    f'{_AMOUNT}.memory.isGreaterThan(quantity("80Gi"))',
    f'{_AMOUNT}.memory == quantity("83516416Ki")',
    f"{_AMOUNT}.memory.asInteger() > 100",
    f"{_AMOUNT}.part.asInteger() == 0",
    f"{_AMOUNT}.part.isInteger()",
    f"{_AMOUNT}.part.asApproximateFloat() == 0.5",
    f"{_AMOUNT}.part.sign() == 1",
    f"sign({_AMOUNT}.part) == 1",
    f'{_AMOUNT}.part.add(quantity("0.5")).sub(1) == quantity("0")',
    f'quantity("1Gi").add(quantity("1Gi")).isLessThan({_AMOUNT}.memory)',
    'quantity(" 1").sign() == 1',
    'isQuantity("12x") || isQuantity("1.5e3")',
    f'{_OWN}.version.compareTo(semver("550.54.14")) < 0',
    f'{_OWN}.version == semver("550.54.14-rc.1")',
    f'{_OWN}.version.isGreaterThan(semver("550.54.14-beta.20"))',
    f'{_OWN}.version.isLessThan(semver("550.54.14-rc.1.1"))',
    f"{_OWN}.version.major() == 550 && {_OWN}.version.minor() == 54 && {_OWN}.version.patch() == 14",
    'semver("v01.2", true) == semver("1.2.0")',
    'semver("1.2").major() == 1',
    'isSemver("1.02.3") || isSemver("v1", true)',
    'isSemver("1.2-a", true)',
    'isSemver("1.2.3-01")',
    f'{_OWN}.missing == "x"',
    f'{_OWN}.missing == "x" || true',
    f"has({_OWN}.missing)",
    f'{_OWN}.?missing.orValue("z") == "z"',
    f'{_OWN}[?"missing"].orValue("z") == "z"',
    f'"missing" in {_OWN}',
    '"x" in device.attributes["unknown.example.com"]',
    'has(device.capacity["unknown.example.com"].x)',
    'device.attributes["unknown.example.com"].x == 1',
    f'device.attributes["{DRIVER}" + ""].index == 3',
    f'"{DRIVER}" in device.attributes && !("unknown.example.com" in device.attributes)',
    f"cel.bind(own, {_OWN}, own.index == 3 && !own.mig)",
    f'{_OWN}.all(name, name != "device.nothing")',
    f"{_OWN}.index",
    "device.nothing == 1",
    "device.driver",
    "device.driver +",
    f"math.greatest({_OWN}.index, 2) == 3",
    f'{_OWN}.version.isLessThan(quantity("1"))',
    f'"a]b" == {_OWN}["name"] || {_OWN}[ "index" ] == 3 // device.attributes[',
)


def expression_cases() -> list[Any]:
    return [pytest.param(each, id=f"{number}") for number, each in enumerate(EXPRESSIONS)]


@pytest.mark.parametrize("expression", expression_cases())
def test_expressions(plugins: Plugins, expression: str) -> None:
    """True, false and an error are the same as with Kubernetes' own CEL."""
    selectors = [{"cel": {"expression": expression}}]
    request = {"name": "r", "exactly": {"deviceClassName": "any", "selectors": selectors}}
    spec = {"devices": {"requests": [request]}}
    slices = document(
        "ResourceSlice",
        "s",
        spec={
            "driver": DRIVER,
            "nodeName": "n0",
            "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
            "devices": [_DEVICE],
        },
    )
    claim = document("ResourceClaim", "c0", namespaced=True, spec=spec)
    found = compare(plugins, cluster(["n0"], [slices], [claim]), POD, MATCHER)
    assert not found.problem, shown(found)
    assert bool(found.answer.error) == bool(found.said.error)


@pytest.mark.parametrize(
    "expression",
    [f'{_OWN}.name.find("[0-9]+GB") == "80GB"', '["a"].indexOf("a") == 0', 'isURL("a")', 'isIP("1.2.3.4")'],
)
def test_functions_that_are_not_there_are_named(expression: str) -> None:
    problem = MATCHER.problem_of(expression)
    assert "undeclared reference to" in problem or "no matching overload" in problem
