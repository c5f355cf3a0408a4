"""A hook that raises stops nothing but what it was asked about, and the error names plugin and hook."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import pytest
from phalanx.cycle import Engine
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.plugin import (
    Beneficiary,
    EvictionPolicy,
    GangOrder,
    NodeCost,
    NodeFilter,
    Objection,
    Plugin,
    PluginError,
    PodEvictionLimit,
    PodView,
    QueueEvictionLimit,
    SessionView,
)
from phalanx.framework.retry import PLUGIN_ERROR_RETRY_MS
from phalanx.model.gangs import Gang
from phalanx.model.names import PodUid
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod
from phalanx.model.queues import Queue
from phalanx.model.reasons import Reason
from phalanx.model.resources import Resources
from phalanx.rules.problem import Rule
from phalanx_plugins.queue_priority import QueuePriority

from tests.builders import Scenario
from tests.plugins.installed import installed

CONFIG = SchedulerConfig(plugins=(PluginConfig(name="broken"),))
BROKEN = "zone"
"""Pods and gangs that this label selects are those about which the hooks raise."""


class Broken(Plugin):
    """Raises in the hook that a test sets, for one gang only where the hook is about a gang."""

    name = "broken"
    pod_labels = (BROKEN,)
    _hook = ""

    def _fail(self, hook: str, *, affected: bool = True) -> None:
        if hook == self._hook and affected:
            raise ValueError("invalid version 'new'")

    def open(self, view: SessionView) -> None:
        self._fail("open")

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        self._fail("check_gang", affected=gang.name == "bad")
        return None

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        self._fail("rules", affected=gang.name == "bad")
        return ()

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        affected = pod.label(BROKEN) is not None
        self._fail("node_filter", affected=affected)

        def check(node: Node) -> str | None:
            self._fail("the filter", affected=affected)
            return None

        return check

    def node_cost(self, pod: PodView, view: SessionView) -> NodeCost | None:
        self._fail("node_cost")

        def cost(node: Node) -> int:
            self._fail("the cost")
            return 0

        return cost

    def node_fault(self, node: Node) -> str | None:
        self._fail("node_fault")
        return None

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        self._fail("gang_order", affected=gang.name == "bad")
        return GangOrder()

    def valid_until(self, view: SessionView) -> int | None:
        return None

    def retry_key(self, view: SessionView) -> Hashable:
        return None

    def eviction_policy(self, view: SessionView) -> EvictionPolicy | None:
        self._fail("eviction_policy")
        return BrokenPolicy(view, self._fail)

    def eviction_rank(self, gang: Gang, view: SessionView) -> int:
        self._fail("eviction_rank")
        return 0

    def eviction_cost(self, gang: Gang, pods: Sequence[Pod], view: SessionView) -> int:
        self._fail("eviction_cost")
        return 0


class BrokenPolicy(EvictionPolicy):
    """Raises in the question that a test sets."""

    def __init__(self, view: SessionView, fail: Callable[[str], None]) -> None:
        super().__init__(view)
        self._fail = fail

    def reason(self, victim: Gang, beneficiary: Beneficiary) -> str | None:
        self._fail("reason")
        return None

    def queue_limits(self, beneficiary: Beneficiary) -> tuple[QueueEvictionLimit, ...]:
        self._fail("queue_limits")
        return ()

    def least(self, beneficiary: Beneficiary) -> Resources:
        self._fail("least")
        return {}

    def pod_limits(self) -> tuple[PodEvictionLimit, ...]:
        self._fail("pod_limits")
        return ()

    def protected_until(self, victim: Gang, beneficiary: Gang) -> int:
        self._fail("protected_until")
        return 0

    def protected_pods(self, victim: Gang, beneficiary: Beneficiary) -> frozenset[PodUid]:
        self._fail("protected_pods")
        return frozenset()


QUESTIONS = ("queue_limits", "least", "pod_limits", "protected_until", "protected_pods")


@pytest.fixture(autouse=True)
def plugin() -> Iterator[None]:
    with installed(broken=Broken):
        yield


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda hook: monkeypatch.setattr(Broken, "_hook", hook)


def two_gangs() -> Scenario:
    return Scenario().nodes("n", 2).gang("bad", 1, labels={BROKEN: "a"}).gang("good", 1)


def full_node() -> Scenario:
    """A node that a gang fills; another one of higher priority needs it."""
    return Scenario().nodes("n", gpu=8).gang("low", 1, gpu=8, on=["n-0"]).gang("high", 1, gpu=8, priority=10)


@pytest.mark.parametrize(
    ("hook", "named"),
    [
        ("check_gang", "check_gang"),
        ("rules", "rules"),
        ("node_filter", "node_filter"),
        ("the filter", "node_filter"),
    ],
)
def test_a_hook_that_decides_where_pods_may_run_fails_closed(raising: Any, hook: str, named: str) -> None:
    raising(hook)
    result = two_gangs().decide(CONFIG)
    assert (result.where("bad"), result.where("good")) == ({}, {"n": 1})
    said = f"plugin broken failed in {named}: ValueError(\"invalid version 'new'\")"
    verdict = result.verdict("bad")
    parts = [part for each in verdict.evidence for part in (each.subject, each.finding)]
    assert any(said in part for part in [verdict.message, *parts])
    assert result.result.stats.errors == (said,)


def test_a_failing_objection_has_a_reason_of_its_own(raising: Any) -> None:
    raising("check_gang")
    verdict = two_gangs().decide(CONFIG).verdict("bad")
    assert verdict.reason is Reason.PLUGIN_ERROR
    assert verdict.next_step.startswith("Report the error to the author of the plugin")


@pytest.mark.parametrize("hook", ["open", "node_cost", "the cost", "node_fault", "gang_order"])
def test_a_hook_that_states_a_preference_fails_open(raising: Any, hook: str) -> None:
    raising(hook)
    result = two_gangs().decide(CONFIG)
    assert (result.where("bad"), result.where("good")) == ({"n": 1}, {"n": 1})
    assert len(result.result.stats.errors) == 1


@pytest.mark.parametrize("hook", ["eviction_policy", *QUESTIONS])
def test_nothing_is_evicted_where_a_hook_that_protects_fails(raising: Any, hook: str) -> None:
    assert full_node().decide(CONFIG).evicted() == ["low-0"]
    raising(hook)
    result = full_node().decide(CONFIG)
    assert result.evicted() == []
    named = f"eviction_policy.{hook}" if hook in QUESTIONS else hook
    assert result.result.stats.errors == (
        f"plugin broken failed in {named}: ValueError(\"invalid version 'new'\")",
    )


def test_another_plugin_may_allow_an_eviction_where_one_fails_to_answer(raising: Any) -> None:
    raising("reason")
    assert full_node().decide(CONFIG).evicted() == ["low-0"]


@pytest.mark.parametrize("hook", ["eviction_cost", "eviction_rank"])
def test_a_cost_that_is_not_known_does_not_stop_an_eviction(raising: Any, hook: str) -> None:
    raising(hook)
    result = full_node().decide(CONFIG)
    assert result.evicted() == ["low-0"]
    assert len(result.result.stats.errors) == 1


@pytest.mark.parametrize("hook", ["node_filter", "the filter", "rules", "check_gang"])
def test_a_gang_is_tried_again_after_an_error(raising: Any, hook: str) -> None:
    scenario = two_gangs()
    raising(hook)
    failed = scenario.decide(CONFIG)
    assert not any(failed.result.memory.refused_starts.values())
    assert failed.result.wake_at == scenario.now + PLUGIN_ERROR_RETRY_MS
    raising("")
    assert scenario.take(failed).decide(CONFIG).where("bad") == {"n": 1}


def test_values_of_a_cycle_with_an_error_are_not_used_again(raising: Any) -> None:
    scenario, engine = two_gangs(), Engine(CONFIG)
    raising("node_fault")
    engine.decide(scenario.snapshot())
    raising("")
    assert engine.decide(scenario.snapshot()) == Engine(CONFIG).decide(scenario.snapshot())


def test_a_gang_whose_order_is_not_known_is_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def order(self: Broken, gang: Gang, view: SessionView) -> GangOrder:
        if gang.name == "bad":
            raise ValueError("no order")
        return GangOrder(rank=(1, "a"), key=(60_000,))

    monkeypatch.setattr(Broken, "gang_order", order)
    scenario = Scenario().nodes("n", gpu=8).gang("bad", 1, gpu=8, created=1).gang("good", 1, gpu=8, created=2)
    assert scenario.decide(CONFIG).placed() == ["good"]


def test_a_queue_whose_order_is_not_known_is_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def order(self: object, queue: Queue, view: SessionView) -> tuple[int]:
        if queue.name == "a":
            raise ValueError("no order")
        return (1,)

    monkeypatch.setattr(QueuePriority, "queue_order", order)
    scenario = Scenario().nodes("n", gpu=8).queue("a").queue("b")
    scenario.gang("first", 1, gpu=8, queue="a", created=1).gang("second", 1, gpu=8, queue="b", created=2)
    assert scenario.decide(CONFIG).placed() == ["second"]


WRONG: tuple[tuple[str, object], ...] = (
    ("check_gang", "a text"),
    ("rules", None),
    ("rules", ("no rule",)),
    ("node_filter", True),
    ("node_filter", lambda node: False),
    ("node_cost", lambda node: None),
    ("node_cost", lambda node: -1),
    ("node_fault", True),
    ("gang_order", None),
    ("valid_until", "tomorrow"),
    ("retry_key", object()),
    ("eviction_policy", "none"),
    ("eviction_rank", 0.5),
    ("eviction_cost", -1),
    ("eviction_cost", 0.5),
)


@pytest.mark.parametrize(("hook", "answer"), WRONG)
def test_an_answer_of_a_wrong_type_is_an_error(
    monkeypatch: pytest.MonkeyPatch, hook: str, answer: object
) -> None:
    monkeypatch.setattr(Broken, hook, _answering(hook, answer))
    (error,) = full_node().decide(CONFIG).result.stats.errors
    assert error.startswith(f"plugin broken failed in {hook}: ")


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_of_a_wrong_type_about_evictions_is_an_error(
    monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    monkeypatch.setattr(BrokenPolicy, question, _answering(question, None))
    (error,) = full_node().decide(CONFIG).result.stats.errors
    assert error.startswith(f"plugin broken failed in eviction_policy.{question}: ")


def _answering(hook: str, answer: object) -> Callable[..., object]:
    if hook in ("valid_until", "retry_key"):
        return lambda self, view: answer
    return lambda self, *arguments: answer


def test_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(node: Node) -> str | None:
        raise KeyError(node.name + "x" * 10_000)

    monkeypatch.setattr(Broken, "node_filter", lambda self, pod, view: check)
    result = Scenario().nodes("n", 300).gang("g", 1).decide(CONFIG)
    (error,) = result.result.stats.errors
    assert len(error) < 300
    assert len(result.verdict("g").message) < 1000


def test_an_error_without_a_text_is_named_by_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mute(Exception):
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    def fail(self: Broken, gang: Gang, view: SessionView) -> None:
        raise Mute

    monkeypatch.setattr(Broken, "check_gang", fail)
    assert two_gangs().decide(CONFIG).result.stats.errors == ("plugin broken failed in check_gang: Mute",)


def test_a_plugin_that_breaks_the_protocol_stops_the_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broken, "pod_labels", ())
    with pytest.raises(PluginError, match="plugin broken reads label zone"):
        two_gangs().decide(CONFIG)
