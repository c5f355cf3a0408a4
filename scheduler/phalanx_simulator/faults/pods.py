"""F8, pods: failure at start or later, eviction, deletion, rejection, stuck, early success.

Targets as in `edits.drawn_pods`: pods, nodes whose pods are drawn, or none: then all pods are candidates.
"""

from collections.abc import Mapping
from typing import Final

from phalanx_simulator.embedded.kubelets.kubelet import INIT_FAILS
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.faults.edits import (
    delete,
    drain_one_gpu,
    drawn_pods,
    edit,
    gpus_of,
    group_of,
    live_pods,
    node_key,
    same,
    uid_of,
    with_metadata,
)
from phalanx_simulator.faults.fault import Fault, FaultContext, Injector, pause
from phalanx_simulator.faults.foreign_pods import fill
from phalanx_simulator.faults.moments import is_bind, is_new, pods_that

STUCK: Final = "sim.phalanx.dev/stuck"
"""Finalizer that keeps a deleted pod in Terminating."""

_PREFLIGHT: Final = "preflight-nccl-allreduce"


async def _init_fails(fault: Fault, context: FaultContext) -> None:
    """Waiting pods, then new ones, fail in their preflight (NCCL) init container.

    Settings: count (default 1, in total), exit_code, reason, message.
    """
    waiting = drawn_pods(fault, context, bound=False)
    end = "/".join(
        (
            str(fault.number("exit_code", 1)),
            fault.text("reason", "initContainerError"),
            fault.text("message", f"{_PREFLIGHT} failed"),
        )
    )
    for key in waiting:
        _mark(context, key, end)
    left = fault.number("count", 1) - len(waiting)
    async for key in pods_that(context, is_new, within_s=fault.seconds, limit=max(0, left)):
        _mark(context, key, end)


def _mark(context: FaultContext, key: Key, end: str) -> None:
    edit(context.client, key, lambda pod: with_metadata(pod, "annotations", **{INIT_FAILS: end}))


async def _fails(fault: Fault, context: FaultContext) -> None:
    """Containers of running pods end.

    Settings: count, delay_s, exit_code (default 1), reason, message.
    """
    keys = drawn_pods(fault, context)
    await context.sleep(fault.number("delay_s"))
    for key in keys:
        _end(context, key, fault.number("exit_code", 1), fault)


async def _gpu_fails(fault: Fault, context: FaultContext) -> None:
    """One random GPU of each target node fails, and the pod that holds it.

    So a job fails in proportion to the GPUs that it holds. Settings as of pod-failure.
    """
    for node in fault.targets:
        held = [key for key in live_pods(context.client, node=node) for _ in range(gpus_of(context, key))]
        place = context.random.randrange(max(1, gpus_of(context, node_key(node))))
        for key in held[place : place + 1]:
            _end(context, key, fault.number("exit_code", 1), fault)


async def _succeeds(fault: Fault, context: FaultContext) -> None:
    """Running pods succeed before the rest of their gang.

    Settings: count.
    """
    for key in drawn_pods(fault, context):
        _end(context, key, 0, fault)


def _end(context: FaultContext, key: Key, exit_code: int, fault: Fault) -> None:
    reason = fault.text("reason", "Error" if exit_code else "Completed")
    context.kubelets.fail(key, exit_code=exit_code, reason=reason, message=fault.text("message"))


async def _restarts(fault: Fault, context: FaultContext) -> None:
    """One gang loses a member repeatedly (a job of Meta's: 35 times).

    Settings: times, exit_code.
    """
    times, drawn = fault.number("times", 35), drawn_pods(fault, context)
    groups = [_group(context.client.get(key)) for key in drawn]
    for _ in range(times):
        members = [key for key in live_pods(context.client) if _group(context.client.get(key)) in groups]
        for key in members[:1]:
            _end(context, key, fault.number("exit_code", 1), fault)
        if not await pause(context, fault.seconds / times):
            return


def _group(pod: Object | None) -> tuple[str, str]:
    """Namespace and group of a pod, or the pod itself: its gang."""
    if pod is None:
        return "", ""
    metadata = pod["metadata"]
    return metadata["namespace"], group_of(pod) or metadata["name"]


async def _evicted(fault: Fault, context: FaultContext) -> None:
    """Evict pods through the API where their budgets allow it.

    Settings: count.
    """
    for key in drawn_pods(fault, context):
        pod = context.client.get(key)
        if pod is not None:
            context.client.evict(key, uid=uid_of(pod))


async def _deleted(fault: Fault, context: FaultContext) -> None:
    """Delete pods.

    Settings: count; grace_s, 0 to remove them at once.
    """
    grace = fault.number("grace_s") if "grace_s" in fault.settings else None
    for key in drawn_pods(fault, context):
        delete(context.client, key, grace_s=grace)


async def _gpu_drained(fault: Fault, context: FaultContext) -> None:
    """Partial drain: delete one pod with GPUs on each target node; the node stays up."""
    for node in fault.targets:
        drain_one_gpu(context, node)


async def _deleted_while_bound(fault: Fault, context: FaultContext) -> None:
    """Delete each pod at the moment of its bind.

    Settings: count (default 1).
    """
    limit = fault.number("count", 1)
    async for key in pods_that(context, is_bind, within_s=fault.seconds, limit=limit):
        delete(context.client, key)


async def _rejected(fault: Fault, context: FaultContext) -> None:
    """At the next bind, foreign pods take the free capacity of the target nodes.

    The kubelets then reject the rest of the gang. Settings: bind_within_s (default 60). The foreign pods are
    deleted at the end of the fault.
    """
    within_s = fault.number("bind_within_s", 60)
    async for key in pods_that(context, is_bind, within_s=within_s):
        pod = context.client.get(key)
        nodes = fault.targets or (() if pod is None else (pod["spec"]["nodeName"],))
        foreign = [made for node in nodes for made in fill(context, node)]
        await context.sleep(fault.seconds)
        for filler in foreign:
            delete(context.client, filler)


async def _stuck(fault: Fault, context: FaultContext) -> None:
    """Pods stay Terminating: a finalizer holds them.

    Settings: count.
    """
    held = [(key, pod) for key in drawn_pods(fault, context) if (pod := context.client.get(key)) is not None]
    for key, _ in held:
        edit(context.client, key, lambda item: _with_finalizers(item, [*_finalizers(item), STUCK]))
        delete(context.client, key)
    await context.sleep(fault.seconds)
    for key, pod in held:
        if same(context.client, key, uid_of(pod)) is not None:
            edit(context.client, key, lambda item: _with_finalizers(item, _without_stuck(item)))


def _finalizers(item: Object) -> list[str]:
    return list(item["metadata"].get("finalizers") or [])


def _without_stuck(item: Object) -> list[str]:
    return [name for name in _finalizers(item) if name != STUCK]


def _with_finalizers(item: Object, names: list[str]) -> Object:
    return {**item, "metadata": {**item["metadata"], "finalizers": names}}


INJECTORS: Final[Mapping[str, Injector]] = {
    "pod-init-failure": _init_fails,
    "pod-failure": _fails,
    "pod-gpu-failure": _gpu_fails,
    "pod-early-success": _succeeds,
    "pod-restarts": _restarts,
    "pod-eviction": _evicted,
    "pod-delete": _deleted,
    "pod-gpu-drain": _gpu_drained,
    "pod-delete-mid-bind": _deleted_while_bound,
    "pod-kubelet-rejection": _rejected,
    "pod-stuck-terminating": _stuck,
}
