"""Replicas of several hosts start whole: the rule of docs/workloads.md."""

from collections import Counter, defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from phalanx.actions.demands.demand import Demand, Stage, batches_of
from phalanx.actions.demands.gang_demands import demands_of
from phalanx.actions.demands.member_units import surplus_in_units
from phalanx.actions.demands.tried_beside import tried_beside
from phalanx.framework.member_records import no_record_of
from phalanx.framework.member_units import in_whole_units, units_of
from phalanx.model.api.core import Pod
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Objection

from tests.examples import holds
from tests.model.gangs_of_workloads import gang_of
from tests.model.written import controlled_by, pod, workload

REPLICA = "ray.io/worker-group-replica-name"
TEMPLATE = {"spec": {"schedulerName": "phalanx"}}


def cluster(hosts: int, least: int = 0) -> Any:
    group = {"groupName": "w", "replicas": 9, "minReplicas": least, "numOfHosts": hosts, "template": TEMPLATE}
    spec = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [group]}
    return workload("RayCluster.ray.io", "rc", enableInTreeAutoscaling=True, **spec)


def worker(name: str, replica: str, *, runs: bool, group: str = "w", **spec: Any) -> Pod:
    labels = {"ray.io/group": group, **({REPLICA: replica} if replica else {})}
    state = {"nodeName": "n", "status": {"phase": "Running"}} if runs else {}
    meta = controlled_by("rc", kind="RayCluster", api_version="ray.io/v1")
    return pod(name, labels=labels, meta=meta, **state, **spec)


def surplus(gang: Gang) -> tuple[Demand, ...]:
    ready = in_whole_units(gang, [member for member in gang.members if member.is_waiting], ())
    demand = Demand(gang, Stage.SURPLUS, "surplus", batches_of(gang, ready, whole=False))
    return surplus_in_units(gang, [demand] if ready else [])


@holds(200)
@given(
    hosts=st.integers(1, 4),
    replicas=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=4),
    data=st.data(),
)
def test_a_replica_starts_whole_or_not_at_all(
    hosts: int, replicas: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Of each replica so many hosts run, and so many wait. Whatever demands are met, none starts in part."""
    replicas = [(min(runs, hosts), min(waits, hosts - min(runs, hosts))) for runs, waits in replicas]
    pods = [worker("head", "", runs=True, group="headgroup")]
    for number, (runs, waits) in enumerate(replicas):
        names = [f"w-{host}-{number}" for host in range(runs + waits)]
        pods += [worker(name, f"r{number}", runs=host < runs) for host, name in enumerate(names)]
    demands = surplus(gang_of(cluster(hosts), *pods))
    full = sum(runs + waits == hosts and waits == hosts for runs, waits in replicas)
    joining = sum(waits for runs, waits in replicas if runs > 0)
    assert sum(demand.count for demand in demands) == full * hosts + joining
    met = data.draw(st.lists(st.sampled_from(demands), unique_by=id)) if demands else []
    present = Counter({f"r{number}": runs for number, (runs, _) in enumerate(replicas)})
    before = dict(present)
    for demand in met:
        chosen = [each for batch in demand.batches for each in batch.pods]
        if not demand.is_whole:
            chosen = data.draw(st.lists(st.sampled_from(chosen), unique_by=lambda each: each.uid))
        present.update(dict(each.all_labels)[REPLICA] for each in chosen)
    assert all(count in (0, hosts) or before[name] for name, count in present.items())


def test_no_part_of_a_replica_is_tried_if_the_replica_fails() -> None:
    pods = [worker("head", "", runs=True, group="headgroup")]
    pods += [worker(f"w-{host}", f"r{host // 3}", runs=False) for host in range(6)]
    gang = gang_of(cluster(3), *pods)
    demands = surplus(gang)
    assert [demand.count for demand in demands] == [3, 3]
    assert tried_beside(demands[0], no_record_of(gang)) == ()


@holds(100)
@given(hosts=st.integers(2, 4), runs=st.integers(0, 8), waits=st.integers(0, 8))
def test_without_the_label_any_hosts_are_a_replica(hosts: int, runs: int, waits: int) -> None:
    head = worker("head", "", runs=True, group="headgroup")
    pods = [worker(f"w-{index}", "", runs=index < runs) for index in range(runs + waits)]
    gang = gang_of(cluster(hosts), head, *pods)
    demands = surplus(gang)
    joining = min(-runs % hosts, waits)
    units = (waits - joining) // hosts
    if joining == units == 0 and waits:
        objection = demands_of(gang, no_record_of(gang))
        assert isinstance(objection, Objection)
        assert f"units of {hosts} pods" in objection.message
    sizes = sorted((demand.is_whole, demand.count) for demand in demands)
    assert sizes == [*([(False, joining)] if joining else []), *([(True, hosts)] * units)]


@holds(200)
@given(
    hosts=st.integers(2, 4),
    least=st.integers(0, 3),
    replicas=st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=4),
    data=st.data(),
)
def test_the_minimum_is_made_of_whole_replicas(
    hosts: int, least: int, replicas: list[tuple[int, bool]], data: st.DataObject
) -> None:
    """So many hosts of each replica exist, in any order, and of some no node can take the first one."""
    waits = [min(count, hosts) for count, _ in replicas]
    names = [f"{number}-{host}" for number, count in enumerate(waits) for host in range(count)]
    places = data.draw(st.permutations(range(len(names))))
    unfit = {f"{number}-0" for number, (_, is_unfit) in enumerate(replicas) if is_unfit}
    pods = [
        worker(f"w{place}-{name}", f"r{name[0]}", runs=False, nodeSelector={"unfit": str(name in unfit)})
        for place, name in zip(places, names, strict=True)
    ]
    gang = gang_of(cluster(hosts, least), worker("head", "", runs=False, group="headgroup"), *pods)
    found = demands_of(gang, no_record_of(gang), lambda pod: pod.name.partition("-")[2] not in unfit)
    whole = [number for number, count in enumerate(waits) if count == hosts]
    if isinstance(found, Objection):
        assert len(whole) < least
        assert f"in units of {hosts}" in found.message
        return
    assert len(whole) >= least
    started: Counter[int] = Counter()
    for demand in found:
        chosen = [pod.name for batch in demand.batches for pod in batch.pods if pod.role == "w"]
        started += Counter(int(name.partition("-")[2][0]) for name in chosen)
        assert set(Counter(name.partition("-")[2][0] for name in chosen).values()) <= {hosts}
        if demand.stage is Stage.START and sum(not replicas[number][1] for number in whole) >= least:
            assert not {name.partition("-")[2] for name in chosen} & unfit
        if demand.choice is not None:
            others = Counter(pod.all_labels for pod in demand.choice.members if pod.role == "w")
            assert set(others.values()) <= {hosts}
            assert len(others) <= least
    assert started == dict.fromkeys(whole, hosts)


def test_hosts_of_one_replica_are_evicted_together() -> None:
    head = worker("head", "", runs=True, group="headgroup")
    pods = [worker(f"w-{index}", f"r{index % 2}", runs=True) for index in range(6)]
    gang = gang_of(cluster(3), head, *pods)
    found: dict[str, set[str]] = defaultdict(set)
    for number, unit in enumerate(units_of(gang, gang.members)):
        found[str(number)] = {each.name for each in unit}
    assert sorted(map(sorted, found.values())) == [["w-0", "w-2", "w-4"], ["w-1", "w-3", "w-5"]]
