"""Rows of kube-scheduler's table tests, put together from the calls that their plugins got."""

import copy
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct, field

Document = dict[str, Any]

_ACCEPTED: Final = ("Success", "Skip")
_REFUSED: Final = ("Unschedulable", "UnschedulableAndUnresolvable")


class Row(Struct):
    """What one plugin was asked about one pod, and what it answered."""

    test: str
    """The package, the test and its case."""
    plugin: str
    scores: bool
    """Whether the plugin was asked for scores instead of feasible nodes."""
    pod: Document
    state: str
    objects: list[Document]
    settings: dict[str, Any]
    gates: dict[str, bool]
    before: str
    """The status of PreFilter or PreScore; empty without such a call."""
    only: tuple[str, ...] | None
    """The nodes that PreFilter selected or that PreScore got."""
    nodes: dict[str, Document] = field(default_factory=dict)
    placed: list[Document] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    """The status of Filter or Score for each node."""
    points: dict[str, int] = field(default_factory=dict)
    is_changed: bool = False
    """Whether pods were added or removed after PreFilter, as in the search for victims."""

    def wanted(self) -> dict[str, bool]:
        """Whether the plugin accepts each node about which it was asked."""
        if self.before in _REFUSED:
            return dict.fromkeys(self.nodes, False)
        if self.before == "Skip":
            return dict.fromkeys(self.nodes, True)
        found = {node: status in _ACCEPTED for node, status in self.answers.items()}
        if self.only is not None:
            found.update({node: False for node in self.nodes if node not in self.only})
        return found

    def has_error(self) -> bool:
        """Whether the plugin reports an error, and no node is refused or accepted by it."""
        known = (*_ACCEPTED, *_REFUSED, "")
        return self.before not in known or any(each not in known for each in self.answers.values())


def rows(calls: Iterable[Document]) -> list[Row]:
    """All rows, in the order of the tests."""
    found: list[Row] = []
    numbers: dict[str, int] = {}
    for call in calls:
        last = found[-1] if found else None
        if call["method"] == "Changed":
            if last is not None and last.state == call["state"]:
                last.is_changed = True
            continue
        if last is None or not _continues(last, call):
            test = f"{call['package']}/{call['test']}"
            numbers[test] = numbers.get(test, 0) + 1
            last = _started(call, test if numbers[test] == 1 else f"{test}#{numbers[test]}")
            found.append(last)
        _add(last, call)
    return found


def _started(call: Document, test: str) -> Row:
    scores = call["method"] in ("PreScore", "Score")
    selected = tuple(call.get("only", ())) if call.get("isOnly") or call["method"] == "PreScore" else None
    return Row(
        test=test,
        plugin=call["plugin"],
        scores=scores,
        pod=call["pod"],
        state=call["state"],
        objects=call.get("objects", []),
        settings=call.get("settings", {}),
        gates=call.get("gates", {}),
        before=call["code"] if call["method"] in ("PreFilter", "PreScore") else "",
        only=selected,
    )


def _continues(row: Row, call: Document) -> bool:
    """Whether a call is about another node of the same row."""
    if call["method"] not in ("Filter", "Score") or row.scores != (call["method"] == "Score"):
        return False
    same_test = _case(row.test.partition("#")[0]) == _case(f"{call['package']}/{call['test']}")
    asked = {each["node"]["metadata"].get("name", "") for each in call.get("nodes", ())[-1:]}
    return (
        same_test
        and (row.plugin, row.state) == (call["plugin"], call["state"])
        and row.pod == call["pod"]
        and not asked & row.answers.keys()
        and (bool(row.before) or row.objects == call.get("objects", []))
    )


def _case(test: str) -> str:
    """The test and its case; steps of a case have names below it."""
    return "/".join(test.split("/")[:3])


def _add(row: Row, call: Document) -> None:
    """Add the nodes of a call, and its answer if it is about one node."""
    for each in call.get("nodes", ()):
        name = each["node"]["metadata"].get("name", "")
        if name not in row.nodes:
            row.nodes[name] = each["node"]
            row.placed += [_on(pod, name) for pod in each["pods"] or ()]
    if call["method"] in ("Filter", "Score") and call.get("nodes"):
        name = call["nodes"][-1]["node"]["metadata"].get("name", "")
        row.answers[name] = call["code"]
        if call["method"] == "Score":
            row.points[name] = call.get("score", 0)


def _on(pod: Document, node: str) -> Document:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


# --- names ------------------------------------------------------------------------------------------------


_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def _renamed(row: Row) -> Row:
    """The row with names that the API server accepts, wherever they stand."""
    pods = [row.pod, *row.placed]
    used = [*row.nodes, *(pod["metadata"].get(key, "") for pod in pods for key in ("name", "namespace"))]
    used += [volume.get("name", "") for pod in pods for volume in pod["spec"].get("volumes") or ()]
    used += [each["metadata"].get(key, "") for each in row.objects for key in ("name", "namespace")]
    used += [(each.get("spec") or {}).get("storageClassName") or "" for each in row.objects]
    used += [name for pod in pods for name in _named_spaces(pod)]
    new = {name: _valid(name) for name in used if name and not _NAME.fullmatch(name)}
    nodes = {
        new.get(name, name or "node"): _with_name(_replaced(node, new), new.get(name, name or "node"))
        for name, node in row.nodes.items()
    }
    placed = [_replaced(pod, new) for pod in row.placed]
    for pod in placed:
        pod["spec"]["nodeName"] = pod["spec"].get("nodeName") or "node"
    return msgspec.structs.replace(
        row,
        pod=_replaced(row.pod, new),
        nodes=nodes,
        placed=placed,
        objects=[_replaced(each, new) for each in row.objects],
    )


