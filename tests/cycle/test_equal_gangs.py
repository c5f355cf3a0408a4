"""An engine that looks at the first equal gangs of a queue decides what an engine decides that looks at all.

Random histories of API objects go through the real cache: gangs of few templates come, start, end and go.
Pods are relabelled; nodes, queues and namespaces change. In each cycle both engines decide on the same
snapshot. No gang evicts, and there is no joint admission: of these, one cycle does a bounded amount.
"""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.actions import joint_admission, verdicts
from phalanx.actions.backlog import equal_gangs, queue_backlog
from phalanx.actions.backlog.equal_gangs import Kind
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, PodUid
from phalanx.model.snapshot import Snapshot

from tests.cycle import test_set_aside
from tests.cycle.test_set_aside import decisions
from tests.examples import holds
from tests.model.written import label, pod, pod_group

pytestmark = pytest.mark.slow

CONFIG = SchedulerConfig(actions=())
BEHIND_MAX = 1 << 20


def near(app: str, kind: str = "podAffinity") -> dict[str, Any]:
    """Required affinity, or anti-affinity, with pods that have this label, on one node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def preferred(app: str) -> dict[str, Any]:
    """Preferred affinity with pods that have this label."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    weighted = {"weight": 50, "podAffinityTerm": term}
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


def spread(app: str) -> dict[str, Any]:
    """A spread constraint that counts the pods with this label by zone."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


class World(test_set_aside.World):
    """Its gangs are of four templates, of which some are nearly equal."""

    KINDS: ClassVar = ("node", "gone", "end", "end", "queue", "foreign", "other", "label", "rank")

    def __init__(self, config: SchedulerConfig, dice: random.Random) -> None:
        super().__init__(config, dice)
        self.behind = 0
        """How many gangs were behind equal ones, in total."""
        first = self._template()
        self._templates = [first, self._nearly(first), self._nearly(first), self._template()]

    def _template(self) -> dict[str, Any]:
        app = self._one("x", "y")
        rules = self._one({}, {}, near(app), near(app, "podAntiAffinity"), preferred(app), spread(app))
        return {
            "spec": {"minMember": self._one(1, 1, 2), "queue": self._one("a", "a", "b"), **self._level()},
            "rules": {**rules, **self._one({}, {}, {"nodeSelector": {"disk": "ssd"}})},
            "requests": {"cpu": "1", "nvidia.com/gpu": str(self._one(1, 1, 2, 3))},
        }

    def _level(self) -> dict[str, Any]:
        return self._one({}, {}, {"topology": {"required": self._one("zone", "host")}})

    def _nearly(self, template: dict[str, Any]) -> dict[str, Any]:
        """The template with something else about its gangs."""
        changed = {"priorityClassName": "high"} if self._dice.random() < 0.5 else self._level()
        return {**template, "spec": {**template["spec"], **changed}}

    def happen(self, what: str) -> None:
        if what == "label":
            self._change("metadata", labels={"app": self._one("x", "y")})
        elif what == "rank":
            self._change("spec", priority=self._one(0, 5))
        else:
            super().happen(what)

    def _change(self, part: str, **fields: Any) -> None:
        """Change some pod."""
        if self._pods:
            chosen = self._pods[self._one(*self._pods)]
            before = getattr(chosen, part)
            if "labels" in fields:
                fields = {"labels": {**before.labels, **fields["labels"]}}
            self._put(replace(chosen, **{part: replace(before, **fields)}))

    def _submit(self) -> None:
        self._made += 1
        name, chosen, app = f"g{self._made}", self._one(*self._templates), self._one("x", "x", "x", "y")
        group = self._groups[name] = pod_group(name, **chosen["spec"])
        self._apply(group)
        created = datetime.fromtimestamp(1_890_000_000 + self._made, UTC).isoformat()
        for index in range(chosen["spec"]["minMember"]):
            labels = {label("pod-group"): name, "app": app}
            requests, rules, meta = chosen["requests"], chosen["rules"], {"creationTimestamp": created}
            self._put(
                pod(f"{name}-{index}", labels=labels, owner=name, requests=requests, meta=meta, **rules)
            )

    def cycle(self, seconds: int) -> None:
        """Both engines decide, and the decisions of the first one are applied."""
        self._now += seconds * test_set_aside.SECOND
        snapshot = self._cache.snapshot(now=self._now, seed=0, memory=self.memory)
        found = self._engine.decide(snapshot)
        queues = self._engine.backlogs._queues.values()
        kinds = [kind for queue in queues for kind in queue.equal.long.values()]
        last = {gang: kind.last.gang for kind in kinds for gang in _behind(kind)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(equal_gangs, "EQUAL_GANGS_TRIED", BEHIND_MAX)
            everything = decide(_with_refusals_of(last, snapshot), self.config)
        if not any(self._helps_others(bind.pod) for each in found.placements for bind in each.binds):
            assert decisions(found) == decisions(everything)
            assert found.queues == everything.queues
        placed = {placement.gang for placement in found.placements}
        assert {verdict.gang for verdict in found.verdicts} >= last.keys() - placed
        self.behind += len(last)
        self._take(found)

    def _helps_others(self, name: PodUid) -> bool:
        """Whether a placed pod may let gangs fit that come later in the cycle, but not equal ones that were
        tried before it: these follow in the next cycle."""
        app = self._pods[name].metadata.labels["app"]
        return any(each["rules"] in _helped_by(app) for each in self._templates)


def _behind(kind: Kind) -> list[GangId]:
    return [entry.gang.id for entry in kind.behind]


def _helped_by(app: str) -> list[dict[str, Any]]:
    """Rules of pods that such a pod may let fit."""
    selector = {"nodeSelector": {"disk": "ssd"}}
    return [{**rules, **more} for rules in (near(app), spread(app)) for more in ({}, selector)]


def _with_refusals_of(last: Mapping[GangId, Gang], snapshot: Snapshot) -> Snapshot:
    """A snapshot for an engine that tries everything again, and has seen the gangs behind others too."""
    memory = snapshot.memory
    starts = {name: dict(found) for name, found in memory.refused_starts.items()}
    for gang, other in last.items():
        refusal = memory.refusal_of(other)
        if refusal is not None:
            starts.setdefault(other.queue, {})[gang] = refusal
    outdated = {
        name: {gang: replace(each, basis="", fingerprint="") for gang, each in found.items()}
        for name, found in starts.items()
    }
    return replace(snapshot, memory=replace(memory, refused_starts=outdated))


def play(seed: int, batches: int = 14) -> World:
    """A random history in batches of events, with a cycle after each. Each has events of a few kinds."""
    dice = random.Random(seed)
    kinds = [*dice.sample(World.KINDS, 3), "gang", "gang", "gang"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "CYCLE_EXPLANATIONS_MAX", 1000)
        patch.setattr(joint_admission, "improve", lambda cycle: False)
        patch.setattr(queue_backlog, "LONG_QUEUE_GANGS", 2)
        patch.setattr(equal_gangs, "EQUAL_GANGS_TRIED", dice.choice([1, 2]))
        world = World(CONFIG, dice)
        for _ in range(batches):
            for _ in range(dice.randint(0, 6)):
                world.happen(dice.choice(kinds))
            world.cycle(seconds=dice.choice([0, 1, 60]))
    return world


@given(seed=st.integers(0, 2**32))
@holds(8)
def test_leaving_equal_gangs_behind_changes_no_decision(seed: int) -> None:
    play(seed)


def test_many_gangs_of_the_histories_are_behind_others() -> None:
    assert sum(play(seed).behind for seed in range(4)) > 40
