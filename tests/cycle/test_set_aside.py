"""An engine that sets refused gangs aside decides what an engine decides that looks at all gangs.

Random histories of API objects go through the real cache, since it says which changes could help whom. In
each cycle two engines decide on the same snapshot. For the second one no refusal holds any more. No queue is
strict FIFO: there a gang that is tried again blocks others until the next cycle, even if it is impossible.
"""

import random
from collections.abc import Callable, Mapping, Set
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.actions import verdicts
from phalanx.actions.backlog.backlog import Backlog
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Assumed, Deleted
from phalanx.cycle import Engine, decide
from phalanx.deciders.port import new_cache
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.decisions import CycleResult
from phalanx.model.gangs import Gang
from phalanx.model.memory import HelpedBy, Memory, Refusal
from phalanx.model.names import GangId, PodUid
from phalanx.model.reasons import Category, Objection, Reason
from phalanx.model.snapshot import Snapshot

from tests.examples import holds
from tests.model.written import label, named, node, pod, pod_group
from tests.plugins.installed import installed

pytestmark = pytest.mark.slow

SECOND = 1000


class Quiet(Plugin):
    """Objects to gangs of a namespace with the label `quiet`, and declares that its answers last."""

    name = "quiet"
    lasting_answers = True

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        hours = "quiet" in view.namespace_labels.get(gang.namespace, {})
        return Objection(Reason.QUEUE_HELD, "quiet hours", "Wait") if hours else None


class Busy(Plugin):
    """Objects to gangs with three GPUs a pod while five pods hold nodes, and declares nothing."""

    name = "busy"

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        held = sum(pod.holds_node for other in view.gangs.values() for pod in other.members)
        large = any(pod.shape.requests.get("nvidia.com/gpu") == 3 for pod in gang.members)
        return Objection(Reason.QUEUE_HELD, "busy", "Wait") if large and held >= 5 else None


CONFIGS: Mapping[str, SchedulerConfig] = {
    "default": SchedulerConfig(),
    "no evictions": SchedulerConfig(actions=()),
    "lasting answers": SchedulerConfig(plugins=(PluginConfig(name="quiet"),), actions=()),
    "other answers": SchedulerConfig(plugins=(PluginConfig(name="busy"),), actions=()),
}


def status(gpus: int, ready: str = "True") -> dict[str, Any]:
    """The status of a node."""
    allocatable = {"cpu": "8", "nvidia.com/gpu": str(gpus), "pods": "110"}
    return {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]}


class _RecordingEngine(Engine):
    """Knows which gangs its last cycle did not look at."""

    set_aside: Set[GangId] = frozenset()

    def decide(self, snapshot: Snapshot) -> CycleResult:
        find = self.backlogs.visible_gangs

        def visible_gangs(backlog: Backlog) -> Mapping[GangId, Gang]:
            found = find(backlog)
            self.set_aside = snapshot.gangs.keys() - found.keys()
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.backlogs, "visible_gangs", visible_gangs)
            return super().decide(snapshot)


