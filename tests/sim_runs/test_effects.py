"""API faults affect requests that schedulers send, and only faults with an effect are counted."""

import asyncio
from functools import cache, partial

import pytest
from msgspec.structs import replace
from phalanx_simulator.drills.catalogue import ALL_OPERATIONS
from phalanx_simulator.drills.operations import Operation
from phalanx_simulator.embedded.manifests import queue
from phalanx_simulator.faults.fault import Fault
from phalanx_simulator.faults.kinds import REQUESTS, WRITES
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.runs.scenarios import Request, scenario_of
from phalanx_simulator.runs.simulation import simulate
from phalanx_simulator.runs.world import World, WorldSettings, in_world

pytestmark = pytest.mark.usefixtures("quiet")

ACTS = [act for act in ALL_OPERATIONS if act.name in ("node-lost-restart", "job-member-lost")]
QUIET = Request(seed=3, nodes=4, hours=0.01, faults="none", load=0.5)


@cache
def sent() -> frozenset[tuple[str, str]]:
    """Methods and paths that schedulers send while a gang restarts and a Job loses a member, and what they
    watch."""
    found: set[tuple[str, str]] = set()

    class Listen(Check):
        name = "listen"

        def on_call(self, call: Call) -> None:
            if call.stage is Stage.SENT:
                found.add((call.exchange.method, call.exchange.path))

        def at_rest(self) -> None:
            for replica in self.context.replicas:
                assert replica.process is not None
                found.update(
                    ("WATCH", f"/{kind.partition('.')[0]}")
                    for kind in replica.process.network.received.versions
                )

    async def play(act: Operation, world: World) -> None:
        await act.prepare(world)
        world.create([queue("red")])
        done = act.begin(world)
        while not done():
            await asyncio.sleep(1.0)
        world.at_rest()

    for act in ACTS:
        in_world(WorldSettings(seed=1, checks=(Listen,), config=act.config), partial(play, act))
    return frozenset(found)


def fits(request: str, method: str, path: str) -> bool:
    """Whether a rule of the network for this request matches."""
    wanted, _, resource = request.partition(" ")
    part = f"/{resource.rpartition('/')[2]}" if resource else ""
    return wanted in ("", method) and part in path


@pytest.mark.parametrize("request_", REQUESTS)
def test_schedulers_send_every_request_that_faults_select(request_: str) -> None:
    assert any(fits(request_, *each) for each in sent())


def test_faults_can_select_every_kind_of_write() -> None:
    writes = {(method, path) for method, path in sent() if method not in ("GET", "WATCH")}
    missed = {each for each in writes if not any(fits(request, *each) for request in WRITES)}
    assert {(method, path.rpartition("/")[2]) for method, path in missed} == {
        ("POST", "configmaps"),
        ("POST", "leases"),
    }


def counted(*faults: Fault) -> dict[str, int]:
    """Effective faults by family of a short run with these faults."""
    scenario = replace(scenario_of(QUIET, checks=()), faults=faults)
    return dict(simulate(scenario).faults)


HITS = (
    Fault("F3", "api-slow", 1.0, seconds=20, settings={"request": "PATCH leases", "slow_ms": 10}),
    Fault("F4", "watch-cut", 1.0, settings={"resource": "pods"}),
    Fault("F5", "leader-kill", 1.0, settings={"replica": "leader"}),
    Fault("F6", "node-lost", 1.0, ("n0001",), 5),
    Fault("F9", "queue-loop", 1.0, seconds=5),
)

MISSES = (
    Fault("F3", "api-slow", 1.0, seconds=20, settings={"request": "PUT leases", "slow_ms": 10}),
    Fault("F4", "watch-cut", 1.0, settings={"resource": "secrets"}),
    Fault("F6", "node-cordon", 1.0, ("no-such-node",), 5),
    Fault("F8", "pod-stuck-terminating", 1.0, ("default/no-such-pod",), 5),
)


def test_only_faults_with_an_effect_are_counted() -> None:
    assert counted(*HITS, *MISSES) == {"F3": 1, "F4": 1, "F5": 1, "F6": 1, "F9": 1}


def test_faults_hit_the_claims_that_a_scheduler_makes() -> None:
    after = {"replica": "leader"}
    hits = (
        Fault("F14", "claim-leader-kill", 1.0, seconds=120, settings={**after, "after": "made"}),
        Fault("F14", "claim-leader-kill", 60.0, seconds=120, settings={**after, "after": "allocated"}),
        Fault(
            "F14",
            "claim-error",
            1.0,
            seconds=120,
            settings={"request": "POST resourceclaims", "permille": 500, "effect": "refused"},
        ),
    )
    scenario = scenario_of(replace(QUIET, hours=0.05, workload="claims"), checks=ALL_CHECKS)
    summary = simulate(replace(scenario, faults=hits))
    assert summary.faults == {"F14": 3}
    assert summary.violations == ()
    assert summary.coverage.keys() >= {
        "special-claim-refused",
        "special-claim-used",
        "special-claim-left-by-leader",
    }


def test_faults_hit_the_devices_that_drivers_prepare() -> None:
    """They cannot be prepared at first, then never are, then late while a leader ends."""
    scenario = scenario_of(replace(QUIET, seed=5, workload="prepared"), checks=ALL_CHECKS)
    nodes = tuple(each["metadata"]["name"] for each in scenario.cluster if each["kind"] == "Node")
    kill = {"replica": "leader", "after": "allocated"}
    hits = (
        Fault("F15", "devices-not-preparable", 1.0, nodes, seconds=30),
        Fault("F15", "devices-never-prepared", 25.0, nodes, seconds=650),
        Fault("F15", "devices-prepared-late", 640.0, nodes, seconds=90, settings={"delay_s": 50}),
        Fault("F14", "claim-leader-kill", 640.0, seconds=90, settings=kill),
    )
    summary = simulate(replace(scenario, faults=hits, seconds=740.0))
    assert summary.faults == {"F14": 1, "F15": 3}
    assert summary.violations == ()
    assert summary.coverage.keys() >= {
        "devices-prepared",
        "device-not-preparable",
        "devices-prepared-at-failover",
        "devices-prepared-too-late",
    }
