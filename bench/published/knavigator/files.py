"""Workflow files: their tasks with the parameters of each type. They are read strictly."""

import re
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import yaml
from msgspec import Struct

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class BadWorkflow(Exception):
    """A file is not a workflow, or has a task or a parameter that is not known here."""


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    """One task; the type says what its parameters mean."""

    id: str
    type: str
    description: str = ""
    params: dict[str, Any] = {}


class Workflow(Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks in their order."""

    name: str
    tasks: tuple[Task, ...]
    description: str = ""


class Params(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The parameters of a task."""


class RegisterObj(Params, frozen=True):
    """`template`: a file below the folder of the user. The formats are templates; `pod_name_format` gives a
    regular expression."""

    template: str
    name_format: str = ""
    pod_name_format: str = ""
    pod_count: str = ""


class SubmitObj(Params, frozen=True):
    """`ref_task_id`: of the RegisterObj."""

    ref_task_id: str
    count: int = 1
    can_exist: bool = False
    params: dict[str, Any] = {}


class State(Params, frozen=True):
    """Of CheckObj and UpdateObj; `ref_task_id`: of the SubmitObj."""

    ref_task_id: str
    state: dict[str, Any]
    timeout: str = ""


class DeleteObj(Params, frozen=True):
    """`ref_task_id`: of the SubmitObj."""

    ref_task_id: str


class CheckPod(Params, frozen=True):
    """`status`: the phase that each pod must reach; `node_labels`: of the nodes on which they run."""

    ref_task_id: str
    status: str = ""
    node_labels: dict[str, Any] = {}
    timeout: str = ""


class UpdateNodes(Params, frozen=True):
    """`selectors`: labels; a node that matches one of them is changed."""

    selectors: tuple[dict[str, Any], ...]
    state: dict[str, Any]
    timeout: str = ""


class CheckConfigmap(Params, frozen=True):
    """`op`: whether the ConfigMap may have more than `data`."""

    name: str
    namespace: str
    data: dict[str, str]
    op: Literal["equal", "subset"]


class Timed(Params, frozen=True):
    """Of Sleep."""

    timeout: str


class Nothing(Params, frozen=True):
    """Of Pause."""


class VirtualNodes(Params, frozen=True):
    """`count` nodes of a type of Knavigator, or with these resources."""

    type: str
    count: int
    labels: dict[str, Any] = {}
    annotations: dict[str, Any] = {}
    conditions: tuple[dict[str, str], ...] = ()
    resources: dict[str, Any] = {}


class Named(Params, frozen=True):
    """A namespace."""

    name: str
    op: Literal["create", "delete"]


class ConfigMap(Named, frozen=True, kw_only=True):
    """A ConfigMap that is created or replaced."""

    namespace: str
    data: dict[str, str] = {}


class PriorityClass(Named, frozen=True, kw_only=True):
    """A PriorityClass."""

    value: int = 0


class Configure(Params, frozen=True):
    """What the cluster has. `nodes` replaces all nodes that earlier tasks made.

    `deployment_restarts` makes schedulers read a changed ConfigMap again. None runs in a Deployment here.
    """

    timeout: str
    nodes: tuple[VirtualNodes, ...] = ()
    namespaces: tuple[Named, ...] = ()
    configmaps: tuple[ConfigMap, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    deployment_restarts: tuple[dict[str, Any], ...] = ()


TYPES: Final[dict[str, type[Params]]] = {
    "RegisterObj": RegisterObj,
    "SubmitObj": SubmitObj,
    "UpdateObj": State,
    "CheckObj": State,
    "DeleteObj": DeleteObj,
    "CheckPod": CheckPod,
    "UpdateNodes": UpdateNodes,
    "CheckConfigmap": CheckConfigmap,
    "Configure": Configure,
    "Sleep": Timed,
    "Pause": Nothing,
}


def read(path: Path) -> Workflow:
    """A workflow file. Raises BadWorkflow, also for a task that is not known."""
    try:
        workflow = msgspec.convert(yaml.safe_load(path.read_text()), Workflow)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise BadWorkflow(f"{path.name}: {error}") from None
    for task in workflow.tasks:
        params_of(task)
    return workflow


def params_of(task: Task) -> Params:
    """The parameters, checked. Raises BadWorkflow."""
    if task.type not in TYPES:
        raise BadWorkflow(f"task {task.id}: the type {task.type} is not known")
    try:
        return msgspec.convert(task.params, TYPES[task.type], strict=False)
    except msgspec.ValidationError as error:
        raise BadWorkflow(f"task {task.id} ({task.type}): {error}") from None


def seconds(duration: str) -> float:
    """Seconds of a Go duration such as 1m30s; 0 for an empty one. Raises BadWorkflow."""
    parts = _DURATION.findall(duration)
    if "".join(number + unit for number, unit in parts) != duration:
        raise BadWorkflow(f"{duration!r} is no duration")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def labels(written: dict[str, Any]) -> dict[str, str]:
    """Labels as strings: YAML reads `true` and 8 as other types."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in written.items()
    }
