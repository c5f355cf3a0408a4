"""The plugin protocol: mistakes are rejected, and answers are valid for as long as a plugin says."""

from collections.abc import Hashable, Iterator
from typing import ClassVar

import pytest
from msgspec import Struct
from msgspec.structs import replace
from phalanx.cache.events import Applied
from phalanx.cycle import Engine
from phalanx.deciders.port import new_cache
from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig
from phalanx.framework.plugin import (
    EvictionPolicy,
    GangOrder,
    NodeFilter,
    Plugin,
    PluginError,
    PodView,
    SessionView,
    overrides,
)
from phalanx.framework.pod_view import UndeclaredField
from phalanx.framework.session import Session
from phalanx.model.api.core import Pod
from phalanx.model.decisions import Bind, Certificate, CycleResult, Placement
from phalanx.model.gangs import Gang
from phalanx.model.memory import Memory
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.nodes import Node
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import PODS
from phalanx.rules.budget import Budget
from phalanx.rules.problem import Rule

from tests.assumed import assumed
from tests.builders import Scenario
from tests.model.written import node, pod
from tests.plugins.foreign.closed_until import CLOSED_UNTIL, ClosedUntil
from tests.plugins.foreign.keep_production import KeepProduction
from tests.plugins.installed import installed
from tests.service.plain_check import PlainCheck


def config(*names: str) -> SchedulerConfig:
    return SchedulerConfig(plugins=tuple(PluginConfig(name=name) for name in names))


def in_zone(zone: str) -> NodeFilter:
    return lambda node: None if node.labels.get("zone") == zone else f"not in zone {zone}"


# --- classes that are rejected when they are defined ------------------------------------------------------


def test_a_misspelt_hook_is_refused() -> None:
    with pytest.raises(PluginError, match="node_filtr is no hook; did you mean node_filter"):

        class Misspelt(Plugin):
            name = "misspelt"

            def node_filtr(self, pod: PodView, view: SessionView) -> NodeFilter | None:
                return None


def test_a_public_helper_is_refused() -> None:
    with pytest.raises(PluginError, match="fill_racks is no hook; other names start with an underscore"):

        class Helper(Plugin):
            name = "helper"

            def fill_racks(self) -> None: ...


def test_a_hook_with_other_parameters_is_refused() -> None:
    with pytest.raises(PluginError, match=r"node_filter must have the parameters \(self, pod, view\)"):

        class Short(Plugin):
            name = "short"

            def node_filter(self, pod: PodView) -> NodeFilter | None:  # type: ignore[override]
                return None


def test_an_async_hook_is_refused() -> None:
    with pytest.raises(PluginError, match="node_fault must not be async"):

        class Awaited(Plugin):
            name = "awaited"

            async def node_fault(self, node: Node) -> str | None:  # type: ignore[override]
                return None


def test_a_misspelt_hook_of_a_mixin_is_refused() -> None:
    class Mixin:
        def node_filtr(self, pod: PodView, view: SessionView) -> NodeFilter | None:
            return None

    with pytest.raises(PluginError, match="node_filtr is no hook; did you mean node_filter"):

        class Mixed(Mixin, Plugin):
            name = "mixed"

            def open(self, view: SessionView) -> None: ...


def test_a_hook_of_a_mixin_after_plugin_is_refused() -> None:
    class Mixin:
        def node_fault(self, node: Node) -> str | None:
            return "always"

    with pytest.raises(PluginError, match=r"node_fault of .*Mixin has no effect; name .*Mixin before Plugin"):

        class Mixed(Plugin, Mixin):
            name = "mixed"

            def open(self, view: SessionView) -> None: ...


def test_a_hook_of_a_mixin_is_a_hook() -> None:
    class Mixin:
        def node_fault(self, node: Node) -> str | None:
            return "always"

    class Mixed(Mixin, Plugin):
        name = "mixed"

    assert overrides(Mixed, "node_fault")


def test_a_misspelt_question_to_an_eviction_policy_is_refused() -> None:
    with pytest.raises(PluginError, match=r"protected_til is no question .*; did you mean protected_until"):

        class Misspelt(EvictionPolicy):
            def protected_til(self, victim: Gang, beneficiary: Gang) -> int:
                return 0


def test_arguments_that_accept_unknown_fields_are_refused() -> None:
    class LooseArguments(Struct, frozen=True):
        strength: int = 1

    with pytest.raises(PluginError, match=r"Arguments must be a msgspec\.Struct with forbid_unknown_fields"):

        class Loose(Plugin):
            name = "loose"
            Arguments = LooseArguments

            def open(self, view: SessionView) -> None: ...


