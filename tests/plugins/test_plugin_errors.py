"""A hook that raises stops nothing but what it was asked about, and the error names plugin and hook."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.plugin import (
    Beneficiary,
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
from phalanx.model.gangs import Gang
from phalanx.model.nodes import Node
from phalanx.model.pods import Pod
from phalanx.model.reasons import Reason
from phalanx.model.rules import Rule

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

    def queue_eviction_limits(
        self, beneficiary: Beneficiary, view: SessionView
    ) -> tuple[QueueEvictionLimit, ...]:
        self._fail("queue_eviction_limits")
        return ()

    def pod_eviction_limits(self, view: SessionView) -> tuple[PodEvictionLimit, ...]:
        self._fail("pod_eviction_limits")
        return ()

    def protected_until(self, victim: Gang, beneficiary: Gang, view: SessionView) -> int:
        self._fail("protected_until")
        return 0

    def eviction_cost(self, gang: Gang, pods: Sequence[Pod], view: SessionView) -> int:
        self._fail("eviction_cost")
        return 0


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
    assert said in [
        verdict.message,
        *(part for each in verdict.evidence for part in (each.subject, each.finding)),
    ]
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


@pytest.mark.parametrize("hook", ["queue_eviction_limits", "pod_eviction_limits", "protected_until"])
def test_nothing_is_evicted_where_a_hook_that_protects_fails(raising: Any, hook: str) -> None:
    assert full_node().decide(CONFIG).evicted() == ["low-0"]
    raising(hook)
    result = full_node().decide(CONFIG)
    assert result.evicted() == []
    assert result.result.stats.errors == (
        f"plugin broken failed in {hook}: ValueError(\"invalid version 'new'\")",
    )


def test_a_cost_that_is_not_known_does_not_stop_an_eviction(raising: Any) -> None:
    raising("eviction_cost")
    result = full_node().decide(CONFIG)
    assert result.evicted() == ["low-0"]
    assert len(result.result.stats.errors) == 1


def test_a_plugin_that_breaks_the_protocol_stops_the_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broken, "pod_labels", ())
    with pytest.raises(PluginError, match="plugin broken reads label zone"):
        two_gangs().decide(CONFIG)
