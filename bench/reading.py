"""Measures time and memory of reading a cluster of 10,000 pods: lists, snapshots, events.

    python -m bench.reading [--pods 10000] [--nodes 1000] [--gang 100]

The pods are like real training pods: about 6 KB each with managedFields; four fifths of them run.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Assumed, Relisted
from phalanx.kube.decode import KindDecoder, ObjectEvent
from phalanx.kube.garbage_collection import GarbageCollection
from phalanx.model.api.kinds import KINDS
from phalanx.model.decisions import Bind
from phalanx.model.memory import Memory
from phalanx.model.names import NodeName, PodUid
from phalanx_simulator.invariants.cache_tables import check_cache

STARTED = "2026-01-01T00:00:00Z"
RUNNING_OF_TEN = 8
PAGE = resource.getpagesize()
MIB = 1 << 20


def main() -> None:
    """Generate the inputs in another process, so that this does not count, then measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--gang", type=int, default=100)
    parser.add_argument("--make", type=Path)
    arguments = parser.parse_args()
    if arguments.make is not None:
        make(arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.reading", "--make", folder, "--gang", str(arguments.gang)]
        command += ["--pods", str(arguments.pods), "--nodes", str(arguments.nodes)]
        subprocess.run(command, check=True)
        measure(Path(folder))


def measure(folder: Path) -> None:
    """Measure every step in one process, in the order of a scheduler."""
    lists = {path.stem: path.read_bytes() for path in sorted(folder.iterdir())}
    print(f"pod list: {len(lists['Pod']) / MIB:.1f} MiB")
    gc.collect()
    before = rss()
    cache = Cache(scheduler_name="phalanx")
    with GarbageCollection().paused():
        nodes = read_list(cache, "Node", lists)
        read_list(cache, "PodGroup", lists)
        pods = read_list(cache, "Pod", lists)
    print(f"memory including the decoded objects: {(rss() - before) / MIB:.0f} MiB")
    timed("first snapshot, every gang new", lambda: snapshot(cache))
    timed("snapshot, nothing changed", lambda: snapshot(cache))
    follow(cache, pods, nodes)
    del pods, nodes, lists
    timed("full garbage collection", gc.collect)
    print(f"memory of the cache alone: {(rss() - before) / MIB:.0f} MiB")
    timed("check of all invariants", lambda: check_cache(cache))


def read_list(cache: Cache, kind: str, lists: dict[str, bytes]) -> tuple[Any, ...]:
    """Decode the list of one kind and apply it."""
    decoder = KindDecoder(KINDS[kind])
    objects: tuple[Any, ...] = timed(f"decode {kind} list", lambda: decoder.page(lists[kind]).objects)
    timed(f"apply {kind} list", lambda: cache.apply(Relisted(kind, objects)))
    return objects


def follow(cache: Cache, pods: tuple[Any, ...], nodes: tuple[Any, ...]) -> None:
    """Apply watch events one by one."""
    waiting = [pod for pod in pods if not pod.spec.node_name]
    names = [NodeName(node.metadata.name) for node in nodes]
    each("pod event that changes nothing", len(pods), lambda: [cache.apply(Applied(pod)) for pod in pods])
    each("node heartbeat", len(nodes), lambda: [cache.apply(Applied(node)) for node in nodes])
    assumed = [
        Assumed(Bind(PodUid(pod.metadata.uid), "", "", names[i % len(names)]))
        for i, pod in enumerate(waiting)
    ]
    each("assume a pod", len(assumed), lambda: [cache.apply(event) for event in assumed])
    timed(f"snapshot after {len(assumed)} assumed pods", lambda: snapshot(cache))
    bound = [
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=event.bind.node))
        for pod, event in zip(waiting, assumed, strict=True)
    ]
    each("bound pod confirmed", len(bound), lambda: [cache.apply(Applied(pod)) for pod in bound])
    timed(f"snapshot after {len(bound)} confirmed pods", lambda: snapshot(cache))
    every = len(pods) // 100
    labelled = [relabelled(pod) for pod in pods[::every]]
    each("pod that changed", len(labelled), lambda: [cache.apply(Applied(pod)) for pod in labelled])
    timed("snapshot after one changed pod in each of 100 gangs", lambda: snapshot(cache))
    lines = [msgspec.json.encode({"type": "MODIFIED", "object": pod}) for pod in pods[:2000]]
    decoder = KindDecoder(KINDS["Pod"])

    def decode_and_apply() -> None:
        for line in lines:
            seen = decoder.line(line)
            assert isinstance(seen, ObjectEvent)
            cache.apply(seen.event)

    each("line of a watch, decoded and applied", len(lines), decode_and_apply)


def relabelled(pod: Any) -> Any:
    """The same pod with another phase."""
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Unknown"))


def snapshot(cache: Cache) -> object:
    return cache.snapshot(now=0, seed=0, memory=Memory())


def timed(what: str, action: Callable[[], Any]) -> Any:
    started = time.perf_counter()
    result = action()
    print(f"{what}: {(time.perf_counter() - started) * 1e3:.1f} ms")
    return result


def each(what: str, count: int, action: Callable[[], Any]) -> None:
    started = time.perf_counter()
    action()
    print(f"{what}: {(time.perf_counter() - started) / count * 1e6:.1f} us each")


