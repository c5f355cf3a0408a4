"""Roles that come later start whole, however their pods arrive: the rule of docs/workloads.md."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.actions.demands.demand import Demand
from phalanx.model.api.core import Pod
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Objection

from tests.builders import as_bound, demands_of
from tests.examples import holds
from tests.model.gangs_of_workloads import gang_of
from tests.model.written import JOB_SET_VERSION, job, job_set, pod_of_job, replicated_job

RUNS = {"nodeName": "n", "status": {"phase": "Running", "startTime": "2026-11-01T10:00:00Z"}}
FIRST = "first"


def objects_of(sizes: dict[str, int], there: dict[str, tuple[int, int]]) -> list[Any]:
    """A JobSet whose first role runs; of each later one so many pods run and so many wait."""
    later = [replicated_job(name, pods=size, dependsOn=[{"name": FIRST}]) for name, size in sizes.items()]
    owner = {"name": "js", "kind": "JobSet", "api_version": JOB_SET_VERSION}
    pods: list[Pod] = [pod_of_job(f"js-{FIRST}-0", 0, role=FIRST, **RUNS)]
    for name, (runs, waits) in there.items():
        pods += [
            pod_of_job(f"js-{name}-0", index, role=name, **(RUNS if index < runs else {}))
            for index in range(runs + waits)
        ]
    jobs = [
        job(f"js-{name}-0", parallelism=size, completions=size, owner=owner) for name, size in sizes.items()
    ]
    return [
        job_set("js", replicated_job(FIRST), *later),
        job(f"js-{FIRST}-0", parallelism=1, completions=1, owner=owner),
        *jobs,
        *pods,
    ]


def roles_of(demand: Demand) -> list[str]:
    return [pod.role for batch in demand.batches for pod in batch.pods]


@holds(200)
@given(
    sizes=st.fixed_dictionaries({"b": st.integers(1, 4), "c": st.integers(1, 4)}),
    states=st.tuples(*[st.tuples(st.integers(0, 4), st.integers(0, 4))] * 2),
)
def test_no_role_that_comes_later_starts_in_parts(
    sizes: dict[str, int], states: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    there = {
        name: (runs := min(state[0], sizes[name]), min(state[1], sizes[name] - runs))
        for name, state in zip(sizes, states, strict=True)
    }
    gang: Gang = gang_of(*objects_of(sizes, there))
    demands = demands_of(replace(gang, record=as_bound(gang), started=True))
    complete = {name for name in sizes if there[name] == (0, sizes[name])}
    joining = {name: waits for name, (runs, waits) in there.items() if runs and waits}
    if isinstance(demands, Objection):
        waiting = [name for name, (_, waits) in there.items() if waits]
        assert waiting
        assert not complete
        assert not joining
        missing = sizes[waiting[0]] - there[waiting[0]][1]
        assert f"role {waiting[0]} of JobSet team/js needs {missing} more pod" in demands.message
        return
    found = [roles_of(demand) for demand in demands]
    assert sorted(role for roles in found for role in roles) == sorted(
        [name for name in complete for _ in range(sizes[name])]
        + [name for name, waits in joining.items() for _ in range(waits)]
    )
    for name in complete:
        (whole,) = [demand for demand in demands if name in roles_of(demand)]
        assert (roles_of(whole).count(name), whole.is_whole) == (sizes[name], True)