def test_a_plugin_without_a_hook_is_refused() -> None:
    with pytest.raises(PluginError, match="overrides no hook"):

        class Idle(Plugin):
            name = "idle"


def test_a_plugin_without_a_name_is_refused() -> None:
    with pytest.raises(PluginError, match="set `name`"):

        class Nameless(Plugin):
            def open(self, view: SessionView) -> None: ...


def test_a_string_instead_of_a_tuple_of_keys_is_refused() -> None:
    with pytest.raises(PluginError, match="pod_labels must be a tuple of keys, not 'team'"):

        class Single(Plugin):
            name = "single"
            pod_labels = "team"  # type: ignore[assignment]

            def open(self, view: SessionView) -> None: ...


# --- fields of pods ---------------------------------------------------------------------------------------


class ByLabel(Plugin):
    """Pods are placed in the zone that their label `needs` names."""

    name = "by-label"
    pod_labels = ("needs",)

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        zone = pod.label("needs")
        return None if zone is None else in_zone(zone)


class ByNamespace(Plugin):
    """Pods are placed in the zone of their namespace."""

    name = "by-namespace"
    pod_namespace = True

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        return in_zone(pod.namespace)


class ByAnnotation(Plugin):
    """Pods are placed in the zone that their annotation `needs` names."""

    name = "by-annotation"
    pod_annotations = ("needs",)

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        zone = pod.annotation("needs")
        return None if zone is None else in_zone(zone)


class ByClass(Plugin):
    """Pods go to the zone that the priority class of their PodGroup names."""

    name = "by-class"
    pod_group_fields = ("priority_class_name",)

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        zone = pod.group_field("priority_class_name")
        return None if zone is None else in_zone(str(zone))


class ByRules(Plugin):
    """Places only gangs whose first member has the label `go`."""

    name = "by-rules"
    pod_labels = ("go",)

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        may_go = ("go", "yes") in gang.members[0].all_labels
        return () if may_go else (Budget("closed", remaining={PODS: -1}),)


class Careless(Plugin):
    """Reads a label that it does not declare."""

    name = "careless"

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        return in_zone(pod.label("needs") or "")


@pytest.fixture(autouse=True)
def plugins() -> Iterator[None]:
    classes = (
        ByLabel,
        ByNamespace,
        ByAnnotation,
        ByClass,
        ByRules,
        Careless,
        ClosedUntil,
        Window,
        Timeless,
        Keyed,
        KeepProduction,
        Late,
        LastFirst,
    )
    with installed(**{each.name.replace("-", "_"): each for each in classes}):
        yield


def zones() -> Scenario:
    """One node in each of two zones; both are equivalent for pods of one shape."""
    return Scenario().nodes("a", labels={"zone": "a"}).nodes("b", labels={"zone": "b"})


@pytest.mark.parametrize("first", ["a", "b"])
def test_pods_of_one_shape_with_different_declared_labels_are_distinguished(first: str) -> None:
    second = "ab".replace(first, "")
    scenario = zones().gang("one", 1, labels={"needs": first}).gang("two", 1, labels={"needs": second})
    result = scenario.decide(config("by-label"))
    assert (result.where("one"), result.where("two")) == ({first: 1}, {second: 1})


@pytest.mark.parametrize("first", ["a", "b"])
def test_pods_of_one_shape_in_different_namespaces_are_distinguished(first: str) -> None:
    second = "ab".replace(first, "")
    scenario = zones().gang("one", 1, namespace=first).gang("two", 1, namespace=second)
    result = scenario.decide(config("by-namespace"))
    assert (result.where("one"), result.where("two")) == ({first: 1}, {second: 1})


@pytest.mark.parametrize("first", ["a", "b"])
def test_pods_of_one_shape_with_different_declared_annotations_are_distinguished(first: str) -> None:
    second = "ab".replace(first, "")
    scenario = zones().gang("one", 1, annotations={"needs": first})
    result = scenario.gang("two", 1, annotations={"needs": second}).decide(config("by-annotation"))
    assert (result.where("one"), result.where("two")) == ({first: 1}, {second: 1})


@pytest.mark.parametrize("first", ["a", "b"])
def test_pods_of_one_shape_with_other_fields_of_their_pod_group_are_of_two_classes(first: str) -> None:
    second = "ab".replace(first, "")
    scenario = zones().gang("one", 1, priority_class_name=first)
    result = scenario.gang("two", 1, priority_class_name=second).gang("three", 1).decide(config("by-class"))
    assert (result.where("one"), result.where("two")) == ({first: 1}, {second: 1})
    assert sum(result.where("three").values()) == 1