def rss() -> int:
    """The resident set size of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


# --- the objects --------------------------------------------------------------------------------------------


def make(arguments: argparse.Namespace) -> None:
    """Write one file per kind, with the answer of an API server to a list request."""
    gangs = range(arguments.pods // arguments.gang)
    lists = {
        "Node": [node(index) for index in range(arguments.nodes)],
        "PodGroup": [pod_group(gang, arguments.gang) for gang in gangs],
        "Pod": [pod(gang, rank, arguments.nodes) for gang in gangs for rank in range(arguments.gang)],
    }
    for kind, items in lists.items():
        body = {"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": items}
        (arguments.make / f"{kind}.json").write_text(json.dumps(body, separators=(",", ":")))


def node(index: int) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": f"node-{index:05}",
        "topology.kubernetes.io/zone": f"zone-{index % 3}",
        "network.topology.nvidia.com/spine": f"spine-{index // 128}",
        "network.topology.nvidia.com/block": f"block-{index // 16}",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    }
    amounts = {"cpu": "192", "memory": f"{2_000_000 + index}Ki", "nvidia.com/gpu": "8", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": STARTED, "message": "ready " * 9}]
    return {
        "metadata": {"name": f"node-{index:05}", "uid": f"node-uid-{index}", "labels": labels},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": conditions},
    }


def pod_group(gang: int, size: int) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"train-{gang:04}",
            "namespace": f"team-{gang % 10}",
            "uid": f"group-uid-{gang}",
        },
        "spec": {"minMember": size, "topology": {"preferred": "block"}},
    }


def pod(gang: int, rank: int, nodes: int) -> dict[str, Any]:
    """A pod of a Job with the defaults of an API server."""
    name = f"train-{gang:04}-{rank:03}-x7k2p"
    uid = f"0f5c7a1e-{gang:04}-4d1c-9f00-{rank:012}"
    labels = {
        "scheduling.phalanx.dev/pod-group": f"train-{gang:04}",
        "batch.kubernetes.io/job-name": f"train-{gang:04}",
        "batch.kubernetes.io/job-completion-index": str(rank),
        "batch.kubernetes.io/controller-uid": f"job-uid-{gang}",
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-{gang:04}", "uid": f"job-uid-{gang}"}
    meta = {
        "name": name,
        "namespace": f"team-{gang % 10}",
        "uid": uid,
        "resourceVersion": str(1_000 + gang * 1_000 + rank),
        "creationTimestamp": STARTED,
        "labels": labels,
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        "managedFields": [
            {"manager": "kube-controller-manager", "fieldsV1": {"f:spec": {"f:x": "y" * 1500}}}
        ],
    }
    running = gang % 10 < RUNNING_OF_TEN
    spec = spec_of(rank)
    if running:
        spec["nodeName"] = f"node-{(gang * 100 + rank) // 8 % nodes:05}"
    return {"metadata": meta, "spec": spec, "status": status_of(rank, running=running)}


def spec_of(rank: int) -> dict[str, Any]:
    environment = [{"name": f"NCCL_SETTING_{number}", "value": "v" * 20} for number in range(24)]
    mounts = [{"name": f"volume-{number}", "mountPath": f"/data/{number}"} for number in range(6)]
    gpus = {"nvidia.com/gpu": "1", "cpu": "12", "memory": "120Gi"}
    trainer = {
        "name": "trainer",
        "image": "registry.example.com/team/trainer:2026.1",
        "command": ["torchrun", "--nnodes=100", "train.py"],
        "env": environment,
        "volumeMounts": mounts,
        "resources": {"requests": gpus, "limits": gpus},
    }
    sidecar = {
        "name": "logs",
        "image": "registry.example.com/logs:1",
        "resources": {"requests": {"cpu": "100m"}},
    }
    product = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [product]}]}
    volumes: list[dict[str, Any]] = [{"name": f"volume-{number}", "emptyDir": {}} for number in range(5)]
    volumes.append(
        {"name": f"kube-api-access-{rank:05}", "projected": {"sources": [{"serviceAccountToken": {}}]}}
    )
    return {
        "schedulerName": "phalanx",
        "containers": [trainer],
        "initContainers": [{**sidecar, "restartPolicy": "Always"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        ],
        "volumes": volumes,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "restartPolicy": "Never",
        "serviceAccountName": "default",
    }


def status_of(rank: int, *, running: bool) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": str(running), "lastTransitionTime": STARTED}
    if not running:
        return {"phase": "Pending", "conditions": [scheduled]}
    conditions = [scheduled, *({"type": kind, "status": "True"} for kind in ("Initialized", "Ready"))]
    trainer = {
        "name": "trainer",
        "ready": True,
        "restartCount": 0,
        "containerID": f"containerd://{rank:064}",
        "image": "registry.example.com/team/trainer:2026.1",
        "imageID": "sha256:" + "0" * 64,
        "state": {"running": {"startedAt": STARTED}},
        "resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "12", "memory": "120Gi"}},
        "allocatedResources": {"nvidia.com/gpu": "1", "cpu": "12", "memory": "120Gi"},
    }
    return {
        "phase": "Running",
        "conditions": conditions,
        "podIP": f"10.0.{rank // 256}.{rank % 256}",
        "startTime": STARTED,
        "containerStatuses": [trainer],
    }


if __name__ == "__main__":
    main()
