"""The cost of each step between the watch event of a pod and the answer to its bind."""

import asyncio
import compileall
import gc
import itertools
import random
import resource
import subprocess
import sys
from pathlib import Path

import msgspec
import phalanx
import pytest
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Assumed, Relisted
from phalanx.cycle import Engine
from phalanx.framework.config import SchedulerConfig
from phalanx.kube.binder import Binder
from phalanx.kube.binding import BinderCallbacks
from phalanx.kube.decode import KindDecoder
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.meta import KubeObject
from phalanx.model.decisions import Bind
from phalanx.model.memory import Memory
from phalanx.model.names import NodeName, PodUid
from phalanx.model.snapshot import Snapshot
from phalanx.observe.metrics import Metrics
from phalanx.rules.levels import FewestDomains
from phalanx.solver.engine import place

from bench.bind_rate import EveryPlanHolds, placements
from bench.instances import instance, workers
from bench.micro import api
from bench.micro.api import Load, QuickApi
from bench.micro.conftest import Measure
from bench.micro.scheduler import all_bound
from tests.write_context import write_context

LOAD = Load(nodes=200, gangs=20, size=100)
NODES = [NodeName(node["metadata"]["name"]) for node in api.nodes(LOAD)]
START = """
import phalanx.cli.run, phalanx.cli.app, phalanx.service.scheduler, phalanx.kube.connect
import phalanx.deciders.thread, phalanx.web.server, phalanx.observe.recording
"""


def listed(kind: str) -> tuple[KubeObject, ...]:
    """The objects of a kind, decoded."""
    made = {"Pod": api.pods, "Node": api.nodes, "PodGroup": api.pod_groups}[kind](LOAD)
    body = api.encode({"metadata": {"resourceVersion": api.LISTED}, "items": made})
    return KindDecoder(KINDS[kind]).page(body).objects


@pytest.fixture(scope="module")
def lists() -> dict[str, tuple[KubeObject, ...]]:
    """All objects of the load."""
    return {kind: listed(kind) for kind in ("Node", "PodGroup", "Pod")}


def filled(lists: dict[str, tuple[KubeObject, ...]]) -> Cache:
    """A cache with these objects, which are excluded from garbage collection."""
    cache = Cache(scheduler_name="phalanx")
    cache.apply_all(Relisted(kind, objects) for kind, objects in lists.items())
    gc.collect()
    gc.freeze()
    return cache


def bound(pods: tuple[KubeObject, ...]) -> list[Applied]:
    """The pods as the watch shows them after their binds."""
    return [
        Applied(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node)))
        for pod, node in zip(pods, itertools.cycle(NODES), strict=False)
        if isinstance(pod, Pod)
    ]


def snapshot(cache: Cache) -> Snapshot:
    """The snapshot of a cycle."""
    return cache.snapshot(now=0, seed=0, memory=Memory())


def test_decode_a_line_of_a_watch(measure: Measure) -> None:
    lines = [b'{"type":"MODIFIED","object":' + pod + b"}" for pod in api.encoded(api.pods(LOAD))]
    decode = KindDecoder(KINDS["Pod"]).line
    measure(lambda: [decode(line) for line in lines], items=LOAD.pods, budget=15)


def test_apply_a_listed_pod(measure: Measure, lists: dict[str, tuple[KubeObject, ...]]) -> None:
    def apply(cache: Cache) -> None:
        cache.apply(Relisted("Pod", lists["Pod"]))

    measure(apply, items=LOAD.pods, budget=70, prepared=lambda: (filled({"Node": lists["Node"]}),))


def test_apply_a_bound_pod(measure: Measure, lists: dict[str, tuple[KubeObject, ...]]) -> None:
    events = bound(lists["Pod"])

    def apply(cache: Cache) -> None:
        for event in events:
            cache.apply(event)

    measure(apply, items=LOAD.pods, budget=90, prepared=lambda: (filled(lists),))


def test_first_snapshot_for_each_pod(measure: Measure, lists: dict[str, tuple[KubeObject, ...]]) -> None:
    measure(snapshot, items=LOAD.pods, budget=8, prepared=lambda: (filled(lists),))


def test_snapshot_after_a_gang_for_each_pod(
    measure: Measure, lists: dict[str, tuple[KubeObject, ...]]
) -> None:
    def assumed() -> tuple[Cache]:
        cache = filled(lists)
        snapshot(cache)
        for pod in lists["Pod"][: LOAD.size]:
            cache.apply(Assumed(Bind(PodUid(pod.metadata.uid), "", "", NODES[0])))
        return (cache,)

    measure(snapshot, items=LOAD.size, budget=14, prepared=assumed)


def test_cycle_for_each_pod(measure: Measure, lists: dict[str, tuple[KubeObject, ...]]) -> None:
    known, engine = snapshot(filled(lists)), Engine(SchedulerConfig())
    measure(lambda: engine.decide(known), items=LOAD.pods, budget=45)


def test_cycle_that_has_nothing_to_do(measure: Measure, lists: dict[str, tuple[KubeObject, ...]]) -> None:
    cache = filled(lists)
    cache.apply_all(bound(lists["Pod"]))
    known, engine = snapshot(cache), Engine(SchedulerConfig())
    measure(lambda: engine.decide(known), items=1, budget=35_000)


def test_solver_for_256_pods_that_prefer_racks(measure: Measure) -> None:
    prefer = (FewestDomains("preferred", "rack"),)
    posed = instance(random.Random(0), 1000, (workers(256),), prefer)
    measure(lambda: place(posed), items=1, budget=13_000)


def test_bind(measure: Measure) -> None:
    binds = [
        Bind(PodUid(pod["metadata"]["uid"]), pod["metadata"]["namespace"], pod["metadata"]["name"], node)
        for pod, node in zip(api.pods(LOAD), itertools.cycle(NODES), strict=False)
    ]
    work = list(placements(binds, gang=LOAD.size))

    async def bind_all(server: QuickApi) -> None:
        binder = Binder(
            write_context(server, reports=Metrics()),
            BinderCallbacks(check=EveryPlanHolds(), on_outcome=lambda placement, outcome: None),
            per_second=float("inf"),
        )
        running = asyncio.create_task(binder.run())
        for placement in work:
            binder.submit(placement)
        await binder.idle.wait()
        running.cancel()
        await asyncio.wait((running,))

    measure(
        lambda server: asyncio.run(bind_all(server)),
        items=LOAD.pods,
        budget=270,
        prepared=lambda: (QuickApi(LOAD),),
    )


def test_whole_scheduling_path_of_a_pod(measure: Measure) -> None:
    """The whole scheduler from its start: lists, cycles, binds, and two watch events per pod."""
    measure(
        lambda server: asyncio.run(all_bound(server)),
        items=LOAD.pods,
        budget=800,
        prepared=lambda: (QuickApi(LOAD),),
    )


def seconds_of_children() -> float:
    """CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.benchmark(timer=seconds_of_children)
def test_imports_of_phalanx_run(measure: Measure) -> None:
    """The imports with compiled bytecode, as in an installed scheduler."""
    compileall.compile_dir(Path(phalanx.__file__).parent, quiet=1)
    measure(lambda: subprocess.run([sys.executable, "-c", START], check=True), items=1, budget=3_000_000)
