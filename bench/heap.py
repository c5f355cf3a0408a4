"""What 10,000 pods that can never start cost everybody else.

    python -m bench.heap [--nodes 200] [--rounds 5] [--only TEXT] [--without TEXT]

One tenant fills its queue with pods that request more GPUs than any node has. A quiet tenant works beside it
in a queue of its own. Each line compares CPU milliseconds of the cache's snapshot and the cycle beside the
heap with those of the same events without the heap:

- nothing: nothing has changed since the last cycle.
- pod started: a pod of another scheduler starts, which takes capacity.
- pod ended: a running pod of a third queue ends, which frees capacity.
- node: the labels of a node change.
- start: the quiet tenant submits a gang that fits; the cycles until its placement is decided.
- verdict: it submits a gang that does not fit; the cycles until its verdict has a reason. Advice is searched
  between cycles, as in the running scheduler, and is not counted.

The heap is of equal or of distinct requests, single pods or gangs of ten. Pods and gangs of two that wait for
capacity could start if nodes were free: when a pod ends, a pod of this heap starts. The lines "while the heap
arrives" are measured while cycles still work on the heap: the longest cycle, and the quiet tenant's start and
verdict then, each with the number of cycles. Writes bench/results/heap.json.
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Assumed, Deleted, Relisted
from phalanx.cycle import Engine
from phalanx.framework.config import SchedulerConfig
from phalanx.kube.decode import KindDecoder
from phalanx.model.api.kinds import KINDS
from phalanx.model.decisions import CycleResult
from phalanx.model.memory import Memory
from phalanx.model.reasons import Reason

from bench.record import record

RESULTS: Final = Path(__file__).parent / "results" / "heap.json"
GROUP: Final = "scheduling.phalanx.dev/v1alpha1"
LABELS: Final = "scheduling.phalanx.dev"
GANG_SIZE: Final = 10
CYCLES_MAX: Final = 3000


class Heap(NamedTuple):
    """What one tenant has. `size`: members of each gang; `terms`: what each pod has of `field`."""

    pods: int
    size: int = 1
    distinct: bool = False
    """Whether each pod requests another amount."""
    field: str = ""
    terms: int = 0
    runs: bool = False
    gpu: int = 64
    """Per pod, without `field`: more than nodes have, or as many."""


HEAPS: Final = {
    "equal pods": Heap(10_000),
    "distinct pods": Heap(10_000, distinct=True),
    "equal gangs": Heap(10_000, GANG_SIZE),
    "distinct gangs": Heap(10_000, GANG_SIZE, distinct=True),
    "distinct pods that wait for capacity": Heap(10_000, distinct=True, gpu=8),
    "distinct gangs that wait for capacity": Heap(20_000, 2, distinct=True, gpu=8),
    "200 running pods of 1,000 anti-affinity terms": Heap(
        200, field="podAntiAffinity", terms=1000, runs=True
    ),
    "200 running pods of 100 anti-affinity terms": Heap(200, field="podAntiAffinity", terms=100, runs=True),
    "100 waiting pods of 1,000 anti-affinity terms": Heap(100, field="podAntiAffinity", terms=1000),
    "100 waiting pods of 1,000 affinity terms": Heap(100, field="podAffinity", terms=1000),
    "pods of one affinity term": Heap(10_000, field="podAffinity", terms=1),
    "pods of one preferred term": Heap(10_000, field="preferred", terms=1),
    "pods of one spread constraint": Heap(10_000, field="spread", terms=1),
    "1,000 pods of 1,000 node selector terms": Heap(1000, field="nodeAffinity", terms=1000),
    "a gang of 4,000 distinct requests": Heap(4000, 4000, distinct=True),
    "a gang of 20,000 distinct requests": Heap(20_000, 20_000, distinct=True),
}

Step = tuple[float, int]
"""CPU milliseconds, and the number of cycles."""


class World:
    """A cluster that is half full, and its scheduler without an API server."""

    def __init__(self, nodes: int) -> None:
        config = SchedulerConfig()
        self._cache = Cache(scheduler_name=config.scheduler_name)
        self._engine = Engine(config, defers_advice=True)
        self._memory = Memory()
        self._now = 1_800_000_000_000
        self._made = 0
        self._nodes = nodes
        self.last = CycleResult(cycle=0)
        self._cache.apply(Relisted("Node", tuple(_node(index) for index in range(nodes))))
        self._cache.apply(Relisted("Queue", tuple(_queue(name) for name in ("heap", "quiet", "other"))))
        self._other = [_pod(f"other-{i}", "other", gpu=4, node=f"n{i % nodes:05}") for i in range(nodes)]
        self._cache.apply(Relisted("Pod", tuple(self._other)))

    def add_heap(self, heap: Heap) -> None:
        """The heap arrives at once."""
        groups, members = [], []
        for index in range(heap.pods):
            gang = f"heap-{index // heap.size:05}"
            if heap.size > 1 and not index % heap.size:
                groups.append(_group(gang, "heap", heap.size, namespace="heap"))
            members.append(
                _pod(
                    f"{gang}-{index}",
                    "heap",
                    gpu=0 if heap.runs else 8 if heap.field else heap.gpu,
                    cpu=1
                    if heap.runs
                    else 100 + (index if heap.size > GANG_SIZE else index // heap.size) * heap.distinct,
                    group=gang if heap.size > 1 else "",
                    node=f"n{index % self._nodes:05}" if heap.runs else "",
                    namespace="heap",
                    constraints=_constraints(heap, index),
                )
            )
        for each in (*groups, *members):
            self._cache.apply(Applied(each))

    def cycle(self) -> float:
        """One cycle; its binds are assumed. CPU milliseconds of the snapshot and the decision."""
        self._now += 50
        began = time.process_time()
        snapshot = self._cache.snapshot(now=self._now, seed=0, memory=self._memory)
        self.last = self._engine.decide(snapshot)
        took = time.process_time() - began
        self._memory = self.last.memory
        for bind in (bind for placement in self.last.placements for bind in placement.binds):
            self._cache.apply(Assumed(bind))
        return took * 1000

    @property
    def is_settled(self) -> bool:
        """Whether the last cycle does not ask for another one at once."""
        return self.last.wake_at is None or self.last.wake_at > self._now

    def settle(self) -> list[float]:
        """Cycles until nothing is left to do."""
        found: list[float] = []
        while len(found) < CYCLES_MAX:
            found.append(self.cycle())
            if self.is_settled:
                break
        return found

    # --- the events -----------------------------------------------------------------------------------------

    def nothing(self) -> Step:
        """No event."""
        return self.cycle(), 1

    def pod_started(self) -> Step:
        """A pod of another scheduler takes a core."""
        self._made += 1
        self._cache.apply(Applied(_pod(f"daemon-{self._made}", "", node="n00000", scheduler="other")))
        return self.cycle(), 1

    def pod_ended(self) -> Step:
        """A running pod of queue other is deleted."""
        gone = self._other.pop()
        self._cache.apply(Deleted("Pod", gone.metadata.namespace, gone.metadata.name, gone.metadata.uid))
        spent = self.cycle()
        self._made += 1
        self._other.insert(0, _pod(f"next-{self._made}", "other", gpu=4, node=gone.spec.node_name))
        self._cache.apply(Applied(self._other[0]))
        return spent, 1

    def node(self) -> Step:
        """A label of a node changes."""
        self._made += 1
        self._cache.apply(Applied(_node(0, extra=str(self._made))))
        return self.cycle(), 1

    def start(self) -> Step:
        """The quiet tenant submits a gang of four that fits."""
        name = self._submit(gpu=1)
        return self._until(lambda: any(each.group == name for each in self.last.placements))

    def verdict(self) -> Step:
        """The quiet tenant submits a gang of four that does not fit."""
        name = self._submit(gpu=5 + self._made % 3)
        found = self._until(lambda: self._is_explained(name))
        self._withdraw()
        return found

    def _submit(self, *, gpu: int) -> str:
        self._made += 1
        name = f"quiet-{self._made}"
        self._cache.apply(Applied(_group(name, "quiet", 4)))
        self._pods = [_pod(f"{name}-{index}", "quiet", gpu=gpu, group=name) for index in range(4)]
        for pod in self._pods:
            self._cache.apply(Applied(pod))
        return f"team/{name}"

    def _withdraw(self) -> None:
        for pod in self._pods:
            self._cache.apply(Deleted("Pod", pod.metadata.namespace, pod.metadata.name, pod.metadata.uid))

    def _is_explained(self, name: str) -> bool:
        found = next((each for each in self.last.verdicts if each.group == name), None)
        return found is not None and found.reason is not Reason.NOT_TRIED_YET

    def _until(self, done: Any) -> Step:
        spent = 0.0
        for cycles in range(1, CYCLES_MAX):
            spent += self.cycle()
            if done():
                return spent, cycles
        raise RuntimeError("no decision")


EVENTS: Final = ("nothing", "pod_started", "pod_ended", "node", "start", "verdict")


def measured(world: World, rounds: int) -> dict[str, Step]:
    """By event, the median of CPU milliseconds and of cycles; other cycles run until nothing is left."""
    found = {}
    for event in EVENTS:
        steps = []
        for _ in range(rounds):
            world.settle()
            gc.collect()
            steps.append(getattr(world, event)())
        found[event] = _median(steps)
    return found


def arriving(world: World, heap: Heap) -> dict[str, Any]:
    """The heap arrives; after its first cycle the quiet tenant submits."""
    world.add_heap(heap)
    gc.collect()
    first = world.cycle()
    start, verdict = world.start(), world.verdict()
    rest = world.settle()
    return {
        "first cycle": (first, 1),
        "start": start,
        "verdict": verdict,
        "longest later cycle": (max(rest), 1),
        "until settled": (first + start[0] + verdict[0] + sum(rest), 1 + start[1] + verdict[1] + len(rest)),
    }


def _median(steps: list[Step]) -> Step:
    return statistics.median(step[0] for step in steps), round(statistics.median(step[1] for step in steps))


# --- the objects --------------------------------------------------------------------------------------------


def _decoded(kind: str, made: dict[str, Any]) -> Any:
    made["metadata"].setdefault("uid", f"{kind}-{made['metadata']['name']}")
    made["metadata"]["creationTimestamp"] = "2026-11-01T00:00:00Z"
    line = json.dumps({"type": "ADDED", "object": {"kind": kind, **made}}).encode()
    decoded: Any = KindDecoder(KINDS[kind]).line(line)
    return decoded.event.object


def _node(index: int, extra: str = "") -> Any:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    name = f"n{index:05}"
    return _decoded(
        "Node",
        {
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "topology.kubernetes.io/zone": f"z{index // 16}",
                    "extra": extra,
                },
            },
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
    )


def _queue(name: str) -> Any:
    return _decoded("Queue", {"apiVersion": GROUP, "metadata": {"name": name}, "spec": {}})


def _group(name: str, queue: str, size: int, *, namespace: str = "team") -> Any:
    spec = {"minMember": size, "queue": queue}
    return _decoded(
        "PodGroup", {"apiVersion": GROUP, "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    )


def _pod(
    name: str,
    queue: str,
    *,
    gpu: int = 0,
    cpu: int = 1000,
    group: str = "",
    node: str = "",
    scheduler: str = "phalanx",
    namespace: str = "team",
    constraints: dict[str, Any] | None = None,
) -> Any:
    labels = {f"{LABELS}/queue": queue} if queue else {}
    amounts = {"cpu": f"{cpu}m", **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    return _decoded(
        "Pod",
        {
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {**labels, **({f"{LABELS}/pod-group": group} if group else {})},
            },
            "spec": {
                "schedulerName": scheduler,
                **({"nodeName": node} if node else {}),
                **(constraints or {}),
                "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}],
            },
            "status": {"phase": "Running" if node else "Pending"},
        },
    )


def _constraints(heap: Heap, index: int) -> dict[str, Any]:
    """The fields of a pod that constrain where it is placed; in a field with many terms all are different."""

    def term(number: int) -> dict[str, Any]:
        app = f"a{index}-{number}" if heap.terms > 1 else "a"
        return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}

    terms = [term(number) for number in range(heap.terms)]
    if heap.field == "spread":
        return {
            "topologySpreadConstraints": [
                {**each, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for each in terms
            ]
        }
    if heap.field == "preferred":
        preferred = [{"weight": 1, "podAffinityTerm": each} for each in terms]
        return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    if heap.field == "nodeAffinity":
        expressions = [
            {"matchExpressions": [{"key": "extra", "operator": "In", "values": [f"{index}-{number}"]}]}
            for number in range(heap.terms)
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": expressions}}
        return {"affinity": {"nodeAffinity": required}}
    return (
        {"affinity": {heap.field: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}} if terms else {}
    )


# --- the report ---------------------------------------------------------------------------------------------


def _lines(alone: dict[str, Step], beside: dict[str, Step]) -> Iterator[tuple[str, float, float, float, int]]:
    for event, (spent, cycles) in beside.items():
        least = alone.get(event, alone["nothing"])[0]
        yield event, least, spent, spent / least, cycles


def _print(heap: str, rows: Iterator[tuple[str, float, float, float, int]]) -> list[dict[str, Any]]:
    found = []
    for event, least, spent, ratio, cycles in rows:
        print(f"{heap:>34} {event:>20} {least:9.1f} {spent:10.1f} {ratio:8.2f} {cycles:7}", flush=True)
        found.append({"event": event, "aloneMs": least, "besideMs": spent, "ratio": ratio, "cycles": cycles})
    return found


def main() -> None:
    """Print a line for each heap and event, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="text in the name of a heap")
    parser.add_argument("--without", default="", help="leave out heaps with this text in the name")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    print(f"{'heap':>34} {'event':>20} {'alone ms':>9} {'beside ms':>10} {'ratio':>8} {'cycles':>7}")
    without = World(options.nodes)
    without.settle()
    alone = measured(without, options.rounds)
    report: dict[str, Any] = {}
    for name, heap in HEAPS.items():
        if options.only in name and not (options.without and options.without in name):
            world = World(options.nodes)
            world.settle()
            first = _print(f"{name}, while the heap arrives", _lines(alone, arriving(world, heap)))
            report[name] = first + _print(name, _lines(alone, measured(world, options.rounds)))
    record(options.out, {"nodes": options.nodes, "heaps": report})


if __name__ == "__main__":
    main()
