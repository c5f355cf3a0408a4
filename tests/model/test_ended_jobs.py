"""Jobs of a JobSet that have succeeded and whose pods are gone: nobody waits for them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted, Relisted
from phalanx.model.memory import Memory
from phalanx.model.workloads.known import WORKLOADS
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.examples import holds
from tests.model.gangs_of_workloads import minimums
from tests.model.written import (
    JOB_SET_VERSION,
    controlled_by,
    job,
    job_set,
    pod_of_job,
    replicated_job,
)

ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
STATES = ("not made", "runs", "has succeeded", "is deleted", "is gone")
JOBS, PODS = 2, 2


def job_of(role: str, index: int, state: str) -> Any:
    meta = {"labels": {ROLE: role}, **controlled_by("js", kind="JobSet", api_version=JOB_SET_VERSION)}
    if state == "is deleted":
        meta["deletionTimestamp"] = "2026-11-01T10:00:00Z"
    status = {} if state == "runs" else {"succeeded": PODS}
    return job(f"js-{role}-{index}", parallelism=PODS, completions=PODS, meta=meta, status=status)


def pods_of(role: str, index: int, *, succeeded: bool) -> list[Any]:
    status = {"phase": "Succeeded"} if succeeded else {}
    return [pod_of_job(f"js-{role}-{index}", each, role=role, status=status) for each in range(PODS)]


@holds(100)
@given(
    states=st.tuples(*[st.sampled_from(STATES)] * JOBS),
    with_pods=st.tuples(*[st.booleans()] * JOBS),
    data=st.data(),
)
def test_a_job_that_has_succeeded_is_not_waited_for_when_its_pods_are_gone(
    states: tuple[str, ...], with_pods: tuple[bool, ...], data: st.DataObject
) -> None:
    """Whatever happened before, in any order. Where pods exist they count, also succeeded ones."""
    first: list[Any] = []
    last: list[Any] = []
    expected = 0
    for index, (state, has_pods) in enumerate(zip(states, with_pods, strict=True)):
        pods = pods_of("init", index, succeeded=state != "runs")
        is_known = state not in ("not made", "is gone")
        first += [job_of("init", index, "runs"), *pods]
        last += [job_of("init", index, state)] if is_known else []
        last += pods if has_pods and is_known else []
        is_over = state == "has succeeded" and not has_pods
        expected += 0 if is_over else PODS
    always = [
        job_set("js", replicated_job("init", replicas=JOBS, pods=PODS), replicated_job("work", pods=PODS)),
        job_of("work", 0, "runs"),
        *pods_of("work", 0, succeeded=False),
    ]
    cache = Cache(scheduler_name="phalanx")
    cache.apply_all(Relisted(kind, ()) for kind in WORKLOADS)
    cache.apply_all(Applied(item) for item in data.draw(st.permutations([*always, *first])))
    cache.snapshot(now=0, seed=0, memory=Memory())
    kept = {item.metadata.uid for item in last}
    gone = [item for item in first if item.metadata.uid not in kept]
    events = [
        *[Applied(item) for item in last],
        *[Deleted(getattr(item, "kind_name", "Pod"), "team", item.metadata.name) for item in gone],
    ]
    for event in data.draw(st.permutations(events)):
        cache.apply(event)
        cache.snapshot(now=0, seed=0, memory=Memory())
        check_cache(cache)
    (gang,) = cache.snapshot(now=0, seed=0, memory=Memory()).gangs.values()
    assert minimums(gang) == {"init": expected, "work": PODS}
