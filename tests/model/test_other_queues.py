"""Queues of Volcano and KAI as queues of Phalanx: the tables of docs/dialects."""

from typing import Any

import pytest
from msgspec.structs import replace
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted
from phalanx.model.api.kai import KaiQueue
from phalanx.model.api.unknown_fields import with_unknown_fields
from phalanx.model.api.volcano import VolcanoQueue
from phalanx.model.dialects.queues import QUEUE_DIALECTS, MappedQueue, QueueDialectName
from phalanx.model.queues import Queue, QueueState
from phalanx.model.reasons import Reason
from phalanx.model.supplies.gpu_shares.devices import GPU_MEMORY, GPU_SHARE

from tests.cache.world import take_snapshot
from tests.model.written import label, named, node, other_pod_group, pod

VOLCANO, KAI = QueueDialectName.VOLCANO, QueueDialectName.KAI
YEARS_100_MS = 100 * 365 * 24 * 3_600_000


def volcano(name: str = "q", *, meta: dict[str, Any] | None = None, **spec: Any) -> VolcanoQueue:
    found = other_pod_group(VolcanoQueue, name, meta={"namespace": "", **(meta or {})}, **spec)
    return with_unknown_fields(found, {key: value for key, value in spec.items() if key != "status"})


def kai(name: str = "q", **spec: Any) -> KaiQueue:
    return with_unknown_fields(other_pod_group(KaiQueue, name, meta={"namespace": ""}, **spec), spec)


def of_kai(**spec: Any) -> Queue:
    return replace(QUEUE_DIALECTS[KAI].read(kai(**spec)), uid="")


def of_volcano(**spec: Any) -> Queue:
    return replace(QUEUE_DIALECTS[VOLCANO].read(volcano(**spec)), uid="")


def problems(queue: Queue) -> list[str]:
    return [problem.message for problem in queue.problems]


# --- Volcano ------------------------------------------------------------------------------------------------


def test_a_queue_of_volcano() -> None:
    found = of_volcano(
        weight=3,
        parent="org",
        priority=5,
        capability={"cpu": "8", "nvidia.com/gpu": 4},
        deserved={"cpu": "4", "nvidia.com/gpu": "2"},
        reclaimable=True,
        dequeueStrategy="traverse",
        affinity=None,
        extendClusters=[],
        type="",
        status={"state": "Open"},
    )
    assert found == Queue(
        name="q",
        parent="org",
        weight=3,
        priority=5,
        limit={"cpu": 8000, "nvidia.com/gpu": 4},
        guarantee={"cpu": 4000, "nvidia.com/gpu": 2},
    )


def test_the_queue_root_of_volcano_is_no_parent() -> None:
    assert of_volcano(parent="root").parent is None
    assert of_volcano() == Queue(name="q")


def test_the_larger_of_deserved_and_guarantee_is_guaranteed_and_reported() -> None:
    written = volcano(
        deserved={"cpu": "4", "memory": "1Gi"}, guarantee={"resource": {"cpu": "5000m", "b": 1}}
    )
    assert QUEUE_DIALECTS[VOLCANO].read(written).guarantee == {"b": 1, "cpu": 5000, "memory": 1 << 30}
    (note,) = QUEUE_DIALECTS[VOLCANO].mapped(written).notes
    assert note.startswith("spec.guarantee.resource: ")
    assert QUEUE_DIALECTS[VOLCANO].mapped(volcano(guarantee={})).notes == ()


@pytest.mark.parametrize(
    ("state", "expected"),
    [("", QueueState.OPEN), ("Open", QueueState.OPEN)]
    + [(state, QueueState.CLOSED) for state in ("Closing", "Closed")],
)
def test_a_closed_queue_of_volcano_starts_nothing(state: str, expected: QueueState) -> None:
    found = of_volcano(status={"state": state})
    assert (found.state, found.problems) == (expected, ())