def real_name(name: str) -> str:
    """The name in the scenario of a node of a row."""
    if not name:
        return "node"
    return name if _NAME.fullmatch(name) else _valid(name)


def _named_spaces(pod: Document) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        for term in (*required, *(each["podAffinityTerm"] for each in preferred)):
            yield from term.get("namespaces") or ()


def _valid(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "none"


def _with_name(node: Document, name: str) -> Document:
    return {**node, "metadata": {**node["metadata"], "name": name}}


def _replaced(document: Any, new: dict[str, str]) -> Any:
    """A copy with other names; keys stay."""
    if isinstance(document, dict):
        return {key: _replaced(each, new) for key, each in document.items()}
    if isinstance(document, list):
        return [_replaced(each, new) for each in document]
    return new.get(document, document) if isinstance(document, str) else document


# --- as the API server would have stored it ---------------------------------------------------------------


_READY: Final = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
_AMPLE: Final = {"cpu": "1000", "memory": "1000Gi", "ephemeral-storage": "1000Gi", "pods": "1000"}
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_UNNAMED: Final = "asked"


class Scenario(Struct, frozen=True):
    """The objects of a row, and the pod to be placed as "namespace/name"."""

    objects: tuple[Document, ...]
    pod: str


def scenario(row: Row) -> Scenario:
    """The row with what its test leaves out and the API server requires.

    Names, containers and images; limits of extended resources; conditions of nodes, and resources of those
    that have none, unless the test is about resources; the state of bound claims.
    """
    default = "default"
    row = _renamed(row)
    pods = [_completed_pod(copy.deepcopy(row.pod), _UNNAMED)]
    taken = {_key(pods[0], default), pods[0]["metadata"].get("uid")}
    for index, placed in enumerate(row.placed):
        pod = _completed_pod(copy.deepcopy(placed), f"placed{index}")
        if _key(pod, default) in taken:
            pod["metadata"]["name"] = f"placed{index}"
        if pod["metadata"].get("uid") in taken:
            pod["metadata"].pop("uid", None)
        taken |= {_key(pod, default), pod["metadata"].get("uid")}
        pods.append(pod)
    pods[0]["spec"]["schedulerName"] = "phalanx"
    if row.plugin != "NodeName":
        pods[0]["spec"].pop("nodeName", None)
    named = [*pods, *_other_objects(row)]
    for each in named:
        if each["kind"] in _NAMESPACED and not each["metadata"].get("namespace"):
            each["metadata"]["namespace"] = default
    spaces = {each["metadata"]["namespace"] for each in named if each["kind"] in _NAMESPACED}
    spaces -= {each["metadata"]["name"] for each in named if each["kind"] == "Namespace"}
    objects = (
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}} for each in sorted(spaces)),
        *(_completed_node(node, row) for node in row.nodes.values()),
        *named[1:],
        named[0],
    )
    return Scenario(tuple(_without_nulls(each) for each in objects), _key(pods[0], default))


_NAMESPACED: Final = frozenset({"Pod", "PersistentVolumeClaim", "ResourceClaim", "CSIStorageCapacity"})
_OWNERS: Final = frozenset({"Service", "ReplicationController", "ReplicaSet", "StatefulSet"})
_ABOUT_RESOURCES: Final = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")


def _key(pod: Document, default: str) -> str:
    return f"{pod['metadata'].get('namespace') or default}/{pod['metadata']['name']}"


def _completed_pod(pod: Document, name: str) -> Document:
    pod["metadata"]["name"] = pod["metadata"].get("name") or name
    spec = pod["spec"]
    if not spec.get("containers"):
        spec["containers"] = [{}]
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            _complete_container(container, f"{kind[:4]}{index}".lower())
    for index, volume in enumerate(spec.get("volumes") or ()):
        volume["name"] = volume.get("name") or f"volume{index}"
    return pod


def _complete_container(container: Document, name: str) -> None:
    container["name"] = container.get("name") or name
    container["image"] = container.get("image") or "example.com/image"
    resources = container.get("resources") or {}
    for amounts in resources.values():
        if isinstance(amounts, dict):
            amounts.pop("pods", None)
    for resource, amount in (resources.get("requests") or {}).items():
        if resource not in _NATIVE and resource != "pods":
            resources.setdefault("limits", {}).setdefault(resource, amount)
    for port in container.get("ports") or ():
        port["containerPort"] = port.get("containerPort") or port.get("hostPort", 0)


def _completed_node(node: Document, row: Row) -> Document:
    status = copy.deepcopy(node.get("status") or {})
    allocatable = status.get("allocatable") or {}
    if row.plugin not in _ABOUT_RESOURCES:
        allocatable = _AMPLE | allocatable
    elif row.scores:
        allocatable = {"pods": _AMPLE["pods"]} | allocatable
    if allocatable:
        status |= {"allocatable": allocatable, "capacity": allocatable | (status.get("capacity") or {})}
    others = [each for each in status.get("conditions") or () if each["type"] != "Ready"]
    return {**node, "status": {**status, "conditions": [_READY, *others]}}


def _other_objects(row: Row) -> Iterator[Document]:
    """The other objects. A claim with a volume is bound, unless the test is about binding.

    Owners of pods are left out: only default spread constraints depend on them.
    """
    for each in copy.deepcopy(row.objects):
        if each["kind"] in _OWNERS or not each["metadata"].get("name"):
            continue
        is_claim = each["kind"] == "PersistentVolumeClaim" and each["spec"].get("volumeName")
        if is_claim and row.plugin != "VolumeBinding":
            each["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
            each["status"] = {**(each.get("status") or {}), "phase": "Bound"}
        yield each


def _without_nulls(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: _without_nulls(each) for name, each in document.items() if each is not None}
    if isinstance(document, list):
        return [_without_nulls(each) for each in document]
    return document
