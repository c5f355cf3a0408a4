"""Claims to devices in whole cycles: gangs get exactly the devices that they need, and no device twice."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit
from phalanx.model.decisions import Certificate
from phalanx.model.devices.claims import Claim
from phalanx.model.devices.cluster import ClusterDevices
from phalanx.model.devices.pools import Slice
from phalanx.model.names import NodeName
from phalanx.model.pods import PodClaim
from phalanx.model.reasons import Reason
from phalanx.model.snapshot import Snapshot

from tests.builders import Decided, Scenario
from tests.model.devices import CLASSES, claim_of, device, request, slice_of

PROOF = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")


class World(Scenario):
    """A scenario with slices and claims."""

    def __init__(self) -> None:
        super().__init__()
        self.slices: list[Slice] = []
        self.device_claims: dict[str, Claim] = {}
        self.are_listed = True

    def devices(self, node: str, *devices: dict[str, Any], **more: Any) -> None:
        more = {"pool": {"name": node}, "nodeName": node, **more}
        self.slices.append(slice_of(*devices, name=node, **more))

    def claiming(self, gang: str, *requests: dict[str, Any], made: bool = True, **more: Any) -> None:
        """Each member of the gang has one claim."""
        members = []
        for pod in self.members(gang):
            name = f"{pod.name}-gpu"
            if made:
                claim = claim_of(*(requests or (request(),)), **more)
                self.device_claims[name] = replace(
                    claim, namespace="team", name=name, uid=f"uid-{name}", owner=pod.uid
                )
            entry = PodClaim("gpu", name if made else "", is_own=True)
            members.append(replace(pod, device_claims=(entry,)))
        self.change(gang, members=tuple(members))

    def snapshot(self, shuffle: int = 0) -> Snapshot:
        devices = ClusterDevices(
            slices=tuple(self.slices),
            classes=CLASSES,
            claims=tuple(self.device_claims.values()),
            are_claimed=True,
            are_listed=self.are_listed,
        )
        return replace(super().snapshot(shuffle), devices=devices)


def allocated(decided: Decided, gang: str) -> list[tuple[str, str]]:
    """Node and device of each grant."""
    binds = [bind for each in decided.placements(gang) for bind in each.binds]
    found = []
    for bind in binds:
        for granted in bind.grants:
            assert granted.name == f"{bind.name}-gpu"
            assert granted.allocation is not None
            found += [(bind.node, each.device[2]) for each in granted.allocation.devices]
    return sorted(found)


def two_nodes() -> World:
    world = World()
    world.nodes("a", 2)
    world.devices("a-0", device("x0"), device("x1"))
    world.devices("a-1", device("y0"), device("y1"))
    return world


def test_each_member_gets_a_device_of_its_own() -> None:
    world = two_nodes()
    world.gang("g", 4)
    world.claiming("g")
    decided = world.decide()
    assert allocated(decided, "g") == [("a-0", "x0"), ("a-0", "x1"), ("a-1", "y0"), ("a-1", "y1")]


def test_a_gang_with_too_few_devices_waits_as_a_whole() -> None:
    world = two_nodes()
    world.gang("g", 5)
    world.claiming("g")
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert verdict.message == (
        "4 of 5 pods fit the empty cluster; 5 cpu, 5Gi memory needed, and devices for the claims of 5 pods"
    )


def test_gangs_of_one_cycle_share_the_devices() -> None:
    world = two_nodes()
    for name in ("g", "h", "i"):
        world.gang(name, 2)
        world.claiming(name)
    decided = world.decide()
    first, second = allocated(decided, "g"), allocated(decided, "h")
    assert len({*first, *second}) == 4
    assert decided.verdict("i").reason is Reason.INSUFFICIENT_CAPACITY


def test_kinds_of_claims_share_the_devices_of_a_cycle() -> None:
    world = two_nodes()
    world.gang("one", 1)
    world.claiming("one")
    world.gang("two", 1)
    world.claiming("two", request(count=2))
    world.gang("more", 1)
    world.claiming("more", request(count=2))
    decided = world.decide()
    assert len(allocated(decided, "one")) == 1
    assert len(allocated(decided, "two")) == 2
    assert not decided.placements("more")


def test_devices_of_allocated_claims_are_in_use() -> None:
    world = two_nodes()
    world.gang("g", 4)
    world.claiming("g")
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "a-1", "device": "y0"}]
    status = {"allocation": {"devices": {"results": results}}}
    world.device_claims["other"] = claim_of(request(), status=status)
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert verdict.message == "3 of 4 pods fit now; devices are free for the claims of 3 of 4 pods"
    world.change("g", min_member=3)
    decided = world.decide()
    assert ("a-1", "y0") not in allocated(decided, "g")
    assert len(allocated(decided, "g")) == 3


def test_devices_match_in_an_attribute() -> None:
    world = World()
    world.nodes("a", 1)
    world.devices("a-0", *(device(f"d{n}", test__numa=n % 2) for n in range(4)))
    world.gang("g", 2)
    world.claiming("g", request(count=2), constraints=[{"matchAttribute": "test/numa"}])
    binds = [bind for each in world.decide().placements("g") for bind in each.binds]
    found = [
        sorted(each.device[2] for each in granted.allocation.devices)
        for bind in binds
        for granted in bind.grants
        if granted.allocation is not None
    ]
    assert sorted(found) == [["d0", "d2"], ["d1", "d3"]]


def test_selectors_decide_which_nodes_have_devices() -> None:
    world = World()
    world.nodes("a", 2)
    world.devices("a-0", device("small", test__size=1))
    world.devices("a-1", device("large", test__size=2))
    world.gang("g", 1)
    world.claiming("g", request("r", 'device.attributes["test"].size > 1'))
    assert allocated(world.decide(), "g") == [("a-1", "large")]


def test_devices_that_several_nodes_can_use_do_not_count() -> None:
    world = World()
    world.nodes("a", 2)
    world.slices.append(slice_of(device("net"), name="net", pool={"name": "net"}, allNodes=True))
    world.gang("g", 1)
    world.claiming("g")
    assert not world.decide().placements("g")


@pytest.mark.parametrize(
    ("wanted", "reason", "text"),
    [
        (
            request(device_class="none"),
            Reason.INVALID_OBJECT,
            "pod g-0: spec.resourceClaims[0]: spec.devices.requests[0].exactly.deviceClassName: DeviceClass",
        ),
        (
            request("r", "device.("),
            Reason.INVALID_OBJECT,
            "spec.resourceClaims[0]: spec.devices.requests[0].exactly.selectors[0].cel: does not compile",
        ),
        (
            request(capacity={"requests": {"memory": "1Gi"}}),
            Reason.UNSUPPORTED_FIELD,
            "spec.resourceClaims[0]: spec.devices.requests[0].exactly.capacity",
        ),
    ],
)
def test_a_claim_that_nobody_may_allocate(wanted: dict[str, Any], reason: Reason, text: str) -> None:
    world = two_nodes()
    world.gang("g", 2)
    world.claiming("g", wanted)
    world.gang("other", 1)
    world.claiming("other")
    decided = world.decide()
    assert decided.verdict("g").reason is reason
    assert text in decided.verdict("g").message
    assert decided.placements("other")


def test_a_pod_waits_until_its_claim_is_made() -> None:
    world = two_nodes()
    world.gang("g", 1)
    world.claiming("g", made=False)
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.INVALID_OBJECT
    assert "spec.resourceClaims[0]: its ResourceClaim has not been created yet" in verdict.message


def test_pods_wait_until_claims_are_listed() -> None:
    world = two_nodes()
    world.gang("g", 1)
    world.claiming("g")
    world.are_listed = False
    assert world.decide().verdict("g").reason is Reason.INVALID_OBJECT


def test_shared_claims_and_mixed_claims_are_refused() -> None:
    world = two_nodes()
    world.gang("shared", 1)
    (pod,) = world.members("shared")
    world.change("shared", members=(replace(pod, device_claims=(PodClaim("gpu", "c"),)),))
    world.gang("mixed", 2)
    world.claiming("mixed")
    world.device_claims["mixed-1-gpu"] = replace(
        world.device_claims["mixed-1-gpu"], spec=claim_of(request(count=2)).spec
    )
    decided = world.decide()
    for name, text in (("shared", "resourceClaimName"), ("mixed", "ask for different devices")):
        assert decided.verdict(name).reason is Reason.UNSUPPORTED_FIELD
        assert text in decided.verdict(name).message


def test_a_rolled_back_statement_gives_its_devices_back() -> None:
    world = two_nodes()
    world.gang("g", 2)
    world.claiming("g")
    session = Session(world.snapshot(), SchedulerConfig())
    gang = next(iter(session.gangs.values()))
    pods, node = gang.members, NodeName("a-0")
    need = session.devices.needs.of(pods[0].shape)

    def count() -> int:
        return session.devices.count(need, session.nodes[node].node)

    assert count() == 2
    with session.statement() as statement:
        statement.place(gang=gang, assignments=[(node, pods)], cause="", certificate=PROOF)
        assert count() == 0
        statement.roll_back()
    assert count() == 2
    both = (*pods, pods[0])
    with pytest.raises(DoesNotFit), session.statement() as statement:
        statement.place(gang=gang, assignments=[(node, both)], cause="", certificate=PROOF)
