"""The part of a shared control plane that belongs to one scenario: a namespace, nodes, and gangs."""

import asyncio
import itertools
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
from msgspec import Struct
from phalanx_controlplane.controlplane import ControlPlane

from tests.e2e.pod_history import FINISHED, Pod, PodHistory, Seen
from tests.e2e.scheduler_process import Scheduler, until_led_by
from tests.e2e.workloads import create, fetched, listed, pod_group
from tests.fake_objects import collection_path, fake_pod, namespace
from tests.kwok import manifests
from tests.kwok.manifests import Manifest

GENEROUS_S = 180.0
"""Only ends a test that would never end."""
LOOK_S = 0.25
BEACON = "beacon"
NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

_numbers = itertools.count()


class Environment(Struct, frozen=True):
    """A running control plane with its scheduler, a watch of all pods, and an administrator's session.

    The scheduler is started again when it ends; `processes` has all that were started.
    """

    plane: ControlPlane
    processes: list[Scheduler]
    history: PodHistory
    session: aiohttp.ClientSession

    @property
    def process(self) -> Scheduler:
        """The scheduler that is running."""
        return self.processes[-1]

    async def scheduler_leads(self, *, number: int = 1) -> None:
        """Wait until the scheduler of this number holds the Lease."""
        while len(self.processes) < number:
            await asyncio.sleep(LOOK_S)
        await until_led_by(self.plane, self.processes[number - 1], timeout=GENEROUS_S)

    async def restart_scheduler(self) -> None:
        """Terminate the scheduler with SIGTERM, and wait for a new one that leads."""
        os.kill(self.process.pid, signal.SIGTERM)
        await self.scheduler_leads(number=len(self.processes) + 1)

    async def prepare(self, *, idle_nodes: int) -> None:
        """Create the beacon, the topology, and idle nodes: few faulty nodes then do not open the breaker."""
        idle = [manifests.node("nobody", f"idle-{i}") for i in range(idle_nodes)]
        beacon = manifests.node(BEACON, BEACON, pods="1000")
        await create(self.plane, namespace(BEACON), beacon, manifests.topology(), *idle)

    async def nodes_are_known(self) -> None:
        """Wait until the scheduler has received all node events so far.

        It receives them in the order of their commits, so it has received all once it uses a new label.
        """
        label = f"{BEACON}-{next(_numbers)}"
        pod = fake_pod(label, namespace=BEACON)
        pod["spec"]["nodeSelector"] = {label: "true"}
        await self.patch(f"/api/v1/nodes/{BEACON}", {"metadata": {"labels": {label: "true"}}})
        await create(self.plane, pod)
        await self.until(lambda: self._is_bound(label), f"the scheduler to see {label}")

    def _is_bound(self, name: str) -> bool:
        return any(seen.pod.metadata.name == name for seen in self.history.bound.values())

    async def until(self, so: Callable[[], bool], what: str) -> None:
        """Wait until a condition on pods holds."""
        try:
            await self.history.until(so, timeout=GENEROUS_S)
        except TimeoutError:
            raise AssertionError(f"waited for {what}") from None

    async def patch(self, path: str, body: Any, *, kind: str = "merge") -> int:
        """Patch an object and return its resourceVersion, which is comparable between kinds."""
        headers = {"Content-Type": f"application/{kind}-patch+json"}
        async with self.session.patch(path, json=body, headers=headers) as answer:
            text = await answer.text()
            assert answer.ok, text
            return int((await answer.json())["metadata"]["resourceVersion"])

    async def delete(self, path: str) -> None:
        """Delete one object; its dependents are deleted afterwards."""
        async with self.session.delete(path, params={"propagationPolicy": "Background"}) as answer:
            assert answer.ok, await answer.text()

    async def metric(self, line: str) -> float:
        """One sample of the scheduler's metrics; 0 where there is none."""
        _, text = await self.process.answer("/metrics")
        found = [each.rpartition(" ")[2] for each in text.splitlines() if each.startswith(f"{line} ")]
        return float(found[0]) if found else 0.0

    async def metric_until(self, line: str, expected: Callable[[float], bool]) -> None:
        """Wait until one sample of the scheduler's metrics is as expected."""
        async with asyncio.timeout(GENEROUS_S):
            while not expected(await self.metric(line)):
                await asyncio.sleep(LOOK_S)


