"""Workloads whose pods have a rule of kube-scheduler: what is created, and what the figures say about it."""

from collections.abc import Iterable
from typing import Any

import pytest
from phalanx_simulator.embedded.provisioned_volumes import provisioned_volume

from bench.harness import cluster
from bench.harness.contenders import BARE, PHALANX
from bench.harness.figures import figures
from bench.harness.gangs import claims, pods
from bench.harness.observation import Observation, PodTimes
from bench.harness.rules import DRIVER, Rule
from bench.harness.run import takes_part
from tests.bench.builders import WORKER, workload


def with_rule(rule: str, **fields: Any) -> Any:
    return workload(gangs=[{"count": 1, "rule": rule, "roles": [WORKER]}], **fields)


@pytest.mark.parametrize(
    ("rule", "claimed", "needed"),
    [
        ("spread", [], []),
        ("preferredAffinity", [], []),
        ("volume", ["PersistentVolumeClaim"] * 2, ["StorageClass"]),
        ("device", ["ResourceClaim"] * 2, ["DeviceClass", "ResourceSlice", "ResourceSlice"]),
    ],
)
def test_pods_have_the_rule_and_the_claims_that_it_needs(
    rule: str, claimed: list[str], needed: list[str]
) -> None:
    found = with_rule(rule)
    [gang] = found.arriving()
    made = claims(gang)
    assert [each["kind"] for each in made] == claimed
    assert [each["kind"] for each in cluster.needed_by_rules(found)] == needed
    names = [each["metadata"]["name"] for each in made]
    assert [name for pod in pods(gang) for name in claimed_by(pod["spec"])] == names
    plain = workload().arriving()[0]
    assert {*pods(gang)[0]["spec"]} > {*pods(plain)[0]["spec"]}


def claimed_by(spec: dict[str, Any]) -> Iterable[str]:
    yield from (each["persistentVolumeClaim"]["claimName"] for each in spec.get("volumes", ()))
    yield from (each["resourceClaimName"] for each in spec.get("resourceClaims", ()))


def test_a_volume_is_on_the_selected_node_and_for_the_claim() -> None:
    [claim, _] = claims(with_rule("volume").arriving()[0])
    claim["metadata"]["uid"] = "u1"
    made = provisioned_volume(claim, "n1", DRIVER)
    assert made["spec"]["claimRef"] == {"namespace": "bench", "name": claim["metadata"]["name"], "uid": "u1"}
    [term] = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]


def test_bare_binds_do_not_run_workloads_with_rules() -> None:
    assert takes_part(BARE, workload())
    assert not takes_part(BARE, with_rule("spread"))
    assert takes_part(PHALANX, with_rule("spread"))


def seen(*nodes: int) -> Observation:
    made = [
        PodTimes(
            f"gang-00000-worker-{index:05d}", "gang-00000", created=0.0, bound=1.0, node=f"node-{node:05d}"
        )
        for index, node in enumerate(nodes)
    ]
    return Observation(made)


@pytest.mark.parametrize(("nodes", "skew"), [((0, 8), 0), ((0, 1), 2), ((0,), 1)])
def test_the_skew_counts_zones_without_pods(nodes: tuple[int, ...], skew: int) -> None:
    found = with_rule("spread", nodes={"count": 16, "cores": 4, "rack": 1, "spine": 2})
    assert figures(found, seen(*nodes), started_at=0.0).largest_skew == skew


def test_racks_are_counted_for_gangs_that_prefer_one() -> None:
    found = with_rule("preferredAffinity", nodes={"count": 16, "cores": 4, "rack": 2, "spine": 2})
    assert figures(found, seen(0, 1), started_at=0.0).racks_per_gang == 1
    assert figures(found, seen(0, 2), started_at=0.0).racks_per_gang == 2
    assert figures(with_rule("spread"), seen(0, 1), started_at=0.0).racks_per_gang is None
    assert Rule("") is Rule.NONE
