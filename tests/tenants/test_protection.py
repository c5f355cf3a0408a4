"""A tenant cannot keep borrowed capacity, whatever it writes into its PodGroup or its pods.

Team x runs on capacity that is guaranteed to team y, which then asks for it.
"""

from typing import Any

import pytest
from phalanx.framework.config import SchedulerConfig

from tests.tenants.world import Outcome, World, ago


def lent(*, since: float = 30, spec: dict[str, Any] | None = None, **x: Any) -> World:
    """Queue y is guaranteed all eight GPUs, which a gang of queue x uses; a gang of y waits for them."""
    world = World().queue("x", team="x", **x).queue("y", team="y", guarantee=8)
    world.namespace("ns-x", team="x").namespace("ns-y", team="y")
    world.group("loan", "ns-x", queue="x", minMember=2, **(spec or {}))
    world.pods("loan", "ns-x", 2, gpus=4, group="loan", on="n0", since=since, charged="x")
    return world.pod("owner", "ns-y", gpus=8, queue="y")


def evicts(outcome: Outcome) -> bool:
    assert outcome.evicted in (set(), {"loan-0", "loan-1"})
    return bool(outcome.evicted)


def runtime(text: str) -> dict[str, Any]:
    return {"disruption": {"minRuntime": text}}


@pytest.mark.parametrize("asked", ["11m", "999999h"])
def test_a_minimum_run_time_counts_for_ten_minutes_where_no_queue_says_otherwise(asked: str) -> None:
    assert not evicts(lent(since=9, spec=runtime(asked)).decide())
    assert evicts(lent(since=11, spec=runtime(asked)).decide())


@pytest.mark.parametrize(
    ("queue", "parent", "minutes"),
    [
        ({"disruption": {"maxMinRuntime": "2h"}}, {}, 60),
        ({"disruption": {"maxMinRuntime": "2h"}}, {"disruption": {"maxMinRuntime": "30m"}}, 30),
        ({}, {"disruption": {"maxMinRuntime": "20m"}}, 20),
        ({"disruption": {"maxMinRuntime": "0s"}}, {"disruption": {"maxMinRuntime": "2h"}}, 0),
        ({"reclaim": {"minRuntime": "4h"}}, {}, 240),
        ({"reclaim": {"minRuntime": "4h"}, "disruption": {"maxMinRuntime": "0s"}}, {}, 240),
    ],
)
def test_the_queues_bound_the_minimum_run_time(
    queue: dict[str, Any], parent: dict[str, Any], minutes: int
) -> None:
    """The gang asks for an hour."""

    def world(since: float) -> World:
        return lent(since=since, spec=runtime("1h"), parent="org", **queue).queue("org", **parent)

    assert evicts(world(minutes + 1).decide())
    assert minutes == 0 or not evicts(world(minutes - 1).decide())


def test_the_bound_holds_inside_a_queue_too() -> None:
    """A gang of higher priority of the same queue; `reclaim.minRuntime` protects from other queues only."""
    for since, evicted in ((9, set()), (11, {"low-0"})):
        world = World().queue("x", reclaim={"minRuntime": "4h"}).priority_class("high", 100)
        world.namespace("ns").group("low", "ns", queue="x", **runtime("99h"))
        world.pod("low-0", "ns", gpus=8, group="low", on="n0", since=since, charged="x")
        world.pod("high", "ns", gpus=8, queue="x", priority=100)
        assert world.decide().evicted == evicted


def test_a_pod_that_never_runs_is_protected_no_longer() -> None:
    """Its image does not exist, so that it is bound and never starts."""
    world = lent(spec=runtime("99h"))
    for name in ("loan-0", "loan-1"):
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(11)}
        status = {"phase": "Pending", "startTime": None, "conditions": [bound]}
        world.pod(name, "ns-x", gpus=4, group="loan", on="n0", charged="x", status=status)
    assert evicts(world.decide())


def test_new_members_do_not_start_the_time_again() -> None:
    """One member after the other is deleted and created again, so that none is old."""
    started = {"startedAt": ago(60)}
    assert evicts(lent(since=5, spec={**runtime("1h"), "status": started}).decide())
    assert not evicts(lent(since=5, spec=runtime("1h")).decide())


def test_a_gang_that_asks_for_too_much_learns_it() -> None:
    world = World().queue("x", disruption={"maxMinRuntime": "1h30m"}).namespace("ns")
    world.group("g", "ns", queue="x", **runtime("999999h")).pod("p", "ns", gpus=9, group="g")
    (said,) = [each for each in world.decide().verdicts["ns/g"].evidence if each.subject == "ignored"]
    assert said.finding == (
        "PodGroup g: disruption.minRuntime 999999h counts as 1h30m, the most that queue x allows"
    )


def test_gangs_that_become_not_preemptible_while_they_run_are_protected_within_the_guarantee() -> None:
    """Those that started first are protected; nobody asked the scheduler about the others."""
    world = World().queue("x", team="x", guarantee=4).queue("y", team="y", guarantee=4)
    world.namespace("ns-x", team="x").namespace("ns-y", team="y")
    for name, since in (("new", 20), ("old", 40)):
        world.group(name, "ns-x", queue="x", disruption={"preemptible": False})
        world.pod(f"{name}-0", "ns-x", gpus=4, group=name, on="n0", since=since, charged="x")
    assert world.pod("owner", "ns-y", gpus=4, queue="y").decide().evicted == {"new-0"}


@pytest.mark.parametrize("allowed", [True, False])
def test_where_a_queue_allows_it_not_preemptible_protects_from_all_but_owners(allowed: bool) -> None:
    never = {"disruption": {"preemptible": False}}
    allows = {"disruption": {"allowNonPreemptible": allowed}}
    assert evicts(lent(spec=never, **allows).decide())
    borrower = lent(spec=never, **allows).queue("y", team="y", weight=100)
    assert evicts(borrower.decide()) is not allowed


def test_a_succeeded_member_beyond_the_minimum_does_not_protect_the_others() -> None:
    """Pods that end at once would otherwise protect the gang for ever."""
    for minutes in (9, 11):
        ended = {"terminated": {"exitCode": 0, "finishedAt": ago(minutes)}}
        status = {
            "phase": "Succeeded",
            "startTime": ago(40),
            "containerStatuses": [{"name": "main", "state": ended}],
        }
        world = lent().pod("decoy", "ns-x", gpus=0, group="loan", on="n0", status=status)
        assert evicts(world.decide())


def test_a_member_of_another_scheduler_does_not_protect_the_others() -> None:
    world = lent().pod("decoy", "ns-x", gpus=0, group="loan", on="n0", schedulerName="default-scheduler")
    assert evicts(world.decide())


def test_moves_respect_the_same_bound() -> None:
    """The gang of x can be moved to another node, so that a gang of y fits."""
    config = SchedulerConfig(actions=("release", "recover", "consolidate", "preempt"))  # type: ignore[arg-type]
    for since, moved in ((9, set()), (130, {"small"})):
        world = World(nodes=2).queue("x", disruption={"maxMinRuntime": "0s"} if moved else {})
        world.namespace("ns").group("small", "ns", queue="x", **runtime("9h"))
        world.pod("small", "ns", gpus=4, group="small", on="n0", since=since, charged="x")
        world.pod("other", "ns", gpus=4, queue="x", on="n1", since=5, charged="x")
        world.pod("large", "ns", gpus=8, queue="x")
        assert world.decide(config=config).evicted == moved