def test_what_is_not_reclaimable_is_never_reclaimed() -> None:
    assert of_volcano(reclaimable=False).reclaim_min_runtime_ms > YEARS_100_MS
    assert of_volcano(reclaimable=True).reclaim_min_runtime_ms == 0


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ({"dequeueStrategy": "last"}, "spec.dequeueStrategy: last"),
        ({"affinity": {"nodeGroupAffinity": {}}}, "spec.affinity"),
        ({"extendClusters": [{"name": "a"}]}, "spec.extendClusters"),
        ({"type": "elastic"}, "spec.type"),
        ({"later": 1}, "spec.later"),
        ({"guarantee": {"later": 1}}, "spec.guarantee.later"),
        ({"status": {"state": "Unknown"}}, "status.state: Unknown"),
    ],
)
def test_a_field_of_volcano_without_a_counterpart_is_refused_by_name(
    written: dict[str, Any], path: str
) -> None:
    (problem,) = of_volcano(**written).problems
    assert problem.reason is Reason.UNSUPPORTED_FIELD
    assert problem.message.startswith(f"{path} of a Queue of scheduling.volcano.sh ")


@pytest.mark.parametrize("field", ["capability", "deserved"])
def test_an_invalid_amount_names_the_field_of_volcano(field: str) -> None:
    (message,) = problems(of_volcano(**{field: {"cpu": "many"}}))
    assert message.startswith(f"spec.{field}[cpu]: ")


# --- KAI ----------------------------------------------------------------------------------------------------

FREE = {"quota": 0, "limit": -1, "overQuotaWeight": 1}


def test_a_queue_of_kai() -> None:
    found = of_kai(
        displayName="Vision",
        parentQueue="all",
        priority=7,
        reclaimMinRuntime="1h30m0s",
        preemptMinRuntime="0s",
        resources={
            "gpu": {"quota": 4, "limit": 8, "overQuotaWeight": 3},
            "cpu": {"quota": 2500, "limit": -1, "overQuotaWeight": 3},
            "memory": {"quota": 64, "limit": 128, "overQuotaWeight": 3.0, "lendingLimit": 64},
        },
    )
    assert found == Queue(
        name="q",
        parent="all",
        priority=7,
        weight=3,
        guarantee={"cpu": 2500, "memory": 64_000_000, "nvidia.com/gpu": 4},
        limit={"memory": 128_000_000, "nvidia.com/gpu": 8, GPU_SHARE: 8000},
        reclaim_min_runtime_ms=5_400_000,
    )


def test_what_is_not_written_is_0_in_kai() -> None:
    """Without a limit nothing may be used, and a priority of its own is 100."""
    nothing = {"cpu": 0, "memory": 0, "nvidia.com/gpu": 0, GPU_SHARE: 0, GPU_MEMORY: 0}
    assert of_kai() == Queue(name="q", priority=100, limit=nothing, guarantee=nothing)
    assert of_kai(resources={"gpu": FREE}).limit == {"cpu": 0, "memory": 0}
    assert of_kai(resources={"gpu": FREE}).guarantee == nothing


def mapped(**resources: Any) -> MappedQueue:
    return QUEUE_DIALECTS[KAI].mapped(kai(resources={"cpu": FREE, "memory": FREE, "gpu": FREE, **resources}))


def test_a_quota_without_bound_is_the_limit_or_reported() -> None:
    nothing = {"cpu": "0m", "memory": 0}
    assert mapped(gpu={"quota": -1, "limit": 8}).spec.guarantee == {**nothing, "nvidia.com/gpu": 8}
    found = mapped(gpu={"quota": -1, "limit": -1, "overQuotaWeight": 1})
    assert (found.spec.guarantee, found.problems) == (nothing, ())
    (note,) = found.notes
    assert note.startswith("spec.resources.gpu.quota: -1 ")