class Site:
    """The site of one scenario. Its nodes are called `<site>-0`, `<site>-1`, ..."""

    def __init__(self, environment: Environment, name: str) -> None:
        self.environment = environment
        self.name = name
        self._nodes = itertools.count()

    # --- what there is -------------------------------------------------------------------------------------

    async def open(self) -> "Site":
        """Create the namespace."""
        await self.create(namespace(self.name))
        return self

    async def create(self, *objects: Manifest) -> None:
        """Create objects of any kind."""
        await create(self.environment.plane, *objects)

    async def add_nodes(self, *racks: str, gpus: int = 8) -> list[str]:
        """Add a node in each of these racks, ready for pods."""
        names = [f"{self.name}-{next(self._nodes)}" for _ in racks]
        made = [
            manifests.node(self.name, n, rack=rack, gpus=gpus) for n, rack in zip(names, racks, strict=True)
        ]
        await self.create(*made)
        for name in names:
            await self.node_until(name, _takes_pods)
        return names

    async def add_gang(self, name: str, *, size: int, by: str = "ReplicaSet", **more: Any) -> None:
        """Add a PodGroup and a controller of its pods (`""`: bare pods, called `<gang>-0`, ...).

        `spec`: further fields of the PodGroup; the rest describes the pods.
        """
        spec = more.pop("spec", {})
        await self.create(pod_group(name, space=self.name, size=size, **spec))
        if by == "ReplicaSet":
            await self.create(manifests.replicas(self.name, name, size=size, **more))
        elif by == "Job":
            await self.create(manifests.job(self.name, name, size=size, **more))
        else:
            pods = (manifests.pod(self.name, f"{name}-{i}", gang=name, **more) for i in range(size))
            await self.create(*pods)

    # --- nodes ---------------------------------------------------------------------------------------------

    async def node(self, name: str) -> Manifest:
        """A node as it is now."""
        return await fetched(self.environment.plane, f"/api/v1/nodes/{name}")

    async def node_until(self, name: str, so: Callable[[Manifest], bool]) -> Manifest:
        """The node as soon as the condition holds."""
        return await self.object_until(f"/api/v1/nodes/{name}", so)

    async def set_condition(self, node: str, kind: str, status: str) -> int:
        """Set a condition, as a health monitor does."""
        condition = {"type": kind, "status": status, "reason": "Test", "message": "by a scenario"}
        body = {"status": {"conditions": [condition]}}
        return await self.environment.patch(f"/api/v1/nodes/{node}/status", body, kind="strategic-merge")

    async def set_node(self, node: str, **body: Any) -> int:
        """Merge into the node."""
        return await self.environment.patch(f"/api/v1/nodes/{node}", body)

    async def label_node(self, node: str, **labels: str | None) -> int:
        """Set labels, or remove them with None. A label's name in keywords: `**{...}`."""
        return await self.set_node(node, metadata={"labels": labels})

    async def set_gpus(self, node: str, count: int) -> int:
        """Change the GPUs, as a device plugin does when GPUs fall off the bus or return."""
        body = {"status": {"allocatable": {manifests.GPU: str(count)}}}
        return await self.environment.patch(f"/api/v1/nodes/{node}/status", body)

    async def fail_node(self, node: str) -> None:
        """Apply KWOK's node-not-ready; returns when the node has the condition."""
        label, annotations = manifests.chaos("node-not-ready", reason="Test")
        await self.set_node(node, metadata={"labels": label, "annotations": annotations})
        await self.node_until(node, lambda found: condition(found, "Ready") == "False")

    async def heal_node(self, node: str) -> int:
        """Remove KWOK's chaos label; return the commit before which the node was not ready."""
        version = await self.label_node(node, **{"node-not-ready.stage.kwok.x-k8s.io": None})
        await self.node_until(node, _takes_pods)
        return version

    async def silence_node(self, node: str) -> None:
        """Stop the heartbeats, as when its kubelet hangs; returns when the node counts as lost.

        KWOK ignores a node whose Lease another client holds; removing KWOK's annotation would not stop its
        renewals. renewTime changes too: kube-controller-manager never treats a node as lost if its Lease has
        changed in other fields only.
        """
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        body = {"spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 24 * 3600, "renewTime": now}}
        await self.environment.patch(f"{NODE_LEASES}/{node}", body)
        await self.node_until(node, lambda found: condition(found, "Ready") == "Unknown")

    # --- gangs and pods ------------------------------------------------------------------------------------

    def pods(self, gang: str = "") -> list[Pod]:
        """Pods that exist, have not ended and are not being deleted; by name."""
        found = (pod for pod in self.environment.history.pods.values() if pod.metadata.namespace == self.name)
        ours = (pod for pod in found if not gang or pod.gang == f"{self.name}/{gang}")
        alive = (p for p in ours if p.status.phase not in FINISHED and not p.metadata.deletion_timestamp)
        return sorted(alive, key=lambda pod: pod.metadata.name)

    def placed(self, gang: str) -> list[str]:
        """The nodes of a gang's pods, sorted."""
        return sorted(pod.spec.node_name for pod in self.pods(gang) if pod.spec.node_name)

    def uids(self, gang: str) -> set[str]:
        """The UIDs of the members."""
        return {pod.metadata.uid for pod in self.pods(gang)}

    def events(self, gang: str) -> list[Seen]:
        """All observed events of a gang's pods."""
        return [seen for seen in self.environment.history.events if seen.pod.gang == f"{self.name}/{gang}"]

    def first_bind(self, gang: str) -> int:
        """The commit of a gang's first bind; before that commit none of its pods ever had a node."""
        return min(seen.pod.version for seen in self.events(gang) if seen.pod.spec.node_name)

    def evicted(self, gang: str) -> set[str]:
        """Reasons of the DisruptionTarget conditions of its podsfrom any writer."""
        return {
            each.reason
            for seen in self.events(gang)
            for each in seen.pod.status.conditions
            if each.type == "DisruptionTarget" and each.status == "True"
        }

    async def until(self, so: Callable[[], bool], what: str) -> None:
        """Wait until a condition on pods holds."""
        await self.environment.until(so, f"{self.name}: {what}")

    async def runs(self, gang: str, size: int) -> None:
        """Wait until exactly so many pods of the gang exist and run."""

        def complete() -> bool:
            pods = self.pods(gang)
            return len(pods) == size and all(pod.status.phase == "Running" for pod in pods)

        await self.until(complete, f"{size} pods of {gang} to run")

    async def waits(self, gang: str, reason: str, *words: str) -> int:
        """Wait until the PodGroup has this reason with these words; return the commit of that status."""

        def has_reason(found: Manifest) -> bool:
            status = found.get("status", {})
            return status.get("reason") == reason and all(word in str(status) for word in words)

        found = await self.group_until(gang, has_reason)
        assert self.placed(gang) == [], f"{gang} waits for {reason} and has nodes"
        return int(found["metadata"]["resourceVersion"])

    async def group_until(self, gang: str, so: Callable[[Manifest], bool]) -> Manifest:
        """The PodGroup as soon as the condition holds."""
        return await self.object_until(self.group_path(gang), so)

    def group_path(self, gang: str) -> str:
        """The path at the API server."""
        return f"/apis/scheduling.phalanx.dev/v1alpha1/namespaces/{self.name}/podgroups/{gang}"

    def pod_path(self, pod: str) -> str:
        """The path at the API server."""
        return f"/api/v1/namespaces/{self.name}/pods/{pod}"

    async def change_group(self, gang: str, **spec: Any) -> int:
        """Change the spec, as `kubectl edit` does."""
        return await self.environment.patch(self.group_path(gang), {"spec": spec})

    async def set_parallelism(self, job: str, pods: int) -> None:
        """Change how many pods of a Job may run at the same time."""
        path = f"/apis/batch/v1/namespaces/{self.name}/jobs/{job}"
        await self.environment.patch(path, {"spec": {"parallelism": pods}})

    async def break_pod(self, pod: str, stage: str, **settings: str) -> None:
        """Apply one of KWOK's chaos stages to an existing pod."""
        label, annotations = manifests.chaos(stage, **settings)
        body = {"metadata": {"labels": label, "annotations": annotations}}
        await self.environment.patch(self.pod_path(pod), body)

    async def evict(self, pod: str) -> int:
        """Evict as `kubectl drain` does; return the status code: 429 while a budget forbids it."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.name},
        }
        async with self.environment.session.post(f"{self.pod_path(pod)}/eviction", json=body) as answer:
            return answer.status

    async def may_bind(self, pod: str, node: str) -> bool:
        """Whether the API server would accept a bind; a dry run."""
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"name": node}}
        path = f"{self.pod_path(pod)}/binding?dryRun=All"
        async with self.environment.session.post(path, json=body) as answer:
            return answer.ok

    async def object_until(self, path: str, so: Callable[[Manifest], bool]) -> Manifest:
        """Any object as soon as the condition holds."""
        found: Manifest = {}
        try:
            async with asyncio.timeout(GENEROUS_S):
                while not so(found := await fetched(self.environment.plane, path)):
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise AssertionError(f"{self.name}: {path} stays at {_short(found)}") from None
        return found

    async def all_pods(self) -> list[Manifest]:
        """The pods of the API server, ended ones included."""
        return await listed(self.environment.plane, f"/api/v1/namespaces/{self.name}/pods")


def condition(found: Manifest, kind: str) -> str:
    """The status of a condition of this type; empty if there is none."""
    conditions = found.get("status", {}).get("conditions", [])
    return next((each["status"] for each in conditions if each["type"] == kind), "")


def path_of(manifest: Manifest) -> str:
    """The path of this object."""
    return f"{collection_path(manifest)}/{manifest['metadata']['name']}"


def _takes_pods(found: Manifest) -> bool:
    return condition(found, "Ready") == "True" and not found["spec"].get("taints")


def _short(found: Manifest) -> str:
    return str({"spec": found.get("spec"), "status": found.get("status")})[:3000]
