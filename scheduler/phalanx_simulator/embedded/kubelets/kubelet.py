"""Fake kubelets: nodes become Ready; bound pods run, finish, or are rejected or stopped.

A pod's annotations say what it does, all with the prefix `sim.phalanx.dev/`: see the constants. Without any
it runs until it is deleted. A pod that does not fit on its node, or into the NUMA zones that a
NodeResourceTopology gives it, fails with a real kubelet's reasons; a node that offers less later does not
harm the pods that it has taken. A kubelet belongs to one Node object: another under the same name has a new
kubelet, which finds the containers of the old one gone. Heartbeats are not written: NodeLifecycle asks
`lost_at`. What a kubelet writes has the time of its node's clock, which an annotation of the node puts wrong.
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
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.embedded.work_queue import WorkQueue

RUN_SECONDS: Final = "sim.phalanx.dev/run-seconds"
"""Annotation of a pod: how long it runs until it succeeds, in seconds; fractions are allowed."""
START_SECONDS: Final = "sim.phalanx.dev/start-seconds"
"""Annotation of a pod: how long it is Pending on its node before it runs."""
STOP_SECONDS: Final = "sim.phalanx.dev/stop-seconds"
"""Annotation of a pod: how long it runs on after it was deleted, at most for its grace period."""
INIT_FAILS: Final = "sim.phalanx.dev/init-fails"
"""Annotation of a pod: its init containers fail, `exit-code[/reason[/message]]`, and so does the pod."""
FAILS_AFTER_SECONDS: Final = "sim.phalanx.dev/fails-after-seconds"
"""Annotation of a pod: its containers fail once, so long after they started first."""
EXIT_CODE: Final = "sim.phalanx.dev/exit-code"
"""Annotation of a pod: the exit code of that failure, 1 without it."""
CLOCK_OFF_SECONDS: Final = "sim.phalanx.dev/clock-off-seconds"
"""Annotation of a node: by how much its clock is ahead of the API server's, below 0 behind it."""

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
        """Stop all kubelets where they are."""
        self._queue.close()

    def lose(self, node: str) -> None:
        """Disconnect a node: its containers run on, but it receives and reports nothing."""
        machine = self._machine_of(node)
        if machine is not None and machine.lost_at is None:
            machine.lost_at = asyncio.get_running_loop().time()
            self._tell(node)

    def find(self, node: str, *, restarted: bool = False) -> None:
        """Reconnect a node: it reports Ready, reports past events, and syncs its pods.

        `restarted`: the machine was rebooted, so all containers that ran have failed. That holds for a node
        that was not lost too.
        """
        machine = self._machine_of(node)
        if machine is None:
            return
        machine.lost_at, machine.must_register = None, True
        for guest in machine.guests.values():
            guest.is_stale = True
            if restarted and guest.is_running and guest.end is None:
                guest.end = REBOOTED
        self._tell(node)
        self._queue.add(Key("nodes", "", node))
        for key in dict.fromkeys((*machine.guests, *self._client.pods_on(node))):
            self._queue.add(key)

    def fail(self, pod: Key, *, exit_code: int = 1, reason: str = _FAILURE, message: str = "") -> bool:
        """End all containers of a running pod; false where none run.

        With an exit code of 0 the pod succeeds. Else it fails, or runs again where its restartPolicy says so.
        """
        for host in self._hosts.get(pod, ()):
            guest = self._machines[host].guests[pod]
            if guest.is_running and guest.end is None:
                guest.end = End(exit_code, reason, message)
                self._queue.add(pod)
                return True
        return False

    def _now(self, node: str) -> str:
        """The node's clock."""
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

    def _tell(self, node: str) -> None:
        for listener in self._listeners:
            listener(node)

    def _handle(self, key: Key) -> None:
        if key.resource == "nodes":
            self._look_at_node(key)
        else:
            self._look_at_pod(key)

    def _machine_of(self, name: str) -> Machine | None:
        """The machine of the Node object that exists now."""
        node, machine = self._client.get(Key("nodes", "", name)), self._machines.get(name)
        uid = None if node is None else node["metadata"]["uid"]
        if machine is not None and machine.node_uid != uid:
            for key in list(machine.guests):
                self._leave(name, machine, key)
            del self._machines[name]
            machine = None
        if machine is None and uid is not None:
            machine = self._machines[name] = Machine(uid)
        return machine

    def _look_at_node(self, key: Key) -> None:
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

    def _look_at_pod(self, key: Key) -> None:
        pod = self._client.get(key)
        here = None if pod is None else pod["spec"].get("nodeName")
        for host in list(self._hosts.get(key, ())):
            self._let_go(host, key, pod if host == here else None)
        if pod is None or not here:
            return
        node, machine = self._client.get(Key("nodes", "", here)), self._machine_of(here)
        if node is None or machine is None or machine.lost_at is not None or not _is_registered(node):
            return
        if pod["status"].get("phase") in _FINISHED:
            self._leave(here, machine, key)
        elif is_deleting(pod):
            self._stop(machine, key, pod)
        elif key in machine.guests:
            self._go_on(machine, key, pod)
        else:
            self._admit(machine, key, pod, node)

    def _let_go(self, host: str, key: Key, pod: Object | None) -> None:
        """Forget a pod that has left, once its kubelet can know.

        None: the node has no such pod.
        """
        machine = self._machine_of(host)
        guest = None if machine is None else machine.guests.get(key)
        if machine is None or guest is None or machine.lost_at is not None:
            return
        if pod is None or pod["metadata"]["uid"] != guest.uid:
            self._leave(host, machine, key)

    def _admit(self, machine: Machine, key: Key, pod: Object, node: Object) -> None:
        topology = self._client.get(Key(TOPOLOGIES, "", key_host(pod)))
        rejection = machine.why_not(pod, node, topology)
        if rejection is not None:
            self._client.update_status(key, **rejected_status(*rejection))
            return
        guest = machine.take(key, pod, topology)
        self._hosts.setdefault(key, {})[key_host(pod)] = None
        if pod["status"].get("phase") == "Running":
            guest.is_running, guest.end = True, NOT_FOUND
            self._go_on(machine, key, pod)
            return
        delay_s = _seconds(pod, START_SECONDS)
        if delay_s is None:
            self._start(machine, key, pod, guest)
            return
        if "startTime" not in pod["status"]:
            self._client.update_status(key, **starting_status(pod, now=self._now(key_host(pod))))
        self._later(machine, key, guest, delay_s, _become_due)

    def _go_on(self, machine: Machine, key: Key, pod: Object) -> None:
        """Report changes of a pod since the last look."""
        guest = machine.guests[key]
        if guest.is_due:
            self._start(machine, key, pod, guest)
        elif guest.end is not None:
            self._end(machine, key, pod, guest, guest.end)
        elif guest.is_stale and guest.is_running:
            self._client.update_status(key, **ready_status(pod, now=self._now(key_host(pod))))
        guest.is_stale = False

    def _start(self, machine: Machine, key: Key, pod: Object, guest: AdmittedPod) -> None:
        guest.is_due, now = False, self._now(key_host(pod))
        end = _init_end(pod)
        if end is not None:
            self._client.update_status(key, **init_failed_status(pod, end, now=now))
            return
        guest.is_running = True
        self._addresses += 1
        self._client.update_status(key, **running_status(pod, now=now, number=self._addresses))
        self._plan_success(machine, key, pod, guest)
        fails_s = _seconds(pod, FAILS_AFTER_SECONDS)
        if fails_s is not None:
            failure = End(_exit_code(pod), _FAILURE)
            self._later(machine, key, guest, fails_s, lambda guest: _end_with(guest, failure))

    def _plan_success(self, machine: Machine, key: Key, pod: Object, guest: AdmittedPod) -> None:
        run_s = _seconds(pod, RUN_SECONDS)
        if run_s is not None:
            self._later(machine, key, guest, run_s, lambda guest: _end_with(guest, COMPLETED))

    def _end(self, machine: Machine, key: Key, pod: Object, guest: AdmittedPod, end: End) -> None:
        now = self._now(key_host(pod))
        if end.exit_code == 0 or pod["spec"].get("restartPolicy") == "Never":
            self._client.update_status(key, **ended_status(pod, end, now=now))
            return
        guest.end = None
        guest.run += 1
        self._client.update_status(key, **restarted_status(pod, end, now=now))
        self._plan_success(machine, key, pod, guest)

    def _later(
        self,
        machine: Machine,
        key: Key,
        guest: AdmittedPod,
        delay_s: float,
        act: Callable[[AdmittedPod], None],
    ) -> None:
        """Call `act` on a pod after a delay, unless this run of it has ended by then."""
        run = guest.run

        def fire() -> None:
            if machine.guests.get(key) is guest and guest.run == run:
                act(guest)
                self._queue.add(key)

        self._queue.call_later(delay_s, fire)

    def _stop(self, machine: Machine, key: Key, pod: Object) -> None:
        guest = machine.guests.get(key)
        if (
            guest is not None
            and guest.is_running
            and guest.end is None
            and self._takes_time(machine, key, pod)
        ):
            return
        if pod["status"].get("phase") == "Running":
            self._client.update_status(key, **ended_status(pod, STOPPED, now=self._now(key_host(pod))))
        self._leave(key_host(pod), machine, key)
        if pod["metadata"].get("deletionGracePeriodSeconds", 0) > 0:
            self._client.delete(key, uid=pod["metadata"]["uid"], grace_s=0)

    def _takes_time(self, machine: Machine, key: Key, pod: Object) -> bool:
        """Whether the containers run on for a while, starting at the first call."""
        guest, grace_s = machine.guests[key], pod["metadata"].get("deletionGracePeriodSeconds") or 0
        stop_s = min(_seconds(pod, STOP_SECONDS) or 0.0, grace_s)
        if stop_s > 0 and not guest.is_stopping:
            guest.is_stopping = True
            self._later(machine, key, guest, stop_s, lambda guest: _end_with(guest, STOPPED))
        return stop_s > 0

    def _leave(self, host: str, machine: Machine, key: Key) -> None:
        machine.leave(key)
        hosts = self._hosts.get(key, {})
        hosts.pop(host, None)
        if not hosts:
            self._hosts.pop(key, None)


def key_host(pod: Object) -> str:
    """The node of a bound pod."""
    host: str = pod["spec"]["nodeName"]
    return host


def _become_due(guest: AdmittedPod) -> None:
    guest.is_due = True


def _end_with(guest: AdmittedPod, end: End) -> None:
    if guest.end is None:
        guest.end = end


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
