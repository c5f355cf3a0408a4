"""The use of a gang is charged to a queue that accepts its namespace, whatever the tenant names.

Team x may use queue x, team y queue y; nobody but a team without a queue may use `default`.
"""

import pytest

from tests.model.written import label
from tests.tenants.world import CHARGED, World


def two_teams(*, limit: int = -1, default: bool = True) -> World:
    """Queues x and y, each for one team, and two namespaces of these teams. `default`: open to all."""
    world = World().queue("x", team="x", limit=limit).queue("y", team="y")
    world.namespace("ns-x", team="x").namespace("ns-y", team="y").namespace("other")
    return world if default else world.queue("default", team="nobody")


def test_a_pod_that_names_the_queue_of_another_team_is_not_charged_there() -> None:
    """A pod with spec.nodeName runs without asking the scheduler."""
    world = two_teams().queue("y", team="y", limit=4)
    world.pods("thief", "ns-x", 4, queue="y", on="n0").pods("honest", "ns-y", 4, queue="y")
    assert world.charges() == {"default": 4}
    assert sorted(world.decide().placed) == [f"honest-{index}" for index in range(4)]


def test_a_limit_counts_pods_that_name_another_queue() -> None:
    world = two_teams(limit=2, default=False).pods("run", "ns-x", 2, queue="y", on="n0")
    outcome = world.pod("next", "ns-x", queue="x").decide()
    assert world.charges() == {"x": 2}
    assert outcome.reasons == {"ns-x/next": "QueueLimit"}


def test_a_running_gang_that_names_another_queue_stays_in_the_one_that_it_started_in() -> None:
    world = two_teams(limit=2).pods("run", "ns-x", 2, group="g", on="n0", charged="x")
    for queue in ("x", "y", "default", "no-such-queue"):
        world.group("g", "ns-x", queue=queue, minMember=2)
        assert world.charges() == {"x": 2}
        assert world.pod("next", "ns-x", queue="x").decide().reasons == {"ns-x/next": "QueueLimit"}


def test_a_running_pod_with_another_label_stays_in_the_queue_that_it_started_in() -> None:
    world = two_teams(limit=2).pods("run", "ns-x", 2, queue="y", on="n0", charged="x")
    assert world.charges() == {"x": 2}


def test_the_bind_records_the_queue() -> None:
    world = two_teams().pod("run", "ns-x", queue="x")
    (placement,) = world.decide().placements
    assert placement.queue == "x"


def test_a_pod_that_claims_to_have_started_in_the_queue_of_another_team_is_not_charged_there() -> None:
    world = two_teams().pod("thief", "ns-x", queue="y", on="n0", charged="y")
    assert world.charges() == {"default": 1}


def test_the_queue_of_the_namespace_is_charged_before_the_default() -> None:
    world = two_teams().namespace("ns-x", {label("queue"): "x"}, team="x")
    assert world.pod("thief", "ns-x", queue="y", on="n0").charges() == {"x": 1}


def test_the_first_queue_that_accepts_the_namespace_is_charged_last() -> None:
    world = two_teams(default=False).queue("w", team="x").pod("thief", "ns-x", queue="y", on="n0")
    assert world.charges() == {"w": 1}


def test_without_a_queue_that_accepts_the_namespace_nothing_is_charged() -> None:
    world = two_teams(default=False).pod("thief", "other", queue="y", on="n0")
    assert world.charges() == {"": 1}
    assert all(not report.allocated for report in world.decide().queues.values())


def test_a_parent_is_charged_for_nobody() -> None:
    """Queue org has no selector, so that it would accept all; its limit is for its children."""
    world = two_teams().queue("org", limit=8).queue("y", team="y", parent="org")
    assert world.pod("thief", "ns-x", queue="org", on="n0").charges() == {"default": 1}


def test_a_queue_with_children_stands_for_its_first_leaf_that_accepts() -> None:
    world = two_teams().queue("org").queue("x2", team="x", parent="org").queue("x1", team="x", parent="org")
    world.queue("a", team="y", parent="org").pod("run", "ns-x", queue="org", on="n0", charged="org")
    assert world.charges() == {"x1": 1}


def test_ancestors_must_accept_the_namespace_too() -> None:
    world = two_teams().queue("org", team="y").queue("open", parent="org")
    assert world.pod("thief", "ns-x", queue="open", on="n0").charges() == {"default": 1}
    assert world.pod("honest", "ns-y", queue="open", on="n0").charges() == {"default": 1, "open": 1}


