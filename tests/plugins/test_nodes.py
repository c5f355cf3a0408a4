"""Which nodes a pod may use, and which ones it prefers."""

import pytest
from phalanx.model.nodes import Taint
from phalanx.model.pods import Requirement, Term, Toleration, VolumeClaim, WeightedTerm
from phalanx.model.reasons import Evidence, Reason

from tests.builders import Scenario

IN_B = Term((Requirement("zone", "In", ("b",)),))
IN_A = Term((Requirement("zone", "In", ("a",)),))


def test_a_cordoned_node_gets_no_new_pods() -> None:
    result = Scenario().nodes("old", 3, cordoned=True).nodes("new").gang("g", 2).decide()
    assert result.where("g") == {"new": 2}


def test_a_cordon_can_be_tolerated() -> None:
    everything = [Toleration("", "Exists")]
    assert Scenario().nodes("old", cordoned=True).gang("g", 1, tolerations=everything).decide().where("g")


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_hard_taint_rejects_pods_that_do_not_tolerate_it(effect: str) -> None:
    scenario = Scenario().nodes("tainted", taints=[Taint("gpu", effect, "yes")])
    scenario.gang("no", 1).gang("yes", 1, tolerations=[Toleration("gpu", "Equal", "yes", effect)])
    result = scenario.decide()
    assert result.where("yes") == {"tainted": 1}
    assert Evidence("nodes", f"taint gpu=yes:{effect} not tolerated") in result.verdict("no").evidence


def test_a_soft_taint_is_avoided_while_another_node_fits() -> None:
    scenario = Scenario().nodes("a-soft", taints=[Taint("old", "PreferNoSchedule")], cpu=2).nodes("b", cpu=2)
    assert scenario.gang("g", 1).decide().where("g") == {"b": 1}
    assert scenario.gang("g", 3).decide().where("g") == {"a-soft": 1, "b": 2}


def test_node_selector_and_required_affinity_must_both_hold() -> None:
    scenario = (
        Scenario()
        .nodes("a", labels={"zone": "a", "disk": "ssd"})
        .nodes("b", labels={"zone": "b", "disk": "ssd"})
        .nodes("c", labels={"zone": "b"})
        .gang("both", 1, selector={"disk": "ssd"}, affinity=[IN_B])
        .gang("either", 1, affinity=[Term((Requirement("zone", "In", ("none",)),)), IN_A])
        .gang("neither", 1, selector={"disk": "hdd"})
        .gang("nothing", 1, affinity=[Term()])
    )
    result = scenario.decide()
    assert result.where("both") == {"b": 1}
    assert result.where("either") == {"a": 1}
    assert result.reasons() == {"neither": Reason.NO_ELIGIBLE_NODE, "nothing": Reason.NO_ELIGIBLE_NODE}
    assert "3 node selector does not match" in result.verdict("neither").message


def test_the_preference_with_the_larger_weight_wins() -> None:
    prefers = [WeightedTerm(10, IN_A), WeightedTerm(60, IN_B)]
    scenario = Scenario().nodes("a", labels={"zone": "a"}).nodes("b", labels={"zone": "b"})
    assert scenario.gang("g", 1, prefers=prefers).decide().where("g") == {"b": 1}


def test_a_pod_is_placed_where_its_volume_is_accessible() -> None:
    scenario = Scenario().nodes("a", labels={"zone": "a"}).nodes("b", labels={"zone": "b"})
    scenario.claims["team/data"] = VolumeClaim("data", node_affinity=(IN_B,))
    scenario.claims["team/anywhere"] = VolumeClaim()
    result = scenario.gang("g", 2, claims=["data", "anywhere"]).decide()
    assert result.where("g") == {"b": 2}


def test_an_inaccessible_volume_is_reported() -> None:
    scenario = Scenario().nodes("a", labels={"zone": "a"})
    scenario.claims["team/data"] = VolumeClaim("data", node_affinity=(IN_B,))
    verdict = scenario.gang("g", 1, claims=["data"]).decide().verdict("g")
    assert verdict.reason is Reason.NO_ELIGIBLE_NODE
    assert "volume of claim data is not accessible" in verdict.message
