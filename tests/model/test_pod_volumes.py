"""The claims that a pod mounts, and the classes of pods with claims in equal states."""

from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.names import GangId
from phalanx.model.pods import MountedClaim, Requirement, Term, VolumeClaim
from phalanx.model.supplies.volumes.read import read_claims

from tests.builders import Scenario
from tests.model.written import pod

IN_A, IN_B = (Term((Requirement("zone", "In", (value,)),)) for value in "ab")


def test_each_claim_is_read_once() -> None:
    found = read_claims(
        pod(
            "web-0",
            volumes=[
                {"name": "2", "persistentVolumeClaim": {"claimName": "b"}},
                {"name": "1", "persistentVolumeClaim": {"claimName": "a"}},
                {"name": "3", "persistentVolumeClaim": {"claimName": "b"}},
                {"name": "none", "persistentVolumeClaim": {}},
                {"name": "tmp", "emptyDir": {}},
            ],
        )
    )
    assert found == (MountedClaim("team/a"), MountedClaim("team/b"))


def test_the_claim_of_an_ephemeral_volume_is_named_after_the_pod_and_the_volume() -> None:
    found = read_claims(pod("web-0", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]))
    assert found == (MountedClaim("team/web-0-scratch", "scratch"),)


def test_pods_whose_claims_are_in_equal_states_are_one_class() -> None:
    """Their names differ, and one of them may be used by one pod only."""
    scenario = Scenario().nodes("a", labels={"zone": "a"})
    scenario.claims["team/a0"] = VolumeClaim("a0", (IN_A,))
    scenario.claims["team/a1"] = VolumeClaim("a1", (IN_A,), for_one_pod=True, owner="x")
    scenario.claims["team/b"] = VolumeClaim("b", (IN_B,))
    for name in ("a0", "a1", "b"):
        scenario.gang(name, 1, claims=[name])
    gangs = Session(scenario.snapshot(), SchedulerConfig()).gangs
    keys = {name: gangs[GangId(f"gang-{name}")].members[0].shape.key for name in ("a0", "a1", "b")}
    assert keys["a0"] == keys["a1"] != keys["b"]


def test_each_member_of_a_gang_is_placed_where_its_own_volume_is() -> None:
    scenario = Scenario().nodes("a", labels={"zone": "a"}).nodes("b", labels={"zone": "b"})
    scenario.claims["team/a"] = VolumeClaim("a", (IN_A,))
    scenario.claims["team/b"] = VolumeClaim("b", (IN_B,))
    first, second = scenario.gang("g", 2).members("g")
    scenario.change(
        "g",
        members=(
            replace(first, claims=(MountedClaim("team/b"),)),
            replace(second, claims=(MountedClaim("team/a"),)),
        ),
    )
    assert {bind.name: bind.node for bind in scenario.decide().result.placements[0].binds} == {
        "g-0": "b-0",
        "g-1": "a-0",
    }
