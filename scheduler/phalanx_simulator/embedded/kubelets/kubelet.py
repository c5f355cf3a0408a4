"""Fake kubelets: nodes become Ready; bound pods run, finish, or are rejected or stopped.

Annotations of a pod with the prefix `sim.phalanx.dev/` control what it does: see the constants. Without them
it runs until it is deleted. A pod that does not fit on its node, or into the NUMA zones of its
NodeResourceTopology, fails with a real kubelet's reasons. A later decrease of the allocatable does not affect
admitted pods. A pod whose ResourceClaims cannot be prepared stays Pending. A kubelet belongs to one Node
object: a recreated node has a new kubelet, which does not find the containers of the old one. Heartbeats are
not written: NodeLifecycle calls `lost_at`. Timestamps that a kubelet writes are those of its node's clock,
which an annotation of the node can set wrong.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from phalanx_simulator.embedded.apiserver.objects import is_deleting, rfc3339, seconds_of, set_condition
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.kubelets.machine import (
    COMPLETED,
    NOT_FOUND,
    REBOOTED,
    AdmittedPod,
    End,
    Machine,
)
from phalanx_simulator.embedded.kubelets.numa_zones import TOPOLOGIES
from phalanx_simulator.embedded.kubelets.pod_status import (
    STOPPED,
    ended_status,
    init_failed_status,
    ready_status,
    rejected_status,
    restarted_status,
    running_status,
    starting_status,
)
from phalanx_simulator.embedded.kubelets.prepared_claims import why_unprepared
from phalanx_simulator.embedded.pod_claims import claim_names
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

SIM_CLAIM_PREPARED_S: Final = 2.0
"""Seconds until a kubelet tries again to prepare the claims of a pod."""

RUN_SECONDS: Final = "sim.phalanx.dev/run-seconds"
"""Annotation of a pod: seconds that it runs until it succeeds; fractions are allowed."""
START_SECONDS: Final = "sim.phalanx.dev/start-seconds"
"""Annotation of a pod: seconds for which it is Pending on its node before it runs."""
STOP_SECONDS: Final = "sim.phalanx.dev/stop-seconds"
"""Annotation of a pod: seconds that it keeps running after its deletion, at most its grace period."""
INIT_FAILS: Final = "sim.phalanx.dev/init-fails"
"""Annotation of a pod: its init containers fail with `exit-code[/reason[/message]]`, and the pod fails."""
FAILS_AFTER_SECONDS: Final = "sim.phalanx.dev/fails-after-seconds"
"""Annotation of a pod: its containers fail once, this many seconds after their first start."""
EXIT_CODE: Final = "sim.phalanx.dev/exit-code"
"""Annotation of a pod: the exit code of that failure, by default 1."""
CLOCK_OFF_SECONDS: Final = "sim.phalanx.dev/clock-off-seconds"
"""Annotation of a node: seconds by which its clock is ahead of the API server's; negative if it is behind."""

_OWN_CONDITIONS: Final = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID"),
    "Ready": ("True", "KubeletReady"),
}
_FINISHED: Final = ("Succeeded", "Failed")
_FAILURE: Final = "Error"
_INIT_FAILURE: Final = ("initContainerError", "initContainer reported errors")