@pytest.mark.parametrize(
    ("gpu", "whole", "shares"),
    [
        ({"quota": 0, "limit": 0}, (0, 0), (0, 0)),
        ({"quota": 0, "limit": 2}, (0, 2), (0, 2000)),
        ({"quota": 0.5, "limit": 1.25}, (0, 1), (500, 1250)),
        ({"quota": 2.5, "limit": -1}, (2, None), (2500, None)),
        ({"quota": 2, "limit": 2}, (2, 2), (None, 2000)),
        ({"quota": 0, "limit": -1}, (0, None), (0, None)),
    ],
)
def test_the_number_of_gpus_bounds_whole_gpus_and_shares_apart(
    gpu: dict[str, float], whole: tuple[int, int | None], shares: tuple[int | None, int | None]
) -> None:
    found = mapped(gpu=gpu)
    spec = found.spec
    assert (spec.guarantee.get("nvidia.com/gpu"), spec.limit.get("nvidia.com/gpu")) == whole
    assert (spec.guarantee.get(GPU_SHARE), spec.limit.get(GPU_SHARE)) == shares
    assert spec.guarantee.get(GPU_MEMORY) == (0 if gpu["quota"] == 0 else None)
    assert spec.limit.get(GPU_MEMORY) == (0 if gpu["limit"] == 0 else None)
    assert any("counted apart" in note for note in found.notes) == (gpu["quota"] > 0 or gpu["limit"] > 0)


def test_nothing_is_guaranteed_that_the_limit_does_not_allow() -> None:
    found = mapped(gpu={"quota": 8, "limit": 2})
    assert (found.spec.guarantee["nvidia.com/gpu"], found.spec.limit["nvidia.com/gpu"]) == (2, 2)
    assert "nvidia.com/gpu: the guarantee is cut to the limit" in found.notes
    ours = QUEUE_DIALECTS[VOLCANO].mapped(volcano(deserved={"cpu": "8"}, capability={"cpu": "2500m"}))
    assert (ours.spec.guarantee, ours.spec.limit) == ({"cpu": "2500m"}, {"cpu": "2500m"})
    assert ours.notes == ("cpu: the guarantee is cut to the limit",)


def test_a_weight_of_0_counts_as_1() -> None:
    found = QUEUE_DIALECTS[VOLCANO].mapped(volcano(weight=0))
    assert (found.spec.weight, len(found.notes), found.problems) == (1, 1, ())


@pytest.mark.parametrize(
    ("written", "note"),
    [
        ({"dequeueStrategy": "fifo"}, "spec.dequeueStrategy: fifo reserves a start for the first gang"),
        ({"meta": {"annotations": {"volcano.sh/hierarchy": "root/a"}}}, "metadata.annotations[volcano.sh/"),
    ],
)
def test_what_volcano_says_in_another_way_stops_nothing(written: dict[str, Any], note: str) -> None:
    found = QUEUE_DIALECTS[VOLCANO].mapped(volcano(**written))
    assert found.problems == ()
    assert found.notes[0].startswith(note)
    assert found.spec.backfill == ("Easy" if "dequeueStrategy" in written else None)


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        ({"preemptMinRuntime": "5m"}, "spec.preemptMinRuntime: is left out"),
        (
            {"resources": {"gpu": {"quota": 2, "limit": 2, "lendingLimit": 1}}},
            "spec.resources.gpu.lendingLimit",
        ),
    ],
)
def test_what_kai_says_in_another_way_stops_nothing(spec: dict[str, Any], note: str) -> None:
    found = QUEUE_DIALECTS[KAI].mapped(kai(**spec))
    assert found.problems == ()
    assert any(each.startswith(note) for each in found.notes)


def test_the_weight_of_gpus_counts_for_all_resources_that_can_be_borrowed() -> None:
    assert mapped(gpu={"quota": 8, "limit": 8, "overQuotaWeight": 5}).spec.weight == 1
    assert mapped(gpu={"quota": -1, "limit": -1, "overQuotaWeight": 5}).spec.weight == 1
    found = mapped(gpu={**FREE, "overQuotaWeight": 2})
    assert (found.spec.weight, found.problems) == (2, ())
    assert "gpu 2, cpu 1, memory 1" in found.notes[0]
    for written, counted in ((0.5, 1), (0.2, 1), (2.6, 3)):
        part = mapped(**{name: {**FREE, "overQuotaWeight": written} for name in ("cpu", "gpu", "memory")})
        assert (part.spec.weight, part.problems, len(part.notes)) == (counted, (), 1)
    (problem,) = mapped(gpu={**FREE, "overQuotaWeight": 1e9}).problems
    assert "overQuotaWeight" in problem.message
    none = mapped(**{name: {**FREE, "overQuotaWeight": 0} for name in ("cpu", "gpu", "memory")})
    assert (none.spec.weight, none.problems, len(none.notes)) == (1, (), 1)


