"""What a running scheduler measures of gangs and of the cluster: starts, waits, confirmations, figures."""

from msgspec import convert
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted
from phalanx.model.api.core import Pod
from phalanx.model.decisions import Bind, Certificate, CycleResult, Placement
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.reasons import Reason, Verdict
from phalanx.observe.ports import GangStart
from phalanx.service.bind_confirmations import BindConfirmations
from phalanx.service.gang_starts import GangStarts, WaitHistory
from phalanx_simulator.embedded import manifests
from prometheus_client import generate_latest

from tests.assumed import assumed
from tests.manual_clock import ManualClock
from tests.service.running import NODES, POD_GROUPS, PODS, World, running

GANG = GangId("g")


class Reports:
    """Keeps what is reported."""

    def __init__(self) -> None:
        self.starts: list[GangStart] = []
        self.confirmed: list[float] = []

    def gang_started(self, start: GangStart) -> None:
        self.starts.append(start)

    def bind_confirmed(self, *, seconds: float) -> None:
        self.confirmed.append(seconds)


def placement(*pods: str, cause: str = "start") -> Placement:
    binds = tuple(Bind(PodUid(pod), "ns", pod, NodeName("n")) for pod in pods)
    certificate = Certificate(terms=(), objective=(), bound=(), proven=True, by="dp")
    return Placement(GANG, "ns/g", 1, cause, binds, certificate)


def waiting(*reasons: Reason) -> CycleResult:
    return CycleResult(cycle=1, verdicts=tuple(Verdict(GANG, "ns/g", reason, "m") for reason in reasons))


def starts(clock: ManualClock) -> tuple[GangStarts, Reports]:
    reports = Reports()
    return GangStarts((reports,), clock, WaitHistory()), reports


def test_a_start_is_reported_with_its_last_bind() -> None:
    clock = ManualClock()
    followed, reports = starts(clock)
    placed = placement("a", "b")
    followed.placed(placed, None, ())
    clock.seconds += 2
    followed.bind_finished(placed, is_bound=True)
    assert reports.starts == []
    followed.bind_finished(placed, is_bound=True)
    (start,) = reports.starts
    assert start.bound_ms - start.decided_ms == 2000


def test_a_start_with_a_bind_that_failed_is_no_start_and_repairs_are_none() -> None:
    followed, reports = starts(ManualClock())
    placed, repair = placement("a", "b"), placement("c", cause="replace")
    followed.placed(placed, None, ())
    followed.bind_finished(placed, is_bound=False)
    followed.bind_finished(placed, is_bound=True)
    followed.placed(repair, None, ())
    followed.bind_finished(repair, is_bound=True)
    assert reports.starts == []
    assert followed.open == 0


def test_a_wait_lasts_until_the_reason_changes() -> None:
    clock = ManualClock()
    followed, reports = starts(clock)
    for reason in (Reason.QUEUE_LIMIT, Reason.QUEUE_LIMIT, Reason.NO_DOMAIN_FITS):
        followed.cycle_finished(waiting(reason))
        clock.seconds += 10
    placed = placement("a")
    followed.placed(placed, None, ())
    followed.cycle_finished(CycleResult(cycle=4))
    followed.bind_finished(placed, is_bound=True)
    first, second = reports.starts[0].waits
    assert (first.reason, second.reason) == ("QueueLimit", "NoDomainFits")
    assert second.since_ms - first.since_ms == 20_000


def test_a_gang_that_is_gone_has_no_waits() -> None:
    followed, reports = starts(ManualClock())
    followed.cycle_finished(waiting(Reason.QUEUE_LIMIT))
    followed.cycle_finished(CycleResult(cycle=2))
    placed = placement("a")
    followed.placed(placed, None, ())
    followed.bind_finished(placed, is_bound=True)
    assert reports.starts[0].waits == ()


def written(uid: str, node: str = "") -> Pod:
    meta = {"name": uid, "namespace": "ns", "uid": uid}
    return convert({"metadata": meta, "spec": {"schedulerName": "phalanx", "nodeName": node}}, Pod)


def test_a_bind_is_confirmed_when_the_watch_shows_it() -> None:
    clock, reports, cache = ManualClock(), Reports(), Cache(scheduler_name="phalanx")
    confirmations = BindConfirmations(cache, clock, reports)
    for uid in ("late", "early", "gone"):
        cache.apply(Applied(written(uid)))
        cache.apply(assumed(uid, "n"))
    cache.apply(Applied(written("early", "n")))
    for uid in ("late", "early", "gone"):
        confirmations.bound(PodUid(uid))
    assert reports.confirmed == [0.0]
    clock.seconds += 3
    for event in (
        Applied(written("late")),
        Deleted(kind="Pod", namespace="ns", name="gone"),
        Applied(written("late", "n")),
        Applied(written("late", "n")),
    ):
        cache.apply(event)
        confirmations.seen(event)
    assert reports.confirmed == [0.0, 3.0]


def add_node(world: World, name: str, **fields: bool) -> None:
    node = manifests.node(name, gpus=4)
    node["spec"] = {**node.get("spec", {}), **fields}
    world.create(NODES, node)


def add_gang(world: World, name: str, size: int) -> None:
    world.create(POD_GROUPS, manifests.pod_group(name, min_member=size))
    world.create(PODS, *(manifests.pod(f"{name}-{number}", group=name) for number in range(size)))


async def test_a_running_scheduler_measures_starts_waits_and_the_cluster() -> None:
    traces = Reports()
    async with running(traces=traces) as world:
        add_node(world, "n1")
        add_gang(world, "train", 3)
        add_gang(world, "large", 5)
        value = world.metrics.registry.get_sample_value
        waits = {"queue": "default", "reason": "InsufficientCapacity"}
        await world.until(lambda: value("phalanx_queue_pending_gangs", {"queue": "default"}) == 2)
        world.untaint("n1")
        add_node(world, "n2", unschedulable=True)
        await world.until(lambda: traces.starts != [])
        await world.until(lambda: value("phalanx_bind_confirmation_seconds_count") == 3)
        page = generate_latest(world.metrics.registry).decode()
    (start,) = traces.starts
    assert start.placement.group == "default/train"
    assert [wait.reason for wait in start.waits] != []
    assert start.created_ms <= start.decided_ms <= start.bound_ms
    assert 'phalanx_gang_start_duration_seconds_count{queue="default"} 1.0' in page
    assert 'phalanx_nodes{state="ready"} 1.0' in page
    assert 'phalanx_nodes{state="cordoned"} 1.0' in page
    assert 'phalanx_cluster_allocatable{resource="nvidia.com/gpu"} 8.0' in page
    assert 'phalanx_cluster_free{resource="nvidia.com/gpu"} 1.0' in page
    assert 'phalanx_cluster_free_on_empty_nodes{resource="nvidia.com/gpu"} 0.0' in page
    assert 'phalanx_queue_degraded_gangs{queue="default"} 0.0' in page
    assert f'phalanx_queue_waiting_gangs{{queue="{waits["queue"]}"' in page
    assert 'phalanx_cycle_step_duration_seconds_count{step="allocate"}' in page
