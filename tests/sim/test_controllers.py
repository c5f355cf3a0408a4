"""Code that all embedded controllers share: work queue, client, conditions."""

import asyncio

import pytest
from phalanx_simulator.embedded.apiserver.errors import ApiError
from phalanx_simulator.embedded.apiserver.objects import set_condition
from phalanx_simulator.embedded.manifests import pod
from phalanx_simulator.embedded.store import Key
from phalanx_simulator.embedded.work_queue import SIM_WORK_PER_TURN, WorkQueue

from tests.sim.conftest import Cluster
from tests.sim.waiting import pods


def keys(count: int) -> list[Key]:
    return [Key("pods", "default", f"p{number}") for number in range(count)]


async def test_all_keys_are_handled_in_order_over_several_turns() -> None:
    handled: list[Key] = []
    queue = WorkQueue(handled.append)
    wanted = keys(2 * SIM_WORK_PER_TURN + 1)
    for key in (*wanted, *wanted):
        queue.add(key)
    turns = 0
    while len(handled) < len(wanted):
        await asyncio.sleep(0)
        turns += 1
        assert turns <= 3
    assert handled == wanted


async def test_a_refusal_does_not_stop_the_queue() -> None:
    handled: list[Key] = []

    def handle(key: Key) -> None:
        handled.append(key)
        raise ApiError(403, "Forbidden", "not now")

    queue = WorkQueue(handle)
    for key in keys(2):
        queue.add(key)
    await asyncio.sleep(0)
    assert handled == keys(2)


async def test_a_closed_queue_handles_nothing() -> None:
    handled: list[Key] = []
    queue = WorkQueue(handled.append)
    queue.add(keys(1)[0])
    queue.call_later(0, lambda: handled.extend(keys(1)))
    queue.close()
    queue.add(keys(1)[0])
    await asyncio.sleep(0.001)
    assert handled == []


async def test_the_client_does_not_change_a_recreated_object(cluster: Cluster) -> None:
    cluster.create(pod("p"))
    key = Key("pods", "default", "p")
    cluster.client.delete(key, uid="another")
    assert set(pods(cluster.server)) == {"p"}
    assert cluster.client.bind(key, uid="another", node="a") is False
    cluster.client.delete(Key("pods", "default", "ghost"), uid="any")
    with pytest.raises(ApiError):
        cluster.create(pod("p"))


def test_a_condition_remembers_when_its_status_changed() -> None:
    first = {"type": "Ready", "status": "True", "reason": "A", "lastTransitionTime": "1"}
    same = {"type": "Ready", "status": "True", "reason": "B", "lastTransitionTime": "2"}
    other = {"type": "Ready", "status": "False", "reason": "C", "lastTransitionTime": "3"}
    unrelated = {"type": "Initialized", "status": "True"}
    conditions = set_condition([unrelated, first], same)
    assert conditions == [unrelated, {**same, "lastTransitionTime": "1"}]
    assert set_condition(conditions, other) == [unrelated, other]
    assert set_condition([], first) == [first]