def test_a_selector_that_stops_to_accept_a_namespace_moves_its_charges() -> None:
    """The gang cannot stay where its namespace is not accepted; lost members wait."""
    world = (
        two_teams()
        .group("g", "ns-x", queue="x", minMember=2)
        .pods("run", "ns-x", 2, group="g", on="n0", charged="x")
    )
    world.namespace("ns-x", team="z")
    assert world.charges() == {"default": 2}
    outcome = world.pod("run-1", "ns-x", group="g").decide()
    assert outcome.reasons == {"ns-x/g": "NamespaceNotAllowed"}
    world.namespace("ns-x", team="x")
    assert world.charges() == {"x": 1}


def test_a_deleted_queue_leaves_its_running_gangs_to_the_default() -> None:
    world = two_teams().pod("run", "ns-x", queue="x", on="n0", charged="x").pod("wait", "ns-x", queue="x")
    outcome = world.delete("Queue", "x").decide()
    assert world.charges() == {"default": 1}
    assert outcome.reasons == {"ns-x/wait": "QueueNotFound"}


def test_a_deleted_pod_group_leaves_its_pods_in_their_queue() -> None:
    world = two_teams().pods("run", "ns-x", 2, group="g", on="n0", charged="x")
    assert world.charges() == {"x": 2}


def test_a_gang_that_starts_again_is_in_the_queue_that_it_names_then() -> None:
    world = two_teams().group("g", "ns-x", queue="default", minMember=2)
    world.pods("run", "ns-x", 2, group="g", meta={"annotations": {CHARGED: "x"}})
    outcome = world.decide()
    assert {placement.queue for placement in outcome.placements} == {"default"}


def test_new_members_of_a_running_gang_are_charged_like_the_others() -> None:
    world = two_teams(limit=2).group("g", "ns-x", queue="default", minMember=2)
    world.pods("run", "ns-x", 2, group="g", on="n0", charged="x").pod("more", "ns-x", group="g")
    assert world.decide().reasons == {"ns-x/g": "AboveQueueLimit"}
    (placement,) = world.queue("x", team="x", limit=3).decide().placements
    assert placement.queue == "x"


def test_pods_of_a_group_of_another_owner_do_not_use_its_queue() -> None:
    owner = [{"kind": "Job", "name": "mine", "uid": "mine", "controller": True}]
    world = two_teams().group("g", "ns-x", queue="x")
    group = world.objects["PodGroup", "ns-x", "g"]
    assert not group.metadata.owner_references
    world.pod("thief", "ns-x", group="g", queue="y", on="n0", meta={"ownerReferences": owner})
    assert world.charges() == {"x": 1}


def test_pods_of_other_schedulers_are_not_charged() -> None:
    world = two_teams().pod("foreign", "ns-x", queue="y", on="n0", schedulerName="default-scheduler")
    assert world.charges() == {}


def test_what_a_queue_does_not_accept_is_not_pending_in_it() -> None:
    world = two_teams().pods("spam", "ns-x", 5, queue="y").pod("wait", "ns-y", queue="y", gpus=9)
    outcome = world.decide()
    assert outcome.reasons["ns-x/spam-0"] == "NamespaceNotAllowed"
    assert (outcome.queues["y"].pending_gangs, outcome.queues["y"].pending_pods) == (1, 1)


@pytest.mark.parametrize("named", ["y", "no-such-queue"])
def test_a_waiting_gang_waits_in_the_queue_that_it_names(named: str) -> None:
    reason = {"y": "NamespaceNotAllowed", "no-such-queue": "QueueNotFound"}[named]
    assert two_teams().pod("wait", "ns-x", queue=named).decide().reasons == {"ns-x/wait": reason}


def test_use_that_another_team_put_on_a_queue_does_not_take_its_guarantee() -> None:
    """Without the rule the guarantee of y would be used up by the pods of x, and y could reclaim nothing."""
    world = two_teams().queue("y", team="y", guarantee=4)
    world.pods("thief", "ns-x", 8, queue="y", on="n0").pods("honest", "ns-y", 4, queue="y")
    outcome = world.decide()
    assert sorted(outcome.placed) == [f"honest-{index}" for index in range(4)]
    assert len(outcome.evicted) == 4
