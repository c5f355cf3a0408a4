"""Of very many different gangs that were refused for capacity a cycle looks at some only.

Random histories of API objects go through the real cache, with evictions and joint admission. In each
cycle an engine that has seen all cycles decides what an engine decides that has seen none. Where nothing
evicts, every gang starts in the end that fits, and the queues report what they report if a cycle looks at all
gangs.
"""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.actions import verdicts
from phalanx.actions.backlog import open_gangs, selection
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import CycleResult

from tests.cycle import test_set_aside
from tests.examples import holds
from tests.model.written import label, pod, pod_group

pytestmark = pytest.mark.slow

CONFIGS: Final[Mapping[str, SchedulerConfig]] = {
    "default": SchedulerConfig(),
    "no evictions": SchedulerConfig(actions=()),
}
CYCLES_MAX: Final = 200


class World(test_set_aside.World):
    """Its gangs all differ; cycles look at few of them."""

    KINDS: ClassVar = ("node", "gone", "end", "end", "queue", "foreign", "other", "gate")

    def __init__(self, config: SchedulerConfig, dice: random.Random) -> None:
        super().__init__(config, dice)
        self.resting = 0
        """How many gangs rested, in total."""
        self._always_has_nodes = dice.random() < 0.5
        """Whether nothing takes all its nodes from a gang, which is found when it is looked at."""

    def happen(self, what: str) -> None:
        if what not in ("node", "other") or not self._always_has_nodes:
            super().happen(what)

    def _submit(self) -> None:
        name, count = f"g{self._made}", self._one(1, 1, 1, 2)
        level = {"topology": {"required": self._one("zone", "host")}}
        spec = {"minMember": count, "queue": self._one("a", "a", "a", "b"), **self._one({}, {}, {}, level)}
        spec |= self._one({}, {}, {}, {"priorityClassName": "high"})
        spec |= self._one({}, {}, {}, {}, {"startBy": "2030-03-17T17:47:00Z"})
        group = self._groups[name] = pod_group(name, **spec)
        self._apply(group)
        affinity = {} if self._always_has_nodes else {"affinity": self._affinity()}
        rules = self._one({}, {}, {}, {}, {"nodeSelector": {"disk": "ssd"}}, affinity)
        requests = {"cpu": f"{500 + self._made}m", "nvidia.com/gpu": str(self._one(1, 2, 2, 3, 4))}
        meta = {"creationTimestamp": datetime.fromtimestamp(1_890_000_000 + self._made, UTC).isoformat()}
        for index in range(count):
            labels = {label("pod-group"): name, "app": self._one("x", "y")}
            self._put(
                pod(f"{name}-{index}", labels=labels, owner=name, requests=requests, meta=meta, **rules)
            )

    def cycle(self, seconds: int) -> None:
        """One cycle; its decisions are applied."""
        self.last(seconds)

    def last(self, seconds: int) -> CycleResult:
        """One cycle; its decisions are applied."""
        self._now += seconds * test_set_aside.SECOND
        snapshot = self._cache.snapshot(now=self._now, seed=0, memory=self.memory)
        found = self._engine.decide(snapshot)
        assert found == decide(snapshot, self.config)
        self.resting += len(self._engine.set_aside)
        self._take(found)
        return found

    def settle(self) -> None:
        """Cycles until nothing is left to do: nothing fits then, and all demand counts."""
        for _ in range(CYCLES_MAX):
            found = self.last(0)
            if found.wake_at is None or found.wake_at > self._now:
                break
        else:
            raise AssertionError("the cycles do not end")
        snapshot = self._cache.snapshot(now=self._now, seed=0, memory=self.memory)
        some = decide(snapshot, self.config)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(selection, "OPEN_GANGS_MAX", 1000)
            everything = decide(self._without_refusals(snapshot), self.config)
            unbounded = decide(snapshot, self.config)
        assert not everything.placements
        if self._always_has_nodes:
            assert some.queues == unbounded.queues


def play(config: SchedulerConfig, seed: int, batches: int = 12) -> World:
    """A random history in batches of events, with cycles after each. Each has events of a few kinds."""
    dice = random.Random(seed)
    kinds: list[Any] = [*dice.sample(World.KINDS, 3), "gang", "gang", "gang", "gang"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "CYCLE_EXPLANATIONS_MAX", dice.choice([2, 1000]))
        patch.setattr(selection, "OPEN_GANGS_MAX", dice.choice([2, 4]))
        patch.setattr(selection, "CROWDED_DUE_GANGS", dice.choice([2, 64]))
        patch.setattr(selection, "RESTING_TRIED", dice.choice([1, 2]))
        patch.setattr(open_gangs, "OPEN_GANGS_TRIED", dice.choice([1, 2]))
        world = World(config, dice)
        for _ in range(batches):
            for _ in range(dice.randint(0, 6)):
                world.happen(dice.choice(kinds))
            world.cycle(seconds=dice.choice([0, 1, 60]))
            if not config.actions and dice.random() < 0.3:
                world.settle()
    return world


@pytest.mark.parametrize("config", CONFIGS)
@given(seed=st.integers(0, 2**32))
@holds(4)
def test_an_engine_with_history_decides_like_one_without(config: str, seed: int) -> None:
    play(CONFIGS[config], seed)


def test_many_gangs_of_the_histories_rest() -> None:
    assert sum(play(CONFIGS["no evictions"], seed).resting for seed in range(4)) > 80
