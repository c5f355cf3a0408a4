"""What a share consumes is what kube-scheduler counts: the share fits exactly where so much is left."""

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given
from phalanx.model.resources import billionths
from phalanx.model.supplies.devices.matching import Matcher

from tests.examples import holds
from tests.oracle.clusters import Case
from tests.oracle.device_clusters import DRIVERS, cluster, document
from tests.oracle.device_comparison import compare, shown
from tests.oracle.plugins import Plugins
from tests.oracle.share_clusters import POD, cases_with_shares

MATCHER: Final = Matcher()
STEPS: Final = {"default": "2", "validRange": {"min": "2", "max": "8", "step": "3"}}
PARTS: Final = {"default": "500m", "validRange": {"min": "500m", "step": "250m"}}
VALUES: Final = {"default": "2", "validValues": ["500m", "2", "5"]}
Policy = dict[str, Any] | None


def is_feasible(plugins: Plugins, policy: Policy, asked: str | None, used: int) -> bool:
    """Whether both schedulers find a share of a device with 10, of which so many billionths are used."""
    own = {"requestPolicy": policy} if policy is not None else {}
    device = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {"amount": {"value": "10", **own}},
    }
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVERS[0], "nodeName": "n0", "pool": pool, "devices": [device]}
    result = {"request": "r", "driver": DRIVERS[0], "pool": "n0", "device": "d"}
    share = {"shareID": "00000000-0000-4000-8000-000000000000", "consumedCapacity": {"amount": f"{used}n"}}
    status = {"allocation": {"devices": {"results": [{**result, **share}]}}}
    of_other = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any"}}]}}
    amounts = {"capacity": {"requests": {"amount": asked}}} if asked is not None else {}
    request = {"name": "r", "exactly": {"deviceClassName": "any", **amounts}}
    objects = cluster(
        ["n0"],
        [
            document("ResourceSlice", "s", spec=spec),
            document("ResourceClaim", "used", namespaced=True, spec=of_other, status=status),
        ],
        [document("ResourceClaim", "c", namespaced=True, spec={"devices": {"requests": [request]}})],
    )
    found = compare(plugins, objects, POD, MATCHER)
    assert not found.problem, shown(found)
    return bool(found.answer.feasible)


@pytest.mark.slow
@holds(25, suppress_health_check=list(HealthCheck))
@given(case=cases_with_shares())
def test_random_clusters_with_shares(plugins: Plugins, case: Case) -> None:
    found = compare(plugins, case.objects, POD, MATCHER)
    assert not found.problem, shown(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "asked", "consumed"),
    [
        (None, None, "10"),
        (None, "3", "3"),
        (None, "1n", "1n"),
        (None, "0", "0"),
        ({"default": "4"}, None, "4"),
        ({"default": "4"}, "3", "3"),
        ({"default": "0"}, None, "0"),
        (VALUES, None, "2"),
        (VALUES, "1u", "500m"),
        (VALUES, "500001u", "2"),
        (VALUES, "2001m", "5"),
        (VALUES, "6", None),
        ({"default": "2", "validRange": {"min": "2"}}, "1", "2"),
        ({"default": "2", "validRange": {"min": "2"}}, "2500m", "2500m"),
        (STEPS, None, "2"),
        (STEPS, "1500m", "2"),
        (STEPS, "2001m", "5"),
        (STEPS, "8", "8"),
        (STEPS, "8001m", None),
        (PARTS, None, "500m"),
        (PARTS, "400m", "500m"),
        (PARTS, "600m", "1"),
        (PARTS, "1100m", "2"),
        ({"default": "1", "validRange": {"min": "1", "max": "1500m", "step": "500m"}}, "1100m", None),
        (STEPS, "9223372036854775807", None),
    ],
)
def test_what_a_share_consumes(
    plugins: Plugins, policy: Policy, asked: str | None, consumed: str | None
) -> None:
    if consumed is None:
        assert not is_feasible(plugins, policy, asked, 0)
        return
    left = billionths("10") - billionths(consumed)
    assert is_feasible(plugins, policy, asked, left)
    assert not is_feasible(plugins, policy, asked, left + 1)
