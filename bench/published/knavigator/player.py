"""Plays the tasks of a workflow one after the other, until one fails."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct
from phalanx_simulator.embedded.manifests import Manifest

from bench.published.knavigator import files, go_templates
from bench.published.knavigator.files import Params, Task, Workflow, seconds
from bench.published.knavigator.objects import adapted, is_subset, nodes
from bench.published.site import Listed, Pod, Site

Handler = Callable[[Task, Any], Awaitable[None]]

_DOCUMENTS: Final = re.compile(r"^---$", re.MULTILINE)


class TaskFailed(Exception):
    """A task did not find what it expects; the message names the task."""


class _Resource(Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool


class _Resources(Struct, frozen=True):
    resources: tuple[_Resource, ...]


class _Submitted(Struct, frozen=True):
    """The objects of a SubmitObj by their paths, and the pods that belong to them."""

    paths: tuple[str, ...]
    namespace: str
    pods: int
    patterns: tuple[re.Pattern[str], ...]


class Player:
    """Plays workflows on one cluster; what one registers, the next one may use.

    `folder`: where the templates are. `pause`: called at a Pause. `passed`: the number of tasks that passed.
    """

    def __init__(self, site: Site, *, folder: Path, pause: Callable[[], Awaitable[None]]) -> None:
        self.passed = 0
        self._site = site
        self._folder = folder
        self._pause = pause
        self._numbers = 0
        self._nodes: list[str] = []
        self._kinds: dict[str, files.RegisterObj] = {}
        self._objects: dict[str, _Submitted] = {}
        self._handlers: dict[str, Handler] = {
            "RegisterObj": self._register,
            "SubmitObj": self._submit,
            "UpdateObj": self._update,
            "CheckObj": self._check,
            "DeleteObj": self._delete,
            "CheckPod": self._check_pods,
            "UpdateNodes": self._update_nodes,
            "CheckConfigmap": self._check_configmap,
            "Configure": self._configure,
            "Sleep": self._sleep,
            "Pause": self._paused,
        }

    async def play(self, workflow: Workflow) -> None:
        """Play all tasks. Raises TaskFailed, BadWorkflow, BadTemplate and Refused."""
        for task in workflow.tasks:
            await self._handlers[task.type](task, files.params_of(task))
            self.passed += 1

    # --- objects -------------------------------------------------------------------------------------------

    async def _register(self, task: Task, params: files.RegisterObj) -> None:
        self._kinds[task.id] = params

    async def _submit(self, task: Task, params: files.SubmitObj) -> None:
        kind = self._kinds.get(params.ref_task_id)
        if kind is None:
            raise TaskFailed(f"{task.id}: no task {params.ref_task_id} registers objects")
        text = (self._folder / kind.template).read_text()
        paths: list[str] = []
        patterns: list[re.Pattern[str]] = []
        namespace, pods = "default", 0
        for _ in range(params.count):
            given = self._given(kind, params)
            for manifest in _manifests(text, given):
                made = adapted(manifest, self._site.scheduler)
                await self._site.create(made, can_exist=params.can_exist)
                paths.append(await self._path(made))
                namespace = made["metadata"].get("namespace", namespace)
            if kind.pod_name_format:
                patterns.append(re.compile(go_templates.render(kind.pod_name_format, given)))
                pods += go_templates.integer(go_templates.render(kind.pod_count, given))
        self._objects[task.id] = _Submitted(tuple(paths), namespace, pods, tuple(patterns))

    def _given(self, kind: files.RegisterObj, params: files.SubmitObj) -> dict[str, Any]:
        """The parameters of one object, with its name."""
        given = dict(params.params)
        if kind.name_format:
            self._numbers += 1
            given["_ENUM_"] = self._numbers
            given["_NAME_"] = go_templates.render(kind.name_format, given)
        return given

    async def _path(self, manifest: Manifest) -> str:
        """The path of an object, by what the API server says of its kind."""
        version, metadata = manifest["apiVersion"], manifest["metadata"]
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        served = (await self._site.read(base, _Resources)).resources
        kind = next(each for each in served if each.kind == manifest["kind"] and "/" not in each.name)
        space = f"/namespaces/{metadata.get('namespace', 'default')}" if kind.namespaced else ""
        return f"{base}{space}/{kind.name}/{metadata['name']}"

    async def _update(self, task: Task, params: files.State) -> None:
        for path in self._submitted(task, params.ref_task_id).paths:
            await self._change(path, params.state)

    async def _change(self, path: str, state: dict[str, Any]) -> None:
        """Merge into an object, and into its status."""
        main = {name: value for name, value in state.items() if name != "status"}
        if main:
            await self._site.patch(path, main)
        if "status" in state:
            await self._site.patch(f"{path}/status", {"status": state["status"]})

    async def _check(self, task: Task, params: files.State) -> None:
        paths = self._submitted(task, params.ref_task_id).paths
        left = set(paths)
        async for _ in self._tries(params.timeout):
            for path in sorted(left):
                found = await self._site.find(path)
                if found is not None and is_subset(params.state, found):
                    left.discard(path)
            if not left:
                return
        raise TaskFailed(f"{task.id}: {', '.join(sorted(left))} did not reach {params.state}")

    async def _delete(self, task: Task, params: files.DeleteObj) -> None:
        for path in self._submitted(task, params.ref_task_id).paths:
            if not await self._site.delete(path):
                raise TaskFailed(f"{task.id}: {path} does not exist")

    def _submitted(self, task: Task, name: str) -> _Submitted:
        if name not in self._objects:
            raise TaskFailed(f"{task.id}: no task {name} submits objects")
        return self._objects[name]

    # --- pods ----------------------------------------------------------------------------------------------

    async def _check_pods(self, task: Task, params: files.CheckPod) -> None:
        """Each pod must have been seen in the phase once, on a node with the labels."""
        submitted = self._submitted(task, params.ref_task_id)
        status = params.status or "Running"
        seen: set[str] = set()
        async for _ in self._tries(params.timeout):
            for pod in await self._site.pods(submitted.namespace):
                if _is_of(submitted, pod) and pod.status.phase == status:
                    await self._check_node(task, params, pod)
                    seen.add(pod.metadata.uid)
            if len(seen) >= submitted.pods:
                return
        raise TaskFailed(f"{task.id}: {len(seen)} pods were {status}, not {submitted.pods}")

    async def _check_node(self, task: Task, params: files.CheckPod, pod: Pod) -> None:
        if not params.node_labels or pod.status.phase != "Running":
            return
        node = await self._site.find(f"/api/v1/nodes/{pod.spec.node_name}") or {}
        wanted = files.labels(params.node_labels)
        if not is_subset(wanted, node.get("metadata", {}).get("labels", {})):
            raise TaskFailed(f"{task.id}: {pod.metadata.name} runs on {pod.spec.node_name} without {wanted}")

    async def all_ended(self, *, within_s: float) -> None:
        """Wait until all pods of all objects have succeeded. Raises TaskFailed."""
        wanted = sum(each.pods for each in self._objects.values())
        seen: set[str] = set()
        async for _ in self._site.looks(for_s=within_s):
            for space in {each.namespace for each in self._objects.values()}:
                for pod in await self._site.pods(space):
                    if pod.status.phase == "Succeeded" and any(
                        _is_of(each, pod) for each in self._objects.values()
                    ):
                        seen.add(pod.metadata.uid)
            if len(seen) >= wanted:
                return
        raise TaskFailed(f"at the end: {len(seen)} of {wanted} pods succeeded")

    # --- the cluster ---------------------------------------------------------------------------------------

    async def _configure(self, _task: Task, params: files.Configure) -> None:
        for space in params.namespaces:
            manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space.name}}
            await self._do(space.op, manifest)
        for wanted in params.priority_classes:
            version = "scheduling.k8s.io/v1"
            manifest = {"apiVersion": version, "kind": "PriorityClass", "metadata": {"name": wanted.name}}
            await self._do(wanted.op, {**manifest, "value": wanted.value})
        for configmap in params.configmaps:
            metadata = {"name": configmap.name, "namespace": configmap.namespace}
            manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": configmap.data}
            await self._do("delete", manifest)
            if configmap.op == "create":
                await self._do("create", manifest)
        if params.nodes:
            await self._replace_nodes(list(nodes(params.nodes)))

    async def _do(self, op: str, manifest: Manifest) -> None:
        if op == "create":
            await self._site.create(manifest, can_exist=True)
        else:
            await self._site.delete(await self._path(manifest))

    async def _replace_nodes(self, wanted: list[Manifest]) -> None:
        for name in self._nodes:
            await self._site.delete(f"/api/v1/nodes/{name}")
        self._nodes = [each["metadata"]["name"] for each in wanted]
        await self._site.create_nodes(*wanted)

    async def _update_nodes(self, task: Task, params: files.UpdateNodes) -> None:
        selectors = [files.labels(each) for each in params.selectors]
        matched = 0
        for node in (await self._site.read("/api/v1/nodes", Listed)).items:
            labels = node["metadata"].get("labels", {})
            if any(is_subset(selector, labels) for selector in selectors):
                matched += 1
                await self._change(f"/api/v1/nodes/{node['metadata']['name']}", params.state)
        if not matched:
            raise TaskFailed(f"{task.id}: no node has the labels")

    async def _check_configmap(self, task: Task, params: files.CheckConfigmap) -> None:
        path = f"/api/v1/namespaces/{params.namespace}/configmaps/{params.name}"
        data = (await self._site.find(path) or {}).get("data", {})
        if not is_subset(params.data, data) or (params.op == "equal" and data != params.data):
            raise TaskFailed(f"{task.id}: {params.namespace}/{params.name} has other data")

    # --- time ----------------------------------------------------------------------------------------------

    async def _tries(self, timeout: str) -> AsyncIterator[None]:
        """Once, or until the timeout."""
        yield
        async for _ in self._site.looks(for_s=seconds(timeout)):
            yield

    async def _sleep(self, _task: Task, params: files.Timed) -> None:
        async for _ in self._site.looks(for_s=seconds(params.timeout)):
            pass

    async def _paused(self, _task: Task, _params: Params) -> None:
        await self._pause()


def _manifests(text: str, given: dict[str, Any]) -> list[Manifest]:
    blocks = _DOCUMENTS.split(text)
    parsed = [yaml.safe_load(go_templates.render(block, given)) for block in blocks]
    return [each for each in parsed if each]


def _is_of(submitted: _Submitted, pod: Pod) -> bool:
    return any(pattern.search(pod.metadata.name) for pattern in submitted.patterns)