class World:
    """A cluster behind the real cache, and both engines."""

    KINDS: ClassVar = ("node", "gone", "end", "end", "queue", "foreign", "other", "gate")

    def __init__(self, config: SchedulerConfig, dice: random.Random) -> None:
        self.config = config
        self._dice = dice
        self._cache: Cache = new_cache(config)
        self._engine = _RecordingEngine(config)
        self.memory = Memory()
        self._now = 1_900_000_000 * SECOND
        self._made = 0
        self._pods: dict[str, Any] = {}
        self._groups: dict[str, Any] = {}
        self.set_aside = 0
        """How many gangs cycles did not look at, in total."""
        for name in ("n0", "n1", "n2", "n3"):
            self._apply(node(name, labels=self._labels(name), status=status(4)))
        for name in ("a", "b", "top"):
            self._apply(named("Queue", name, spec={}))
        self._apply(named("PriorityClass", "high", value=5))
        self._apply(named("Namespace", "team"))

    # --- events ---------------------------------------------------------------------------------------------

    def happen(self, what: str) -> None:
        """One event of this kind."""
        self._made += 1
        events: dict[str, Callable[[], None]] = {
            "node": self._node_changes,
            "gang": self._submit,
            "gone": self._delete,
            "end": self._end,
            "queue": lambda: self._apply(named("Queue", self._one("a", "b", "top"), spec=self._queue())),
            "foreign": self._foreign,
            "other": lambda: self._apply(self._other()),
            "gate": self._open_gate,
        }
        events[what]()

    def _one(self, *values: Any) -> Any:
        return self._dice.choice(values)

    def _apply(self, item: Any) -> None:
        self._cache.apply(Applied(item))

    def _remove(self, kind: str, item: Any) -> None:
        self._cache.apply(Deleted(kind, item.metadata.namespace, item.metadata.name, item.metadata.uid))

    def _labels(self, name: str) -> dict[str, str]:
        zone = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": self._one("z0", "z1")}
        return {**zone, **self._one({}, {"disk": "ssd"})}

    def _node(self, name: str) -> Any:
        spec = self._one(
            {}, {}, {}, {"unschedulable": True}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}
        )
        amounts = status(self._one(1, 2, 4, 4), ready=self._one("True", "True", "True", "False"))
        return node(name, labels=self._labels(name), spec=spec, status=amounts)

    def _node_changes(self) -> None:
        changed = self._node(self._one("n0", "n1", "n2", "n3", "n4"))
        if self._dice.random() < 0.2:
            self._remove("Node", changed)
        else:
            self._apply(changed)

    def _submit(self) -> None:
        name, queue, count = (
            f"g{self._made}",
            self._one("a", "a", "a", "b", "b", "b", "top"),
            self._one(1, 1, 2, 3),
        )
        level = {"topology": {"required": self._one("zone", "zone", "host")}}
        spec: dict[str, Any] = {"minMember": count, "queue": queue, **self._one({}, {}, level)}
        spec |= self._one({}, {}, {}, {"priorityClassName": "high"})
        spec |= self._one({}, {}, {"disruption": {"preemptible": False}})
        spec |= self._one({}, {}, {}, {}, {"startBy": "2030-03-17T17:47:00Z"})
        group = self._groups[name] = pod_group(name, **spec)
        self._apply(group)
        rules = self._one({}, {}, {}, {"nodeSelector": {"disk": "ssd"}}, {"affinity": self._affinity()})
        rules |= self._one({}, {}, {}, {}, {}, {"schedulingGates": [{"name": "hold"}]})
        if self._dice.random() < 0.15:
            rules["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        requests = {"cpu": "1", "nvidia.com/gpu": str(self._one(1, 1, 2, 2, 3, 5))}
        for index in range(self._one(count, count, count, count, count, count - 1)):
            labels = {label("pod-group"): name, "app": self._one("x", "y")}
            self._put(pod(f"{name}-{index}", labels=labels, owner=name, requests=requests, **rules))

    def _affinity(self) -> dict[str, Any]:
        term = {
            "topologyKey": self._one("kubernetes.io/hostname", "topology.kubernetes.io/zone"),
            "labelSelector": {"matchLabels": {"app": self._one("x", "y")}},
        }
        kind = self._one("podAffinity", "podAntiAffinity")
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def _put(self, item: Any) -> None:
        self._pods[item.metadata.uid] = item
        self._apply(item)

    def _delete(self) -> None:
        if self._groups:
            group = self._groups.pop(self._one(*self._groups))
            for uid in [uid for uid in self._pods if uid.startswith(f"uid-team-{group.metadata.name}-")]:
                self._remove("Pod", self._pods.pop(uid))
            self._remove("PodGroup", group)

    def _end(self) -> None:
        running = [each for each in self._pods.values() if each.spec.node_name]
        if running:
            gone = self._one(*running)
            self._remove("Pod", self._pods.pop(gone.metadata.uid))

    def _open_gate(self) -> None:
        gated = [each for each in self._pods.values() if each.spec.scheduling_gates]
        if gated:
            chosen = self._one(*gated)
            self._put(replace(chosen, spec=replace(chosen.spec, scheduling_gates=())))

    def _queue(self) -> dict[str, Any]:
        spec: dict[str, Any] = self._one({}, {}, {}, {"parent": "top"})
        amount = {"nvidia.com/gpu": str(self._one(0, 1, 2, 4, 8))}
        spec |= self._one(
            {}, {"limit": amount}, {"guarantee": amount}, {"guarantee": amount}, {"state": "Held"}
        )
        spec |= self._one({}, {}, {"backfill": "Easy"})
        return spec | self._one({}, {}, {}, {}, {"namespaceSelector": {"matchLabels": {"tier": "gold"}}})

    def _foreign(self) -> None:
        name = self._one("f0", "f1")
        found = self._pods.pop(f"uid-team-{name}", None)
        if found is not None:
            self._remove("Pod", found)
            return
        requests = {"nvidia.com/gpu": str(self._one(1, 2))}
        spec = {"nodeName": self._one("n0", "n1", "n2"), "schedulerName": "other"}
        self._put(pod(name, labels={"app": "x"}, requests=requests, status={"phase": "Running"}, **spec))

    def _other(self) -> Any:
        bound = {"volumeName": "v1", "storageClassName": "s"}
        return self._one(
            named("Namespace", "team", labels=self._one({}, {"tier": "gold"}, {"quiet": "yes"})),
            named("PriorityClass", "high", value=self._one(0, 5, 10)),
            named("PersistentVolumeClaim", "c", namespace="team", spec=bound, status={"phase": "Bound"}),
            named("PersistentVolume", "v1", labels=self._one({}, {"topology.kubernetes.io/zone": "z1"})),
            named("Topology", "default", spec={"levels": [{"name": "zone", "nodeLabel": "disk"}]}),
        )

    # --- cycles ---------------------------------------------------------------------------------------------

    def cycle(self, seconds: int) -> None:
        """Both engines decide, and the decisions of the first one are applied."""
        self._now += seconds * SECOND
        snapshot = self._cache.snapshot(now=self._now, seed=0, memory=self.memory)
        found = self._engine.decide(snapshot)
        everything = decide(self._without_refusals(snapshot), self.config)
        assert decisions(found) == decisions(everything)
        for gang in self._engine.set_aside:
            assert category_of(everything, gang) in (category_of(found, gang), None)
        self.set_aside += len(self._engine.set_aside)
        self._take(found)

    def _without_refusals(self, snapshot: Snapshot) -> Snapshot:
        memory, is_gentle = snapshot.memory, bool(self.config.actions)

        def outdated(refusals: Mapping[GangId, Refusal]) -> dict[GangId, Refusal]:
            """With evictions only those of gangs that are set aside: others time the search for victims."""
            return {
                gang: replace(refusal, basis="")
                if not is_gentle or refusal.helped_by is not HelpedBy.CAPACITY
                else refusal
                for gang, refusal in refusals.items()
            }

        memory = replace(
            memory,
            refusals=outdated(memory.refusals),
            refused_starts={name: outdated(found) for name, found in memory.refused_starts.items()},
        )
        return replace(snapshot, memory=memory)

    def _take(self, result: CycleResult) -> None:
        self.memory = result.memory
        for bind in (bind for placement in result.placements for bind in placement.binds):
            item = self._pods[bind.pod]
            self._cache.apply(Assumed(bind))
            running = replace(item.status, phase="Running")
            self._put(replace(item, spec=replace(item.spec, node_name=bind.node), status=running))
        for evicted in result.evictions:
            item = self._pods.pop(PodUid(evicted.pod))
            self._remove("Pod", item)
            again = replace(item.metadata, uid=f"{item.metadata.uid}-again")
            fresh = replace(item.spec, node_name=None)
            self._put(replace(item, metadata=again, spec=fresh, status=replace(item.status, phase="Pending")))


def decisions(result: CycleResult) -> object:
    """What a cycle does."""
    return result.placements, result.evictions, result.nominations


def category_of(result: CycleResult, gang: GangId) -> Category | None:
    """The category only: a cordoned node may change the reason of a gang that it does not help.

    None for reasons that an impossible gang may have too when it is tried again, such as in a cycle that
    gives starts up.
    """
    passing = (Reason.POD_AFFINITY, Reason.BLOCKED_BY_QUEUE_HEAD, Reason.NOT_TRIED_YET)
    (reason,) = [verdict.reason for verdict in result.verdicts if verdict.gang == gang]
    return None if reason in passing else reason.category


def play(config: SchedulerConfig, seed: int, batches: int = 14) -> World:
    """A random history in batches of events, with a cycle after each. Each has events of a few kinds."""
    dice = random.Random(seed)
    kinds = [*dice.sample(World.KINDS, 3), "gang", "gang"]
    with pytest.MonkeyPatch.context() as patch, installed(quiet=Quiet, busy=Busy):
        patch.setattr(verdicts, "CYCLE_EXPLANATIONS_MAX", 1000)
        world = World(config, dice)
        for _ in range(batches):
            for _ in range(dice.randint(0, 5)):
                world.happen(dice.choice(kinds))
            world.cycle(seconds=dice.choice([0, 1, 60]))
    return world


@pytest.mark.parametrize("config", CONFIGS)
@given(seed=st.integers(0, 2**32))
@holds(4)
def test_setting_gangs_aside_changes_no_decision(config: str, seed: int) -> None:
    play(CONFIGS[config], seed)


def test_the_histories_set_many_gangs_aside() -> None:
    assert sum(play(CONFIGS["no evictions"], seed).set_aside for seed in range(4)) > 80