@pytest.mark.parametrize("field", ["cost_class", "runtime", "roles"])
def test_a_field_that_pod_groups_lack_or_that_is_no_plain_value_is_refused(field: str) -> None:
    with pytest.raises(
        PluginError, match=f"plugin unknown: {field} is no field of PodGroupSpec with a plain"
    ):

        class Unknown(Plugin):
            name = "unknown"
            pod_group_fields = (field,)

            def open(self, view: SessionView) -> None: ...


def test_an_undeclared_field_cannot_be_read() -> None:
    with pytest.raises(UndeclaredField, match="plugin careless reads label needs: add it to pod_labels"):
        zones().gang("one", 1, labels={"needs": "a"}).decide(config("careless"))


def test_a_plugin_cannot_read_fields_that_another_one_declares() -> None:
    with pytest.raises(UndeclaredField):
        zones().gang("one", 1, labels={"needs": "a"}).decide(config("by-label", "careless"))


def test_shapes_change_only_if_a_plugin_declares_fields() -> None:
    snapshot = zones().gang("one", 1, labels={"needs": "a"}).snapshot()
    plain, extended = Session(snapshot, SchedulerConfig()), Session(snapshot, config("by-label"))
    (before,) = snapshot.gangs.values()
    assert [*plain.gangs.values()] == [before]
    (gang,) = extended.gangs.values()
    assert gang.members[0].shape.key != before.members[0].shape.key


def test_a_placeholder_has_the_declared_fields_of_its_role() -> None:
    scenario = zones().gang("one", 2, labels={"needs": "b"}, bound=1)
    (gang,) = Session(scenario.snapshot(), config("by-label")).gangs.values()
    (kind,) = gang.composition
    assert kind.shape.declared is not None
    assert kind.shape.declared.labels == (("needs", "b"),)


def test_a_snapshot_without_the_annotations_of_a_plugin_is_refused() -> None:
    snapshot = zones().gang("one", 1).snapshot()
    Session(replace(snapshot, pod_annotations=("needs", "other")), config("by-annotation"))
    with pytest.raises(ConfigError, match="lacks: needs"):
        Session(replace(snapshot, pod_annotations=()), config("by-annotation"))


def test_a_gang_is_tried_again_when_a_declared_annotation_changes() -> None:
    by_annotation = config("by-annotation")
    cache, engine = new_cache(by_annotation), Engine(by_annotation)

    def decided(memory: Memory) -> CycleResult:
        return engine.decide(cache.snapshot(now=1, seed=1, memory=memory))

    def waiting_for(zone: str, version: str) -> Applied:
        meta = {"annotations": {"needs": zone, "other": "dropped"}, "resourceVersion": version}
        return Applied(pod("p", meta=meta))

    cache.apply_all([Applied(node("n", labels={"zone": "a"})), waiting_for("b", "1")])
    refused = decided(Memory())
    (gang,) = cache.snapshot(now=1, seed=1, memory=Memory()).gangs.values()
    assert (gang.members[0].annotations, refused.placements) == ((("needs", "b"),), ())
    assert not decided(refused.memory).placements
    cache.apply(waiting_for("a", "2"))
    (placement,) = decided(refused.memory).placements
    assert [bind.node for bind in placement.binds] == ["n"]


def test_a_gang_is_tried_again_when_a_label_changes_that_its_rules_read() -> None:
    by_rules = config("by-rules")
    cache, engine = new_cache(by_rules), Engine(by_rules)

    def waiting_with(label: str, version: str) -> Applied:
        return Applied(pod("p", meta={"labels": {"go": label}, "resourceVersion": version}))

    cache.apply_all([Applied(node("n")), waiting_with("no", "1")])
    refused = engine.decide(cache.snapshot(now=1, seed=1, memory=Memory()))
    assert refused.memory.refused_starts
    cache.apply(waiting_with("yes", "2"))
    assert engine.decide(cache.snapshot(now=2, seed=1, memory=refused.memory)).placements


# --- how long answers are valid ---------------------------------------------------------------------------


class Window(Plugin):
    """Excludes all nodes before a certain time."""

    name = "window"
    _opens: ClassVar[int] = 0

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        return None if view.now >= self._opens else lambda node: "closed for now"

    def valid_until(self, view: SessionView) -> int | None:
        return self._opens if view.now < self._opens else None


class Timeless(Plugin):
    """Reads the time and does not say how long its answers are valid."""

    name = "timeless"

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        return None if view.now else lambda node: "never"


class Keyed(Plugin):
    """Excludes all nodes until something outside the cluster changes."""

    name = "keyed"
    _outside: ClassVar[str] = "closed"

    def node_filter(self, pod: PodView, view: SessionView) -> NodeFilter | None:
        return None if self._outside == "open" else lambda node: self._outside

    def retry_key(self, view: SessionView) -> Hashable:
        return self._outside


