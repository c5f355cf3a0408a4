"""F9: while a bind is on its way to the server, its pod, its node or its sender changes.

Each bind of an act is held up in turn, and one thing happens meanwhile.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from phalanx.sim.drills.acts import Act
from phalanx.sim.drills.drill import Arm, play
from phalanx.sim.drills.plan import Plan
from phalanx.sim.invariants.check import Check
from phalanx.sim.network import Effect, Exchange, Rule
from phalanx.sim.store import Key, Object
from phalanx.sim.world import World

_BINDING: Final = "/binding"
_AFTER_S: Final = 1.0
_HELD_UP_S: Final = 2.0
_LONGER_THAN_LEASE_S: Final = 30.0
_TAKEN_S: Final = 60.0
"""Seconds until whatever was taken away or spoilt is well again."""


class _Bound(Struct, frozen=True):
    """What the bind that is held up says."""

    pod: Key
    node: Key


class Race(Struct, frozen=True):
    """`act` happens _AFTER_S after a bind was sent, which takes `seconds` to land."""

    name: str
    act: Callable[[World, _Bound], None]
    seconds: float = _HELD_UP_S


def race_plans(act: Act, *, seed: int, checks: tuple[type[Check], ...]) -> Iterator[Plan]:
    """A plan for each bind of the act and each race."""
    requests = play(act, seed=seed, checks=checks).requests
    for occurrence in range(sum(path.endswith(_BINDING) for _, path in requests)):
        for race in RACES:
            name = f"{act.name}: {race.name} #{occurrence}"
            yield Plan(name, act, seed, _hold_up(occurrence, race), watched_s=race.seconds)


def _hold_up(occurrence: int, race: Race) -> Arm:
    def arm(world: World) -> None:
        leader = world.leader()
        assert leader is not None
        process = leader.process
        assert process is not None
        host, network = process.host.name, process.network
        rule = Rule(
            Effect.SLOW, path_part=_BINDING, slow_s=race.seconds, skip=occurrence, times=1, methods=("POST",)
        )
        network.rules.append(rule)
        left = [occurrence]

        def hear(exchange: Exchange) -> None:
            is_sent = exchange.landed_at is None and exchange.told is None
            if exchange.host != host or not exchange.path.endswith(_BINDING) or not is_sent:
                return
            if not left[0]:
                network.later(_AFTER_S, lambda: race.act(world, _bound_by(exchange)))
            left[0] -= 1

        world.observe(hear)

    return arm


def _bound_by(exchange: Exchange) -> _Bound:
    namespace, _, name = exchange.path.split("/")[-4:-1]
    node = msgspec.json.decode(exchange.body)["target"]["name"]
    return _Bound(Key("pods", namespace, name), Key("nodes", "", node))


def _delete_pod(world: World, bound: _Bound) -> None:
    world.client.delete(bound.pod, uid=_uid(world, bound.pod), grace_s=0)


def _bind_first(world: World, bound: _Bound) -> None:
    """Somebody else puts the pod on the same node."""
    world.client.bind(bound.pod, uid=_uid(world, bound.pod), node=bound.node.name)


def _recreate_node(world: World, bound: _Bound) -> None:
    node = world.client.get(bound.node)
    assert node is not None
    world.client.delete(bound.node, uid=node["metadata"]["uid"])
    anew: Object = {**node, "metadata": {name: node["metadata"][name] for name in ("name", "labels")}}
    world.loop.call_later(_TAKEN_S, lambda: world.client.create("nodes", "", anew))


def _spoil_node(world: World, bound: _Bound) -> None:
    def report(status: str) -> None:
        world.client.update_status(bound.node, condition={"type": "GpuXid79Errors", "status": status})

    report("True")
    world.loop.call_later(_TAKEN_S, lambda: report("False"))


def _cordon_node(world: World, bound: _Bound) -> None:
    def set_to(cordoned: bool) -> None:
        world.client.update(
            bound.node, lambda node: {**node, "spec": {**node["spec"], "unschedulable": cordoned}}
        )

    set_to(True)
    world.loop.call_later(_TAKEN_S, lambda: set_to(False))


def _kill_leader(world: World, _bound: _Bound) -> None:
    leader = world.leader()
    if leader is not None:
        leader.kill()


def _uid(world: World, key: Key) -> str:
    found = world.client.get(key)
    assert found is not None
    return str(found["metadata"]["uid"])


RACES: Final = (
    Race("its pod is deleted", _delete_pod),
    Race("somebody else binds its pod", _bind_first),
    Race("its node is made anew", _recreate_node),
    Race("its node turns bad", _spoil_node),
    Race("its node is cordoned", _cordon_node),
    Race("its leader dies", _kill_leader),
    Race("its leader dies, and it lands under the next one", _kill_leader, _LONGER_THAN_LEASE_S),
)
