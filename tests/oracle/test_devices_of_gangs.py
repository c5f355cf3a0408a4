"""Devices that are allocated on several nodes together are accepted by kube-scheduler, one claim after the
other."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from phalanx.model.api import core
from phalanx.model.conversion.nodes import read_node
from phalanx.model.supplies.devices.api import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from phalanx.model.supplies.devices.claims import AllocatedDevice
from phalanx.model.supplies.devices.cluster import ClusterDevices, DeviceState
from phalanx.model.supplies.devices.matching import Matcher
from phalanx.model.supplies.devices.read import (
    read_device_class,
    read_resource_claim,
    read_slice,
    read_taint_rule,
)

from tests.examples import holds
from tests.oracle.clusters import Case
from tests.oracle.device_clusters import POD, cases_with_devices, document
from tests.oracle.plugins import Plugins

Document = dict[str, Any]

MATCHER: Final = Matcher()


def _state(objects: Sequence[Document]) -> DeviceState:
    def of(kind: str, struct: type[Any]) -> list[Any]:
        return [msgspec.convert(each, struct) for each in objects if each["kind"] == kind]

    rules = [read_taint_rule(each) for each in of("DeviceTaintRule", DeviceTaintRule)]
    devices = ClusterDevices(
        slices=tuple(read_slice(each) for each in of("ResourceSlice", ResourceSlice)),
        classes={each.metadata.name: read_device_class(each) for each in of("DeviceClass", DeviceClass)},
        taint_rules=tuple(rule for rule in rules if rule is not None),
        claims=tuple(read_resource_claim(each) for each in of("ResourceClaim", ResourceClaim)),
    )
    return DeviceState(devices, MATCHER)


def _allocated(claim: Document, devices: Sequence[AllocatedDevice]) -> Document:
    results = [
        {"request": each.request}
        | dict(zip(("driver", "pool", "device"), each.device, strict=True))
        | ({"adminAccess": True} if each.admin_access else {})
        | ({"shareID": each.share_id} if each.share_id else {})
        | ({"consumedCapacity": {name: f"{it}n" for name, it in each.consumed}} if each.consumed else {})
        for each in devices
    ]
    return {**claim, "status": {"allocation": {"devices": {"results": results}}}}


def _asking(pod: Document, claim: str) -> Document:
    named = [{"name": claim, "resourceClaimName": claim}]
    return {**pod, "spec": {**pod["spec"], "resourceClaims": named}}


_REQUEST: Final = st.fixed_dictionaries(
    {"deviceClassName": st.sampled_from(("any", "any", "one")), "count": st.sampled_from((1, 1, 2))},
    optional={
        "tolerations": st.just([{"operator": "Exists"}]),
        "capacity": st.sampled_from(({"memory": "5Gi"}, {"cores": "1"}, {})).map(
            lambda amounts: {"requests": amounts}
        ),
    },
)
_CLAIMS: Final = st.lists(st.lists(_REQUEST, min_size=1, max_size=2), min_size=2, max_size=3)


def _claim(name: str, requests: Sequence[Document]) -> Document:
    wanted = [{"name": f"r{index}", "exactly": each} for index, each in enumerate(requests)]
    return document("ResourceClaim", name, namespaced=True, spec={"devices": {"requests": wanted}})


@pytest.mark.slow
@holds(15, suppress_health_check=list(HealthCheck))
@given(case=cases_with_devices(), asked=_CLAIMS)
def test_claims_on_several_nodes(plugins: Plugins, case: Case, asked: list[list[Document]]) -> None:
    """Each claim is for another node, if there are enough. Those that were allocated before are in use."""
    pod = next(each for each in case.objects if each["kind"] == "Pod")
    own = {each["resourceClaimName"] for each in pod["spec"]["resourceClaims"]}
    others = [each for each in case.objects if each is not pod and each["metadata"]["name"] not in own]
    nodes = [each for each in case.objects if each["kind"] == "Node"]
    claims = {f"g{index}": _claim(f"g{index}", requests) for index, requests in enumerate(asked)}
    where = {name: nodes[index % len(nodes)] for index, name in enumerate(claims)}
    state = _state([*others, *claims.values()])
    wanted = [
        (
            state.on(read_node(msgspec.convert(where[name], core.Node))),
            [read_resource_claim(msgspec.convert(written, ResourceClaim))],
        )
        for name, written in claims.items()
    ]
    answer = state.allocate_on(wanted)
    before: list[Document] = []
    for (name, claim), devices in zip(claims.items(), answer.claims or (), strict=bool(answer.claims)):
        said = plugins.ask((*others, *before, claim, _asking(pod, name)), POD)
        node = where[name]["metadata"]["name"]
        assert said.error or node in said.feasible, (node, said, devices)
        before.append(_allocated(claim, devices))
