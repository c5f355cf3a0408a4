"""Subgroups of Volcano's PodGroups: the same pods start as by Volcano's own rules, or the gang is refused.

The oracle counts as `SubJobInfo` and `JobInfo` of Volcano 1.14.1 do: a SubJob is ready with `subGroupSize`
pods, a job with `minMember` pods and `minSubGroups` ready SubJobs of each policy.
"""

from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.api.volcano import VolcanoPodGroup
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Reason

from tests.cache.world import only_gang
from tests.examples import holds
from tests.model.test_hyper_nodes import exact, tree
from tests.model.written import named, other_pod_group, pod

GROUP = "scheduling.k8s.io/group-name"
PART = "volcano.sh/partition-id"


def gang(
    policies: list[dict[str, Any]], pods: dict[str, dict[str, str]], *, minimum: int, **spec: Any
) -> Gang:
    """`pods`: the labels of each pod."""
    written = other_pod_group(VolcanoPodGroup, minMember=minimum, subGroupPolicy=policies, **spec)
    members = [
        pod(name, meta={"annotations": {GROUP: "g"}, "labels": labels}) for name, labels in pods.items()
    ]
    return only_gang(written, *members)


def policy(name: str = "w", **fields: Any) -> dict[str, Any]:
    return {"name": name, "matchLabelKeys": [PART], **fields}


def test_pods_with_equal_values_are_one_subgroup() -> None:
    labels = {"a": {PART: "10"}, "b": {PART: "2"}, "c": {PART: "10"}, "d": {}, "e": {PART: ""}}
    found = gang([policy()], labels, minimum=5)
    assert {pod.name: pod.subgroup for pod in found.members} == {
        "a": "w/10",
        "b": "w/2",
        "c": "w/10",
        "d": "",
        "e": "",
    }
    assert [(part.name, part.min_member) for part in found.subgroups] == [("w/2", 1), ("w/10", 1)]
    assert found.problems == ()


def test_the_first_policy_that_selects_a_pod_counts() -> None:
    selector = {"matchExpressions": [{"key": "task", "operator": "In", "values": ["x"]}]}
    policies = [
        policy("x", labelSelector=selector, matchLabelKeys=["task", PART]),
        policy("all", subGroupSize=2),
    ]
    labels = {"a": {"task": "x", PART: "1"}, "b": {PART: "1"}, "c": {"task": "y", PART: "1"}}
    found = gang(policies, labels, minimum=3)
    assert {pod.name: pod.subgroup for pod in found.members} == {"a": "x/x-1", "b": "all/1", "c": "all/1"}
    assert [(part.name, part.min_member) for part in found.subgroups] == [("x/x-1", 1), ("all/1", 2)]


@pytest.mark.parametrize(
    ("wanted", "required", "preferred"),
    [
        (
            {"mode": "hard", "highestTierAllowed": 1},
            "topology.volcano.sh/tier-1",
            "topology.volcano.sh/tier-1",
        ),
        ({"highestTierName": "rack"}, "topology.volcano.sh/tier-name-rack", "topology.volcano.sh/tier-1"),
        ({"mode": "soft", "highestTierAllowed": 2}, None, "topology.volcano.sh/tier-1"),
        (None, None, None),
    ],
)
def test_the_topology_of_a_subgroup(
    wanted: dict[str, Any] | None, required: str | None, preferred: str | None
) -> None:
    (part,) = gang([policy(networkTopology=wanted)], {"a": {PART: "0"}}, minimum=1).subgroups
    assert (part.required, part.preferred) == (required, preferred)
    assert part.topology == ("hypernodes.topology.volcano.sh" if wanted else "")


def test_a_policy_that_has_too_few_subgroups_waits() -> None:
    (problem,) = gang([policy(minSubGroups=2)], {"a": {PART: "0"}, "b": {PART: "0"}}, minimum=1).problems
    assert problem.reason is Reason.MEMBERS_MISSING
    assert "spec.subGroupPolicy[w] needs 2 subgroups, and pods of 1 exist" in problem.message


