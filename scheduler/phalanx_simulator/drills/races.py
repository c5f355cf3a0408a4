"""F9: the pod, node or sender of a bind changes while the bind is in flight.

Each bind of an operation is delayed in turn, and one change is made meanwhile. A plan fails if the change had
no effect when the bind was applied.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from phalanx_simulator.drills.drill import Fault, Missed, Outcome, Plan, Strike
from phalanx_simulator.drills.operations import Operation
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.hosts.host import State
from phalanx_simulator.hosts.network import Effect, Exchange, Rule
from phalanx_simulator.invariants.facts import NodeFact, node_fact
from phalanx_simulator.runs.world import World

_BINDING: Final = "/binding"
_AFTER_S: Final = 1.0
_DELAY_S: Final = 2.0
_LONGER_THAN_LEASE_S: Final = 30.0
_UNDONE_S: Final = 60.0
"""Seconds until the change is undone."""

_FAULTY_CONDITION: Final = "GpuXidError"
"""A condition that the scheduler knows, faulty when True."""

_CONFLICT: Final = 409


class _Bound(Struct, frozen=True):
    """Pod, node and sender of the delayed bind."""

    pod: Key
    uid: str
    node: Key
    host: str


class Race(Struct, frozen=True):
    """A change that happens while a bind is delayed by `seconds`.

    `act` runs _AFTER_S after the bind was sent. `has_hit` checks right after the bind was applied whether the
    change had its effect.
    """

    name: str
    act: Callable[[World, _Bound], None]
    has_hit: Callable[[World, _Bound, Exchange], bool]
    seconds: float = _DELAY_S


def race_plans(operation: Operation, *, seed: int, undisturbed: Outcome) -> Iterator[Plan]:
    """A plan for each bind of the undisturbed run and each race."""
    for occurrence in range(sum(path.endswith(_BINDING) for _, path in undisturbed.requests)):
        for race in RACES:
            yield Plan(
                f"{operation.name}: {race.name} #{occurrence}", operation, seed, race_at(race, occurrence)
            )


def race_at(race: Race, occurrence: int) -> Fault:
    """The race at one bind of the leader, counted from 0.

    It may miss.
    """
    return Fault(_delay_bind(race, occurrence), watched_s=race.seconds)


def _delay_bind(race: Race, occurrence: int) -> Strike:
    def strike(world: World) -> Missed:
        delayed = _DelayedBind(race, occurrence)
        delayed.watch(world)
        return delayed.missed

    return strike


class _DelayedBind:
    """Delays one bind of the leader, runs the race, and checks its effect."""

    def __init__(self, race: Race, occurrence: int) -> None:
        self._has_hit = False
        self._seen = "the bind was never sent"
        self._race = race
        self._occurrence = occurrence
        self._left = occurrence
        self._exchange: Exchange | None = None

    def missed(self) -> str | None:
        """A message if the race had no effect."""
        return None if self._has_hit else f"the race had no effect: {self._seen}"

    def watch(self, world: World) -> None:
        """Wait for the bind."""
        leader = world.leader()
        assert leader is not None
        process = leader.process
        assert process is not None
        rule = Rule(
            Effect.SLOW,
            path_part=_BINDING,
            slow_s=self._race.seconds,
            skip=self._occurrence,
            times=1,
            methods=("POST",),
        )
        process.network.rules.append(rule)
        host, later = process.host.name, process.network.later

        def on_exchange(exchange: Exchange) -> None:
            if exchange.host != host or not exchange.path.endswith(_BINDING):
                return
            if exchange.landed_at is not None:
                self._look(world, exchange)
            if exchange.landed_at is not None or exchange.outcome is not None:
                return
            if not self._left:
                self._exchange, self._seen = exchange, "the bind was never applied"
                later(_AFTER_S, lambda: self._race.act(world, _bound_by(exchange)))
            self._left -= 1

        world.observe(on_exchange)

    def _look(self, world: World, exchange: Exchange) -> None:
        if exchange is not self._exchange:
            return
        self._exchange = None
        self._has_hit = self._race.has_hit(world, _bound_by(exchange), exchange)
        self._seen = "the bind was applied without the change"


def _bound_by(exchange: Exchange) -> _Bound:
    namespace, _, name = exchange.path.split("/")[-4:-1]
    body = msgspec.json.decode(exchange.body)
    pod, node = Key("pods", namespace, name), Key("nodes", "", body["target"]["name"])
    return _Bound(pod, body["metadata"]["uid"], node, exchange.host)


def _delete_pod(world: World, bound: _Bound) -> None:
    world.client.delete(bound.pod, uid=bound.uid, grace_s=0)


def _is_pod_gone(world: World, bound: _Bound, _exchange: Exchange) -> bool:
    pod = world.client.get(bound.pod)
    return pod is None or pod["metadata"]["uid"] != bound.uid


def _bind_first(world: World, bound: _Bound) -> None:
    """Bind the pod to the same node as another scheduler would."""
    world.client.bind(bound.pod, uid=bound.uid, node=bound.node.name)


def _lost_the_race(world: World, bound: _Bound, exchange: Exchange) -> bool:
    is_conflict = exchange.response is not None and exchange.response.status == _CONFLICT
    return is_conflict and not _is_pod_gone(world, bound, exchange)


def _recreate_node(world: World, bound: _Bound) -> None:
    node = world.client.get(bound.node)
    assert node is not None
    world.client.delete(bound.node, uid=node["metadata"]["uid"])
    recreated: Object = {**node, "metadata": {name: node["metadata"][name] for name in ("name", "labels")}}
    world.loop.call_later(_UNDONE_S, lambda: world.client.create("nodes", "", recreated))


def _is_node_gone(world: World, bound: _Bound, _exchange: Exchange) -> bool:
    return world.client.get(bound.node) is None


def _set_node_faulty(world: World, bound: _Bound) -> None:
    def report(status: str) -> None:
        world.client.update_status(bound.node, condition={"type": _FAULTY_CONDITION, "status": status})

    report("True")
    world.loop.call_later(_UNDONE_S, lambda: report("False"))


def _is_node_bad(world: World, bound: _Bound, _exchange: Exchange) -> bool:
    node = _node(world, bound)
    return node is not None and bool(node.fault)


def _cordon_node(world: World, bound: _Bound) -> None:
    def set_to(cordoned: bool) -> None:
        world.client.update(
            bound.node, lambda node: {**node, "spec": {**node["spec"], "unschedulable": cordoned}}
        )

    set_to(True)
    world.loop.call_later(_UNDONE_S, lambda: set_to(False))


def _is_node_cordoned(world: World, bound: _Bound, _exchange: Exchange) -> bool:
    node = _node(world, bound)
    return node is not None and node.is_cordoned


def _node(world: World, bound: _Bound) -> NodeFact | None:
    node = world.client.get(bound.node)
    return node_fact(node) if node is not None else None


def _kill_leader(world: World, _bound: _Bound) -> None:
    leader = world.leader()
    if leader is not None:
        leader.kill()


def _is_sender_gone(world: World, bound: _Bound, _exchange: Exchange) -> bool:
    processes = [replica.process for replica in world.replicas if replica.process is not None]
    hosts = [process.host for process in processes if process.host.state is not State.DEAD]
    return all(host.name != bound.host for host in hosts)


def _leads_another(world: World, bound: _Bound, exchange: Exchange) -> bool:
    return world.leader() is not None and _is_sender_gone(world, bound, exchange)


RACES: Final = (
    Race("its pod is deleted", _delete_pod, _is_pod_gone),
    Race("another scheduler binds its pod", _bind_first, _lost_the_race),
    Race("its node is recreated", _recreate_node, _is_node_gone),
    Race("its node becomes faulty", _set_node_faulty, _is_node_bad),
    Race("its node is cordoned", _cordon_node, _is_node_cordoned),
    Race("its leader is killed", _kill_leader, _is_sender_gone),
    Race(
        "its leader is killed, and it is applied under the next one",
        _kill_leader,
        _leads_another,
        _LONGER_THAN_LEASE_S,
    ),
)