@pytest.mark.parametrize(
    ("spec", "path", "reason"),
    [
        ({"resources": {"gpu": {"quota": -0.5}}}, "spec.resources.gpu.quota: ", Reason.INVALID_OBJECT),
        ({"resources": {"cpu": {"quota": 0.5}}}, "spec.resources.cpu.quota: ", Reason.INVALID_OBJECT),
        ({"resources": {"cpu": {"limit": -2}}}, "spec.resources.cpu.limit: ", Reason.INVALID_OBJECT),
        ({"resources": {"memory": {"quota": 1e300}}}, "spec.resources.memory.quota: ", Reason.INVALID_OBJECT),
        ({"reclaimMinRuntime": "-1"}, "spec.reclaimMinRuntime: ", Reason.INVALID_OBJECT),
        ({"resources": {"gpu": {"later": 1}}}, "spec.resources.gpu.later of ", Reason.UNSUPPORTED_FIELD),
    ],
)
def test_a_field_of_kai_without_a_counterpart_is_refused_by_name(
    spec: dict[str, Any], path: str, reason: Reason
) -> None:
    (problem,) = of_kai(**spec).problems
    assert problem.message.startswith(path)
    assert problem.reason is reason


# --- beside queues of Phalanx -------------------------------------------------------------------------------


def cache(*objects: Any, dialects: tuple[QueueDialectName, ...] = (VOLCANO, KAI)) -> Cache:
    made = Cache(scheduler_name="phalanx", queue_dialects=dialects)
    made.apply_all(Applied(item) for item in objects)
    return made


def queues(made: Cache) -> dict[str, Queue]:
    return dict(take_snapshot(made).queues)


def test_they_count_only_where_they_are_asked_for() -> None:
    objects = (volcano("v"), kai("k"))
    assert set(queues(cache(*objects))) == {"default", "k", "v"}
    assert set(queues(cache(*objects, dialects=(KAI,)))) == {"default", "k"}
    assert set(queues(cache(*objects, dialects=()))) == {"default"}


def test_the_root_of_volcano_is_no_queue() -> None:
    assert set(queues(cache(volcano("root"), kai("root"), dialects=(VOLCANO,)))) == {"default"}


def test_trees_of_several_projects_are_one() -> None:
    made = queues(cache(named("Queue", "org"), volcano("team", parent="org"), kai("lab", parentQueue="team")))
    assert (made["lab"].parent, made["team"].parent) == ("team", "org")
    assert not any(queue.problems for queue in made.values())


@pytest.mark.parametrize(
    ("objects", "groups"),
    [
        ((named("Queue", "q"), volcano()), ("scheduling.phalanx.dev", "scheduling.volcano.sh")),
        ((kai(), named("Queue", "q")), ("scheduling.phalanx.dev", "scheduling.run.ai")),
        ((kai(), volcano()), ("scheduling.volcano.sh", "scheduling.run.ai")),
    ],
)
def test_a_name_that_two_projects_claim_is_refused_with_both(
    objects: tuple[Any, ...], groups: tuple[str, str]
) -> None:
    """The gangs of the queue wait until one of the two is gone."""
    labels = {label("queue"): "q"}
    made = cache(node(), *objects, pod("a", labels=labels, schedulerName="phalanx"))
    (problem,) = queues(made)["q"].problems
    assert problem.reason is Reason.QUEUE_INVALID
    assert all(f"a Queue of {group}" in problem.message for group in groups)
    for item in objects:
        made.apply(Deleted(type(item).__name__, "", "q", item.metadata.uid))
        others = [problem.message for problem in queues(made).get("q", Queue(name="q")).problems]
        assert others == []
        made.apply(Applied(item))
        assert len(queues(made)["q"].problems) == 1


def test_a_changed_queue_is_tried_again() -> None:
    made = cache(volcano(capability={"cpu": 1}))
    before = take_snapshot(made)
    made.apply(Applied(volcano(capability={"cpu": 2})))
    after = take_snapshot(made)
    assert after.queues["q"].limit == {"cpu": 2000}
    assert after.cluster_version > before.cluster_version
    assert take_snapshot(made).queues is after.queues
