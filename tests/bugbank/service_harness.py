"""The environment of plays: a few nodes, the complete scheduler, one sequence of steps, and all checks.

A play is a coroutine function with a Stage as argument; it calls `must` and `until` for what has to hold.
Their failures, violations of the checks and a scheduler that ends unexpectedly are all findings.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from phalanx.framework.config import SchedulerConfig
from phalanx.model.names import LABEL_POD_GROUP
from phalanx.model.resources import CPU, GPU
from phalanx_simulator.embedded.apiserver.objects import is_deleting, set_condition
from phalanx_simulator.embedded.manifests import pod, pod_group
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.hosts.network import Effect, Exchange, Network, Rule
from phalanx_simulator.hosts.replica import Process, Replica
from phalanx_simulator.invariants.catalogue import ALL_CHECKS
from phalanx_simulator.runs.world import World, WorldSettings, in_world

SETTLE_S = 4.0
GROUPS = "podgroups.scheduling.phalanx.dev"
HOSTNAME = "kubernetes.io/hostname"


class Unmet(Exception):
    """A condition of the play does not hold."""


class Stage:
    """Short methods for plays. Times are simulated seconds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent: list[Exchange] = []
        self.evicted: list[str] = []
        self.deaths = 0
        self.on_bind: Callable[[], None] = lambda: None
        world.observe(self._hear)

    def _hear(self, exchange: Exchange) -> None:
        if exchange.landed_at is not None or exchange.outcome is not None:
            return
        self.sent.append(exchange)
        if exchange.path.endswith("/binding"):
            self.on_bind()
        if exchange.method == "DELETE" and "/pods/" in exchange.path:
            self.evicted.append(exchange.path.rpartition("/")[2])

    # --- time ----------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the start of the world."""
        return self.world.loop.time()

    async def open(self, *manifests: Object) -> None:
        """Create the initial objects, and wait for a leader."""
        self.create(*manifests)
        self.world.start()
        await asyncio.sleep(SETTLE_S)
        await self.until(lambda: self.world.leader() is not None, "a replica leads", within_s=20)

    async def until(self, is_so: Callable[[], bool], what: str, *, within_s: float = 10.0) -> None:
        """Wait until the condition holds. Raises Unmet."""
        end = self.now + within_s
        while not is_so():
            if self.now >= end:
                raise Unmet(f"not within {within_s:.0f} s: {what}")
            await asyncio.sleep(0.1)

    async def all_the_while(self, is_so: Callable[[], bool], what: str, *, for_s: float) -> None:
        """Check that the condition keeps holding. Raises Unmet."""
        end = self.now + for_s
        while self.now < end:
            self.must(is_so(), what)
            await asyncio.sleep(0.1)

    def must(self, is_so: bool, what: str) -> None:
        """Check that the condition holds now. Raises Unmet."""
        if not is_so:
            raise Unmet(f"at {self.now:.1f} s not so: {what}")

    # --- the cluster ---------------------------------------------------------------------------------------

    def create(self, *manifests: Object) -> None:
        """Create objects as a user does."""
        self.world.create(manifests)

    def edit(self, resource: str, name: str, change: Callable[[Object], Object], *, at: str = "") -> None:
        """Replace an object by the result of `change`."""
        self.world.client.update(self._key(resource, name, at), change)

    def delete(self, resource: str, name: str, *, grace_s: int | None = None) -> None:
        """Delete this object, by UID, if it exists."""
        key = self._key(resource, name)
        found = self.world.client.get(key)
        if found is not None:
            self.world.client.delete(key, uid=found["metadata"]["uid"], grace_s=grace_s)

    def get(self, resource: str, name: str) -> Object:
        """The object, or an empty one."""
        return self.world.client.get(self._key(resource, name)) or {}

    def status(self, name: str) -> Object:
        """The status of a PodGroup."""
        found: Object = self.get(GROUPS, name).get("status") or {}
        return found

    def pods(self, prefix: str = "") -> list[Object]:
        """Pods with this name prefix that are not being deleted."""
        found = [self.world.client.get(key) for key in self.world.client.keys("pods")]
        return [
            one
            for one in found
            if one is not None and not is_deleting(one) and one["metadata"]["name"].startswith(prefix)
        ]

    def bound(self, prefix: str = "") -> int:
        """How many of these pods have a node."""
        return sum(1 for one in self.pods(prefix) if one["spec"].get("nodeName"))

    def running(self, prefix: str = "") -> int:
        """How many of these pods are running."""
        return sum(1 for one in self.pods(prefix) if one["status"].get("phase") == "Running")

    def in_phase(self, phase: str, prefix: str = "") -> int:
        """How many of these pods are in this phase."""
        return sum(1 for one in self.pods(prefix) if one["status"].get("phase") == phase)

    def nodes_of(self, prefix: str = "") -> list[str]:
        """The distinct nodes of these pods."""
        return sorted({one["spec"]["nodeName"] for one in self.pods(prefix) if one["spec"].get("nodeName")})

    def cordon(self, node: str, *, cordoned: bool = True) -> None:
        """Or uncordon."""
        self.edit(
            "nodes", node, lambda item: {**item, "spec": {**item.get("spec", {}), "unschedulable": cordoned}}
        )

    def offer(self, node: str, **amounts: str) -> None:
        """Change a node's allocatable, not its capacity; `gpu` stands for the GPU resource."""
        named = {{"gpu": GPU, "cpu": CPU}.get(name, name): amount for name, amount in amounts.items()}
        key = self._key("nodes", node)
        allocatable = {**self.get("nodes", node)["status"]["allocatable"], **named}
        self.world.client.update_status(key, allocatable=allocatable)

    def bind_foreign(self, name: str, node: str) -> None:
        """Bind a pod as another scheduler does."""
        uid = self.get("pods", name)["metadata"]["uid"]
        self.must(self.world.client.bind(self._key("pods", name), uid=uid, node=node), f"{name} can be bound")

    def condition(self, node: str, kind: str, status: str) -> None:
        """Set a condition of a node."""
        one = {"type": kind, "status": status, "reason": "Played", "message": "", "lastTransitionTime": None}
        conditions = set_condition(self.get("nodes", node)["status"].get("conditions", []), one)
        self.world.client.update_status(self._key("nodes", node), conditions=conditions)

    def _key(self, resource: str, name: str, at: str = "") -> Key:
        clusterwide = ("nodes", "namespaces", "queues.scheduling.phalanx.dev")
        return Key(resource, "" if resource in clusterwide else at or "default", name)

    # --- the schedulers ------------------------------------------------------------------------------------

    @property
    def leader(self) -> Replica:
        """The leader. Raises Unmet if there is none."""
        found = self.world.leader()
        if found is None:
            raise Unmet("no replica leads")
        return found

    @property
    def follower(self) -> Replica:
        """A replica that does not lead."""
        return next(one for one in self.world.replicas if one is not self.leader)

    @property
    def network(self) -> Network:
        """The leader's."""
        return self.process_of(self.leader).network

    def process_of(self, replica: Replica) -> Process:
        """The process that the replica runs now."""
        assert replica.process is not None
        return replica.process

    def meet(self, effect: Effect, method: str, part: str, *, on: Replica | None = None, **more: Any) -> Rule:
        """Apply an effect to requests of the leader, or of another replica; set `times` to 0 to end it."""
        rule = Rule(effect=effect, methods=(method,) if method else (), path_part=part, **more)
        self.process_of(on or self.leader).network.rules.append(rule)
        return rule

    def kill_leader(self) -> None:
        """kill -9; the replica starts again after a while."""
        self.deaths += 1
        self.leader.kill()

    def binds(self, name: str = "") -> list[Exchange]:
        """Binds that were sent, of all pods or of one."""
        part = f"/pods/{name}/binding" if name else "/binding"
        return [one for one in self.sent if one.method == "POST" and one.path.endswith(part)]