class Kubelets:
    """All fake kubelets of a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._machines: dict[str, Machine] = {}
        self._hosts: dict[Key, dict[str, None]] = {}
        self._addresses = 0
        self._listeners: list[Callable[[str], None]] = []
        self._queue = WorkQueue(self._handle)
        self._queue.follow(client, "nodes", "pods")

    def close(self) -> None:
        """Stop all kubelets."""
        self._queue.close()

    def lose(self, node: str) -> None:
        """Disconnect a node: its containers keep running, but it receives and reports nothing."""
        machine = self._machine_of(node)
        if machine is not None and machine.lost_at is None:
            machine.lost_at = asyncio.get_running_loop().time()
            self._notify(node)

    def find(self, node: str, *, restarted: bool = False) -> None:
        """Reconnect a node: it reports Ready, reports past events, and syncs its pods.

        `restarted`: the machine was rebooted, so all its running containers have failed, even if it was not
        disconnected.
        """
        machine = self._machine_of(node)
        if machine is None:
            return
        machine.lost_at, machine.must_register = None, True
        for admitted in machine.pods.values():
            admitted.is_stale = True
            if restarted and admitted.is_running and admitted.end is None:
                admitted.end = REBOOTED
        self._notify(node)
        self._queue.add(Key("nodes", "", node))
        for key in dict.fromkeys((*machine.pods, *self._client.pods_on(node))):
            self._queue.add(key)

    def fail(self, pod: Key, *, exit_code: int = 1, reason: str = _FAILURE, message: str = "") -> bool:
        """End all containers of a running pod; false if none run.

        With exit code 0 the pod succeeds. Otherwise it fails or is restarted, as its restartPolicy says.
        """
        for host in self._hosts.get(pod, ()):
            admitted = self._machines[host].pods[pod]
            if admitted.is_running and admitted.end is None:
                admitted.end = End(exit_code, reason, message)
                self._queue.add(pod)
                return True
        return False

    def _now(self, node: str) -> str:
        """The time by the node's clock."""
        found = self._client.get(Key("nodes", "", node))
        off_s = _seconds(found, CLOCK_OFF_SECONDS) if found is not None else None
        return rfc3339((seconds_of(self._client.now()) + int(off_s or 0)) * 1000)

    def lost_at(self, node: str) -> float | None:
        """Loop time since which a node is disconnected; None for a connected one."""
        machine = self._machines.get(node)
        return None if machine is None else machine.lost_at

    def on_contact(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the name of each node that is disconnected or reconnected."""
        self._listeners.append(listener)

    def _notify(self, node: str) -> None:
        for listener in self._listeners:
            listener(node)

    def _handle(self, key: Key) -> None:
        if key.resource == "nodes":
            self._sync_node(key)
        else:
            self._sync_pod(key)

    def _machine_of(self, name: str) -> Machine | None:
        """The machine of the present Node object, if it exists."""
        node, machine = self._client.get(Key("nodes", "", name)), self._machines.get(name)
        uid = None if node is None else node["metadata"]["uid"]
        if machine is not None and machine.node_uid != uid:
            for key in list(machine.pods):
                self._remove(name, machine, key)
            del self._machines[name]
            machine = None
        if machine is None and uid is not None:
            machine = self._machines[name] = Machine(uid)
        return machine

    def _sync_node(self, key: Key) -> None:
        node, machine = self._client.get(key), self._machine_of(key.name)
        if node is None or machine is None or is_deleting(node) or machine.lost_at is not None:
            return
        if _is_registered(node) and not machine.must_register:
            return
        machine.must_register = False
        status = node.get("status", {})
        capacity = status.get("capacity") or status.get("allocatable") or {}
        allocatable = status.get("allocatable") or capacity
        conditions = _own_conditions(status.get("conditions", []), self._now(key.name))
        self._client.update_status(
            key, capacity=capacity, allocatable=allocatable, conditions=conditions, phase="Running"
        )
        for pod in self._client.pods_on(key.name):
            self._queue.add(pod)

    def _sync_pod(self, key: Key) -> None:
        pod = self._client.get(key)
        here = None if pod is None else pod["spec"].get("nodeName")
        for host in list(self._hosts.get(key, ())):
            self._forget(host, key, pod if host == here else None)
        if pod is None or not here:
            return
        node, machine = self._client.get(Key("nodes", "", here)), self._machine_of(here)
        if node is None or machine is None or machine.lost_at is not None or not _is_registered(node):
            return
        if pod["status"].get("phase") in _FINISHED:
            self._remove(here, machine, key)
        elif is_deleting(pod):
            self._stop(machine, key, pod)
        elif key in machine.pods:
            self._sync_admitted(machine, key, pod)
        else:
            self._admit(machine, key, pod, node)

    def _forget(self, host: str, key: Key, pod: Object | None) -> None:
        """Remove a pod that is deleted or recreated, once its kubelet can know.

        `pod` is None if no such pod is bound to the node.
        """
        machine = self._machine_of(host)
        admitted = None if machine is None else machine.pods.get(key)
        if machine is None or admitted is None or machine.lost_at is not None:
            return
        if pod is None or pod["metadata"]["uid"] != admitted.uid:
            self._remove(host, machine, key)

    def _admit(self, machine: Machine, key: Key, pod: Object, node: Object) -> None:
        topology = self._client.get(Key(TOPOLOGIES, "", key_host(pod)))
        rejection = machine.why_not(pod, node, topology)
        if rejection is not None:
            self._client.update_status(key, **rejected_status(*rejection))
            return
        if why_unprepared(self._client, pod, node):
            self._queue.call_later(SIM_CLAIM_PREPARED_S, lambda: self._queue.add(key))
            return
        admitted = machine.admit(key, pod, topology)
        self._hosts.setdefault(key, {})[key_host(pod)] = None
        if pod["status"].get("phase") == "Running":
            admitted.is_running, admitted.end = True, NOT_FOUND
            self._sync_admitted(machine, key, pod)
            return
        delay_s = _seconds(pod, START_SECONDS)
        if delay_s is None:
            self._start(machine, key, pod, admitted)
            return
        if "startTime" not in pod["status"]:
            self._client.update_status(key, **starting_status(pod, now=self._now(key_host(pod))))
        self._later(machine, key, admitted, delay_s, _mark_for_start)

    def _sync_admitted(self, machine: Machine, key: Key, pod: Object) -> None:
        """Report the changes of a pod since the last call."""
        admitted = machine.pods[key]
        if admitted.must_start:
            self._start(machine, key, pod, admitted)
        elif admitted.end is not None:
            self._end(machine, key, pod, admitted, admitted.end)
        elif admitted.is_stale and admitted.is_running:
            self._client.update_status(key, **ready_status(pod, now=self._now(key_host(pod))))
        admitted.is_stale = False

    def _start(self, machine: Machine, key: Key, pod: Object, admitted: AdmittedPod) -> None:
        admitted.must_start, now = False, self._now(key_host(pod))
        end = _init_end(pod)
        if end is not None:
            self._client.update_status(key, **init_failed_status(pod, end, now=now))
            return
        admitted.is_running = True
        self._addresses += 1
        self._client.update_status(key, **running_status(pod, now=now, number=self._addresses))
        self._plan_success(machine, key, pod, admitted)
        fails_s = _seconds(pod, FAILS_AFTER_SECONDS)
        if fails_s is not None:
            failure = End(_exit_code(pod), _FAILURE)
            self._later(machine, key, admitted, fails_s, lambda admitted: _end_with(admitted, failure))

    def _plan_success(self, machine: Machine, key: Key, pod: Object, admitted: AdmittedPod) -> None:
        run_s = _seconds(pod, RUN_SECONDS)
        if run_s is not None:
            self._later(machine, key, admitted, run_s, lambda admitted: _end_with(admitted, COMPLETED))

    def _end(self, machine: Machine, key: Key, pod: Object, admitted: AdmittedPod, end: End) -> None:
        now = self._now(key_host(pod))
        if end.exit_code == 0 or pod["spec"].get("restartPolicy") == "Never":
            self._client.update_status(key, **ended_status(pod, end, now=now))
            return
        admitted.end = None
        admitted.run += 1
        self._client.update_status(key, **restarted_status(pod, end, now=now))
        self._plan_success(machine, key, pod, admitted)

    def _later(
        self,
        machine: Machine,
        key: Key,
        admitted: AdmittedPod,
        delay_s: float,
        act: Callable[[AdmittedPod], None],
    ) -> None:
        """Call `act` on a pod after a delay, unless this run of it has ended by then."""
        run = admitted.run

        def fire() -> None:
            if machine.pods.get(key) is admitted and admitted.run == run:
                act(admitted)
                self._queue.add(key)

        self._queue.call_later(delay_s, fire)

    def _stop(self, machine: Machine, key: Key, pod: Object) -> None:
        admitted = machine.pods.get(key)
        if (
            admitted is not None
            and admitted.is_running
            and admitted.end is None
            and self._is_stop_delayed(machine, key, pod)
        ):
            return
        # A pod that waited for its claims has failed too, so that its Job counts and replaces it.
        waited = admitted is None and bool(claim_names(pod))
        if pod["status"].get("phase") == "Running" or waited:
            self._client.update_status(key, **ended_status(pod, STOPPED, now=self._now(key_host(pod))))
        self._remove(key_host(pod), machine, key)
        if pod["metadata"].get("deletionGracePeriodSeconds", 0) > 0:
            self._client.delete(key, uid=pod["metadata"]["uid"], grace_s=0)

    def _is_stop_delayed(self, machine: Machine, key: Key, pod: Object) -> bool:
        """Whether the containers keep running for a while after the deletion, counted from the first call."""
        admitted, grace_s = machine.pods[key], pod["metadata"].get("deletionGracePeriodSeconds") or 0
        stop_s = min(_seconds(pod, STOP_SECONDS) or 0.0, grace_s)
        if stop_s > 0 and not admitted.is_stopping:
            admitted.is_stopping = True
            self._later(machine, key, admitted, stop_s, lambda admitted: _end_with(admitted, STOPPED))
        return stop_s > 0

    def _remove(self, host: str, machine: Machine, key: Key) -> None:
        machine.remove(key)
        hosts = self._hosts.get(key, {})
        hosts.pop(host, None)
        if not hosts:
            self._hosts.pop(key, None)


def key_host(pod: Object) -> str:
    """The node of a bound pod."""
    host: str = pod["spec"]["nodeName"]
    return host


def _mark_for_start(admitted: AdmittedPod) -> None:
    admitted.must_start = True


def _end_with(admitted: AdmittedPod, end: End) -> None:
    if admitted.end is None:
        admitted.end = end


def _annotation(item: Object, name: str) -> str | None:
    annotations: dict[str, str] = item["metadata"].get("annotations") or {}
    return annotations.get(name)


def _seconds(item: Object, name: str) -> float | None:
    """Seconds of an annotation; None for an invalid number."""
    written = _annotation(item, name)
    try:
        return None if written is None else float(written)
    except ValueError:
        return None


def _exit_code(pod: Object) -> int:
    written = _annotation(pod, EXIT_CODE) or ""
    return int(written) if written.isdecimal() else 1


def _init_end(pod: Object) -> End | None:
    written = _annotation(pod, INIT_FAILS)
    if written is None:
        return None
    code, _, rest = written.partition("/")
    reason, _, message = rest.partition("/")
    return End(int(code) if code.isdecimal() else 1, reason or _INIT_FAILURE[0], message or _INIT_FAILURE[1])


def _is_registered(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" for condition in conditions)


def _own_conditions(conditions: list[Any], now: str) -> list[Any]:
    for type_, (status, reason) in _OWN_CONDITIONS.items():
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        own = {"type": type_, "status": status, "reason": reason, "message": "fake kubelet", **times}
        conditions = set_condition(conditions, own)
    return conditions