class Late(Plugin):
    """Objects to gangs until a certain time."""

    name = "late"

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        if view.now >= 100_000:
            return None
        return Objection(Reason.SCHEDULING_GATED, "too early", until=100_000)


def waiting(now: int) -> Scenario:
    scenario = Scenario().nodes("n").gang("one", 1)
    scenario.now = now
    return scenario


def test_a_refusal_that_depends_on_time_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = waiting(now=1_000_000)
    monkeypatch.setattr(Window, "_opens", 1_060_000)
    refused = scenario.decide(config("window"))
    assert refused.where("one") == {}
    assert refused.result.wake_at == 1_060_000
    scenario.take(refused).now = 1_059_999
    refused_again = scenario.decide(config("window"))
    assert refused_again.where("one") == {}
    assert refused_again.result.memory.refused_starts == refused.result.memory.refused_starts
    scenario.take(refused_again).now = 1_060_000
    assert scenario.decide(config("window")).where("one") == {"n": 1}


def test_a_plugin_that_reads_the_time_must_override_valid_until() -> None:
    with pytest.raises(PluginError, match=r"plugin timeless: .* override valid_until"):
        waiting(now=1).decide(config("timeless"))


def test_a_refusal_ends_when_a_retry_key_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = waiting(now=1)
    refused = scenario.decide(config("keyed"))
    assert refused.where("one") == {}
    monkeypatch.setattr(Keyed, "_outside", "open")
    assert scenario.take(refused).decide(config("keyed")).where("one") == {"n": 1}


def test_an_objection_expires() -> None:
    scenario = waiting(now=40_000)
    refused = scenario.decide(config("late"))
    assert (refused.verdict("one").message, refused.result.wake_at) == ("too early", 100_000)
    scenario.take(refused).now = 100_000
    assert scenario.decide(config("late")).where("one") == {"n": 1}


def test_an_annotation_of_a_node_excludes_it_until_a_time() -> None:
    scenario = Scenario().nodes("n", annotations={CLOSED_UNTIL: "2000"}).gang("one", 1)
    scenario.now = 1_999_000
    refused = scenario.decide(config("closed-until"))
    assert refused.where("one") == {}
    assert refused.result.wake_at == 2_000_000
    scenario.take(refused).now = 2_000_000
    assert scenario.decide(config("closed-until")).where("one") == {"n": 1}


def test_the_filters_are_checked_with_the_current_time_before_a_bind() -> None:
    by_time = config("closed-until", "by-annotation")
    cache = new_cache(by_time)
    times = [1_000]
    closed = {
        "metadata": {"name": "n", "uid": "n", "labels": {"zone": "a"}, "annotations": {CLOSED_UNTIL: "2"}}
    }
    members = [pod(zone, meta={"annotations": {"needs": zone}}) for zone in ("a", "b")]
    cache.apply_all(map(Applied, (node("n", **closed), *members)))
    cache.apply_all([assumed(member.metadata.uid, "n") for member in members])
    check = PlainCheck(cache, by_time, lambda: times[0])

    def objection(member: Pod) -> str | None:
        bind = Bind(
            pod=PodUid(member.metadata.uid), namespace="team", name=member.metadata.name, node=NodeName("n")
        )
        certificate = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")
        placement = Placement(
            gang=GangId("g"), group="g", cycle=1, cause="start", binds=(bind,), certificate=certificate
        )
        return check.bind(placement, bind)

    assert objection(members[0]) == "node n: closed for now"
    times[0] = 2_000
    assert [objection(member) for member in members] == [None, "node n: not in zone b"]


# --- order ------------------------------------------------------------------------------------------------


class LastFirst(Plugin):
    """Uses a rank, which goes before the keys and stages of all other plugins."""

    name = "last-first"

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        return GangOrder(rank=gang.name != "last")


def test_the_rank_of_a_listed_foreign_plugin_goes_before_priority() -> None:
    scenario = Scenario().nodes("n", cpu=2).gang("first", 1, cpu=2, priority=9).gang("last", 1, cpu=2)
    assert scenario.decide().placed() == ["first"]
    assert scenario.decide(config("last-first")).placed() == ["last"]


# --- evictions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("namespace", "evicted"), [("team", ["low-0"]), ("production", [])])
def test_an_eviction_policy_protects_gangs(namespace: str, evicted: list[str]) -> None:
    scenario = Scenario().nodes("n", gpu=8).gang("low", 1, gpu=8, on=["n-0"], namespace=namespace)
    result = scenario.gang("high", 1, gpu=8, priority=10).decide(config("keep-production"))
    assert result.evicted() == evicted