def gang_with_pods(name: str, members: int, *, gpus: int = 1, prefix: str = "", **spec: Any) -> list[Object]:
    """A PodGroup and its bare pods; `spec` is that of the PodGroup."""
    pods = [member(f"{prefix or name}-{number}", group=name, gpus=gpus) for number in range(members)]
    return [pod_group(name, **{"min_member": members, **spec}), *pods]


def member(name: str, *, gpus: int = 1, **options: Any) -> Object:
    """A pod of ours that requests GPUs."""
    return pod(name, requests={GPU: str(gpus), CPU: "1"}, **options)


def gang_with_job(
    name: str, members: int, *, gpus: int = 1, min_member: int = 0, run_s: float | None = None, **spec: Any
) -> list[Object]:
    """A PodGroup and a Job that recreates its pods."""
    template = pod("", requests={GPU: str(gpus), CPU: "1"}, run_s=run_s)
    metadata = {**template["metadata"], "labels": {LABEL_POD_GROUP: name}}
    del metadata["name"], metadata["namespace"]
    made = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "parallelism": members,
            "completions": members,
            "backoffLimit": 1000,
            "template": {"metadata": metadata, "spec": template["spec"]},
        },
    }
    return [pod_group(name, min_member=min_member or members, **spec), made]


def seen(
    play: Callable[[Stage], Coroutine[Any, Any, None]],
    *,
    seed: int = 1,
    replicas: int = 1,
    rival: bool = False,
    loses_lease: bool = False,
    config: SchedulerConfig | None = None,
) -> str | None:
    """The first finding, or None. `loses_lease`: the play ends leadership."""
    found: list[str] = []

    async def run(world: World) -> None:
        stage = Stage(world)
        steps = world.go(play(stage))
        while not steps.done() and not world.violations.kept:
            await asyncio.wait((steps,), timeout=1.0)
        if world.violations.kept:
            return
        try:
            await steps
        except Unmet as unmet:
            found.append(str(unmet))
        lives = sum(one.starts for one in world.replicas)
        if not found and not loses_lease and lives > replicas + stage.deaths:
            found.append("a scheduler ended unexpectedly")

    settings = WorldSettings(
        seed=seed,
        checks=ALL_CHECKS,
        replicas=replicas,
        single_writer=not rival,
        config=config or SchedulerConfig(suspend_evicted_workloads=False),
    )
    world = in_world(settings, run)
    if world.violations.kept:
        first = world.violations.kept[0]
        return f"{first.check} {first.subject}: {first.message}"
    return found[0] if found else None