def test_an_invalid_selector_and_a_repeated_name_are_refused_by_name() -> None:
    wrong = {"matchExpressions": [{"key": "a", "operator": "Is"}]}
    (problem,) = gang([policy(labelSelector=wrong)], {"a": {PART: "0"}}, minimum=1).problems
    assert "spec.subGroupPolicy[w].labelSelector.matchExpressions[0].operator" in problem.message
    twice = gang([policy(), policy()], {"a": {PART: "0"}}, minimum=1).problems
    assert {problem.message.split(" is not")[0] for problem in twice} == {
        "PodGroup field spec.subGroupPolicy[w] beside another one of this name"
    }


def test_no_more_subgroups_than_a_pod_group_may_have() -> None:
    labels = {f"p{number}": {PART: str(number)} for number in range(65)}
    (problem,) = gang([policy()], labels, minimum=65).problems
    assert "makes 65 subgroups, more than 64" in problem.message
    assert gang([policy()], {"a": {PART: "0"}}, minimum=1).problems == ()


def test_a_tier_of_two_numbers_has_no_name() -> None:
    """Volcano uses one of them, whichever it sees last."""

    def hyper_node(name: str, tier: int, tier_name: str) -> Any:
        spec = {"tier": tier, "tierName": tier_name, "members": exact("n")}
        return named("HyperNode", name, spec=spec)

    found = tree(hyper_node("a", 1, "rack"), hyper_node("b", 2, "rack"), hyper_node("c", 2, "row")).topology
    assert found is not None
    prefix = "topology.volcano.sh/tier-"
    levels = [(level.name, level.node_label) for level in found.levels]
    assert levels == [
        (f"{prefix}2", f"{prefix}2"),
        (f"{prefix}name-row", f"{prefix}2"),
        (f"{prefix}1", f"{prefix}1"),
    ]


# --- which pods start ---------------------------------------------------------------------------------------

Case = tuple[list[tuple[int, int]], dict[str, dict[str, str]], int]
"""Size and least number of each policy, labels of each pod, minMember."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    policies = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=2))
    keys = [f"k{index}" for index in range(len(policies))]
    drawn = draw(st.lists(st.tuples(st.sampled_from(["", *keys]), st.integers(0, 2)), min_size=1, max_size=8))
    labels = {f"p{index}": {key: str(part)} if key else {} for index, (key, part) in enumerate(drawn)}
    return policies, labels, draw(st.integers(1, 8))


def volcano_starts(case: Case, started: tuple[str, ...]) -> bool:
    """Whether Volcano calls a job ready of which these pods have nodes. SubJobs are placed whole."""
    policies, labels, minimum = case
    parts = Counter(next(iter(labels[name].items())) for name in started if labels[name])
    sizes = {f"k{index}": size for index, (size, _) in enumerate(policies)}
    if any(count < sizes[key] for (key, _), count in parts.items()):
        return False
    ready = Counter(key for key, _ in parts)
    enough = all(ready[f"k{index}"] >= least for index, (_, least) in enumerate(policies))
    return enough and len(started) >= minimum


@given(case=cases())
@holds(150)
def test_a_gang_starts_with_the_pods_with_which_volcano_starts_it(case: Case) -> None:
    """Of those with which each subgroup is whole or has no pod."""
    policies, labels, minimum = case
    written = [
        policy(f"q{index}", matchLabelKeys=[f"k{index}"], subGroupSize=size, minSubGroups=least)
        for index, (size, least) in enumerate(policies)
    ]
    found = gang(written, labels, minimum=minimum)
    of = {pod.name: pod for pod in found.members}
    subsets = [each for count in range(1, len(labels) + 1) for each in combinations(labels, count)]
    whole = [each for each in subsets if _has_whole_parts(case, each)]
    theirs = {each for each in whole if volcano_starts(case, each)}
    if found.problems:
        refused = [problem for problem in found.problems if problem.reason is not Reason.MEMBERS_MISSING]
        assert refused or not theirs
        return
    ours = {each for each in whole if found.minimum.is_reached([of[name] for name in each])}
    assert ours == theirs


def _has_whole_parts(case: Case, started: tuple[str, ...]) -> bool:
    policies, labels, _ = case
    parts = Counter(next(iter(labels[name].items())) for name in started if labels[name])
    return all(count >= policies[int(key[1:])][0] for (key, _), count in parts.items())
