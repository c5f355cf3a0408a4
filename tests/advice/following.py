"""Follows an advice in the manifests, as docs/reasons.md says how. It shares no code with the scheduler."""

import copy
import json
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from random import Random
from typing import Final

from tests.advice.clusters import (
    ASKER,
    GROUP_LABEL,
    HOST,
    MIN_MEMBER_LABEL,
    READY,
    Document,
)
from tests.advice.quantities import (
    NotFollowable,
    quantity,
    raise_amounts,
    requests_of,
    written,
)
from tests.advice.reading import Advice, Amounts

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def followed(
    documents: Sequence[Document], advice: Advice, ending: Sequence[str] = (), seed: int = 0
) -> list[Document]:
    """The manifests after the advice was followed. `ending`: the holders that the evidence names.

    What the advice leaves open is chosen at random.
    """
    own = [
        json.loads(json.dumps(document)) for document in documents
    ]  # no part is shared, unlike in a deepcopy
    world = _World(own, ending, Random(seed))
    for step in advice.steps or (advice,):
        _WAYS[step.kind](world, step)
    if advice.is_later:
        _end_all(world, advice)
    return world.documents


class _World:
    """The manifests that are changed."""

    def __init__(self, documents: list[Document], ending: Sequence[str], random: Random) -> None:
        self.documents = documents
        self.ending = ending
        self.random = random

    def of_kind(self, kind: str) -> list[Document]:
        return [document for document in self.documents if document["kind"] == kind]

    def named(self, kind: str, name: str) -> Document:
        for document in self.of_kind(kind):
            if document["metadata"]["name"] == name:
                return document
        raise NotFollowable(f"no {kind} {name}")

    @property
    def group(self) -> Document:
        """The PodGroup of the asker."""
        return self.named("PodGroup", ASKER)

    def asking(self) -> list[Document]:
        """The waiting pods of the asker."""
        return [pod for pod in self.of_kind("Pod") if is_asking(pod) and not is_placed(pod)]


def is_asking(document: Document) -> bool:
    """Whether this is a pod of the gang that asks."""
    return document["kind"] == "Pod" and document["metadata"]["name"].startswith(f"{ASKER}-")


def is_placed(pod: Document) -> bool:
    """Whether the pod has a node."""
    return bool(pod["spec"].get("nodeName"))


# --- events -------------------------------------------------------------------------------------------------


def _end(world: _World, advice: Advice) -> None:
    names = advice.names or tuple(world.ending)
    if advice.count and len(names) > advice.count:
        raise NotFollowable(f"{len(names)} holders instead of {advice.count}")
    for name in names:
        ended = [pod for pod in world.of_kind("Pod") if holder_of(pod) == name]
        if not ended:
            raise NotFollowable(f"no pods of {name}")
        world.documents = [document for document in world.documents if document not in ended]


def holder_of(pod: Document) -> str:
    """How a verdict calls the holder of the capacity of a placed pod."""
    metadata = pod["metadata"]
    namespace = metadata.get("namespace", "default")
    if not is_placed(pod):
        return ""
    if GROUP_LABEL in metadata["labels"]:
        return f"gang {namespace}/{metadata['labels'][GROUP_LABEL]}"
    owner = next(iter(metadata.get("ownerReferences", ())), None)
    if pod["spec"]["schedulerName"] == "phalanx" or owner is None:
        return f"pod {namespace}/{metadata['name']}"
    return f"{owner['kind']} {namespace}/{owner['name']}"


def _end_all(world: _World, advice: Advice) -> None:
    world.documents = [document for document in world.documents if not may_end(document)]


def may_end(document: Document) -> bool:
    """Whether this is a pod that may end: neither of the gang that asks nor of a DaemonSet."""
    return document["kind"] == "Pod" and not is_asking(document) and not _is_daemon(document)


def _is_daemon(document: Document) -> bool:
    owners = document["metadata"].get("ownerReferences", ())
    return any(owner["kind"] == "DaemonSet" for owner in owners)


def _free(world: _World, advice: Advice) -> None:
    for name, amounts in zip(advice.names, advice.amounts, strict=True):
        raise_amounts(world.named("Node", name)["status"]["allocatable"], amounts)


def _let_pods_fit(world: _World, advice: Advice) -> None:
    """Free capacity for so many more pods, on nodes of the domain that are chosen at random."""
    pod = world.asking()[0]
    needs = {**requests_of(pod), "pods": Fraction(1)}
    left = advice.count
    nodes = [node for node in world.of_kind("Node") if _is_in(world, node, advice)]
    world.random.shuffle(nodes)
    for node in nodes:
        empty = {name: quantity(text) for name, text in node["status"]["allocatable"].items()}
        used = used_on(world.documents, node["metadata"]["name"])
        free = {name: amount - used.get(name, 0) for name, amount in empty.items()}
        now, most = _how_many(needs, free), _how_many(needs, empty)
        more = min(left, most - now)
        if more <= 0 or not may_use(pod, node):
            continue
        left -= more
        for name, need in needs.items():
            lacking = need * (now + more) - free.get(name, 0)
            if lacking > 0:
                raise_amounts(node["status"]["allocatable"], {name: str(lacking)})
    if left:
        raise NotFollowable(f"the nodes cannot fit {left} more pods")


def _is_in(world: _World, node: Document, advice: Advice) -> bool:
    if not advice.domain:
        return True
    levels = world.of_kind("Topology")[0]["spec"]["levels"]
    names = [level["name"] for level in levels]
    keys = [level["nodeLabel"] for level in levels[: names.index(advice.level) + 1]]
    return [node["metadata"]["labels"].get(key) for key in keys] == advice.domain.split("/")


def may_use(pod: Document, node: Document) -> bool:
    """Whether selector, taints, cordon and labels for topology spread allow the node.

    Pods with affinity get no such advice.
    """
    labels, spec = node["metadata"]["labels"], node["spec"]
    selector = pod["spec"].get("nodeSelector", {})
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    if _is_unavailable(node):
        return False
    if spec.get("taints") and not pod["spec"].get("tolerations"):
        return False
    if any(each["topologyKey"] not in labels for each in pod["spec"].get("topologySpreadConstraints", ())):
        return False
    required = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED)
    if required is None:
        return True
    (rule,) = required["nodeSelectorTerms"][0]["matchExpressions"]
    return (labels.get(rule["key"]) in rule["values"]) == (rule["operator"] == "In")


def _is_unavailable(node: Document) -> bool:
    return bool(node["spec"].get("unschedulable")) or node["status"]["conditions"] != READY


def used_on(documents: Sequence[Document], node: str) -> dict[str, Fraction]:
    """The amounts that pods use on the node."""
    used: dict[str, Fraction] = {}
    for pod in documents:
        if pod["kind"] == "Pod" and pod["spec"].get("nodeName") == node:
            for name, amount in {**requests_of(pod), "pods": Fraction(1)}.items():
                used[name] = used.get(name, Fraction(0)) + amount
    return used


def _how_many(needs: dict[str, Fraction], free: dict[str, Fraction]) -> int:
    return max(0, min(int(free.get(name, Fraction(0)) // need) for name, need in needs.items() if need))


def _let_pod_run(world: _World, advice: Advice) -> None:
    """A pod with the labels that the podAffinity of the asker selects runs on the node."""
    (node,) = advice.names
    world.named("Node", node)
    terms = [
        term
        for pod in world.asking()
        for term in pod["spec"].get("affinity", {}).get("podAffinity", {}).get(_REQUIRED, ())
    ]
    if not terms:
        raise NotFollowable("no podAffinity")
    labels = {key: value for term in terms for key, value in term["labelSelector"]["matchLabels"].items()}
    world.documents.append(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "selected", "labels": labels},
            "spec": {
                "schedulerName": "default-scheduler",
                "nodeName": node,
                "containers": [{"name": "main"}],
            },
            "status": {"phase": "Running"},
        }
    )
    raise_amounts(world.named("Node", node)["status"]["allocatable"], {"pods": "1"})


# --- changes of queues and nodes ----------------------------------------------------------------------------


def _raise_limits(world: _World, advice: Advice) -> None:
    for name, amounts in zip(advice.names, advice.amounts, strict=True):
        match = re.fullmatch(
            r"limit of queue (\S+)(?: for flavor (\S+))?",
            name,
        )
        if match is None:
            raise NotFollowable(name)
        spec = world.named("Queue", match[1])["spec"]
        if match[2]:
            spec = next(flavor for flavor in spec["flavors"] if flavor["name"] == match[2])
        limits = spec.get("limit", {})
        if missing := set(amounts) - set(limits):
            raise NotFollowable(f"{name} does not limit {missing}")
        raise_amounts(limits, amounts)


def _release(world: _World, advice: Advice) -> None:
    """Less usage of a limit is like a higher limit. A guarantee is used by gangs that are not preemptible."""
    for name, amounts in zip(advice.names, advice.amounts, strict=True):
        match = re.fullmatch(r"guarantee of queue (\S+)( of flavor \S+)? for gangs that are .*", name)
        if match is None:
            _raise_limits(world, Advice("raise", names=(name,), amounts=(amounts,)))
        else:
            _let_others_be_preemptible(world, match[1], amounts)


def _let_others_be_preemptible(world: _World, queue: str, amounts: Amounts) -> None:
    """So many gangs of the queue or its descendants that they used at least these amounts."""
    left = {name: quantity(text) for name, text in amounts.items()}
    groups = [
        group
        for group in world.of_kind("PodGroup")
        if group["metadata"]["name"] != ASKER
        and "disruption" in group["spec"]
        and queue in _path_of(world, group["spec"].get("queue", "default"))
    ]
    world.random.shuffle(groups)
    for group in groups:
        if any(amount > 0 for amount in left.values()):
            del group["spec"]["disruption"]
            pods = [pod for pod in world.of_kind("Pod") if _is_in_group(pod, group)]
            for pod in pods:
                for name, amount in {**requests_of(pod), "pods": Fraction(1)}.items():
                    left[name] = left.get(name, Fraction(0)) - amount
    if any(amount > 0 for amount in left.values()):
        raise NotFollowable(f"no gangs that are not preemptible use {left} more")


def _is_in_group(pod: Document, group: Document) -> bool:
    return bool(pod["metadata"]["labels"].get(GROUP_LABEL) == group["metadata"]["name"])


def _path_of(world: _World, queue: str) -> list[str]:
    parents = {each["metadata"]["name"]: each["spec"].get("parent", "") for each in world.of_kind("Queue")}
    path = [queue]
    while parents.get(path[-1]):
        path.append(parents[path[-1]])
    return path


def _bring_back(world: _World, advice: Advice) -> None:
    for step in advice.names:
        action, _, name = step.rpartition(" ")
        node = world.named("Node", name)
        before = copy.deepcopy(node)
        if action == "uncordon":
            node["spec"].pop("unschedulable", None)
        else:
            node["status"]["conditions"] = READY
        if node == before:
            raise NotFollowable(f"{name} does not need it: {action}")


def _bring_all_back(world: _World, advice: Advice) -> None:
    names = [node["metadata"]["name"] for node in world.of_kind("Node") if _is_unavailable(node)]
    if advice.count > len(names):
        raise NotFollowable(f"{len(names)} nodes are unavailable")
    for name in names:
        _make_available(world.named("Node", name))


def _make_available(node: Document) -> None:
    node["spec"].pop("unschedulable", None)
    node["status"]["conditions"] = READY


def _label(world: _World, advice: Advice) -> None:
    """The nodes get the same value of a label that they lack."""
    (label,) = advice.fields
    lacking = [node for node in world.of_kind("Node") if label not in node["metadata"]["labels"]]
    for node in lacking if not advice.names else [world.named("Node", name) for name in advice.names]:
        if node not in lacking:
            raise NotFollowable(f"{node['metadata']['name']} has {label}")
        node["metadata"]["labels"][label] = "new"


def _remove_level(world: _World, advice: Advice) -> None:
    spec = world.named("Topology", advice.names[0])["spec"]
    spec["levels"] = [level for level in spec["levels"] if level["name"] != advice.level]


def _add_nodes(world: _World, advice: Advice) -> None:
    """Healthy nodes with the labels, taints and capacity of the named one, but with names of their own.

    If the label of the narrowest level is different on every node, they have their own values of it too. A
    label that the named node lacks is missing.
    """
    model = world.named("Node", advice.names[0])
    narrowest = world.of_kind("Topology")[0]["spec"]["levels"][-1]["nodeLabel"]
    values = [node["metadata"]["labels"].get(narrowest) for node in world.of_kind("Node")]
    values = [value for value in values if value is not None]
    is_own = len(values) > 1 and len(set(values)) == len(values)
    for number in range(advice.count):
        node = copy.deepcopy(model)
        node["metadata"]["name"] = f"new{number}"
        for label in {HOST, narrowest} if is_own else {HOST}:
            if label in node["metadata"]["labels"]:
                node["metadata"]["labels"][label] = f"new{number}"
        _make_available(node)
        for amounts in advice.amounts:
            for name, text in amounts.items():
                old = quantity(node["status"]["allocatable"].get(name, "0"))
                node["status"]["allocatable"][name] = written(name, max(old, quantity(text)))
        world.documents.append(node)
        for daemon in filter(_is_daemon, tuple(world.of_kind("Pod"))):
            if daemon["spec"]["nodeName"] == advice.names[0]:
                copied = copy.deepcopy(daemon)
                copied["metadata"]["name"] += f"-new{number}"
                copied["spec"]["nodeName"] = f"new{number}"
                world.documents.append(copied)


# --- changes of the gang ------------------------------------------------------------------------------------


def _topology(world: _World, advice: Advice) -> Document:
    """The object with the topology of the gang or of one of its subgroups."""
    spec: Document = world.group["spec"]
    if not advice.subgroup:
        return spec
    return next(part for part in spec["subGroups"] if part["name"] == advice.subgroup)


def _require(world: _World, advice: Advice) -> None:
    _topology(world, advice)["topology"]["required"] = advice.level


def _prefer(world: _World, advice: Advice) -> None:
    holder = _topology(world, advice)
    if holder["topology"].get("required") != advice.level:
        raise NotFollowable(f"{advice.level} is not required")
    holder["topology"] = {"preferred": advice.level}


def _require_none(world: _World, advice: Advice) -> None:
    holder = _topology(world, advice)
    if holder["topology"].pop("required", None) != advice.level:
        raise NotFollowable(f"{advice.level} is not required")
    holder.pop("segmentSize", None)
    if not holder["topology"]:
        del holder["topology"]


def _lower(world: _World, advice: Advice) -> None:
    pods = world.asking()
    if MIN_MEMBER_LABEL in pods[0]["metadata"]["labels"]:
        for pod in pods:
            pod["metadata"]["labels"][MIN_MEMBER_LABEL] = str(advice.count)
        return
    spec = world.group["spec"]
    if not 0 < advice.count < spec["minMember"]:
        raise NotFollowable(f"minMember is {spec['minMember']}")
    spec["minMember"] = advice.count
    for what, name, number in advice.parts:
        part = next(
            each for each in spec[f"{'subGroups' if what == 'subgroup' else 'roles'}"] if each["name"] == name
        )
        part["minMember"] = number


def _change_fields(world: _World, advice: Advice) -> None:
    for pod in world.asking():
        for field in advice.fields:
            _change_field(pod["spec"], field)


def _change_field(spec: Document, field: str) -> None:
    if field.startswith("tolerate "):
        taint, _, effect = field.removeprefix("tolerate ").rpartition(":")
        key, _, value = taint.partition("=")
        spec["tolerations"] = [*spec.get("tolerations", ()), {"key": key, "value": value, "effect": effect}]
    elif field in ("nodeSelector", "topologySpreadConstraints"):
        spec.pop(field, None)
    else:
        spec.get("affinity", {}).pop(field, None)


def _share_affinity(world: _World, advice: Advice) -> None:
    """All members that must be near pods get the terms of the first one."""
    affinities = _affinities(world)
    for affinity in affinities:
        affinity["podAffinity"] = affinities[0]["podAffinity"]


def _keep_one_affinity(world: _World, advice: Advice) -> None:
    """Only members with the terms of the first one keep them: no cycle is left."""
    first, *others = _affinities(world)
    for affinity in others:
        if affinity.get("podAffinity") != first["podAffinity"]:
            affinity.pop("podAffinity", None)


def _affinities(world: _World) -> list[Document]:
    """The affinity of all members that must be near pods."""
    found = [pod["spec"].get("affinity", {}) for pod in world.asking()]
    return [affinity for affinity in found if "podAffinity" in affinity]


def _be_preemptible(world: _World, advice: Advice) -> None:
    if world.group["spec"].pop("disruption", None) is None:
        raise NotFollowable("the gang is preemptible")


def _request(world: _World, advice: Advice) -> None:
    for pod in world.asking():
        resources = pod["spec"]["containers"][0]["resources"]
        for name, text in advice.amounts[0].items():
            for amounts in resources.values():
                if quantity(amounts.get(name, "0")) > quantity(text):
                    amounts[name] = text


_WAYS: Final[dict[str, Callable[[_World, Advice], None]]] = {
    "ends": _end,
    "all end": _end_all,
    "is free": _free,
    "pods fit": _let_pods_fit,
    "pod runs": _let_pod_run,
    "released": _release,
    "raise": _raise_limits,
    "back": _bring_back,
    "all back": _bring_all_back,
    "add nodes": _add_nodes,
    "label": _label,
    "remove level": _remove_level,
    "require": _require,
    "prefer": _prefer,
    "require none": _require_none,
    "lower": _lower,
    "fields": _change_fields,
    "same affinity": _share_affinity,
    "less affinity": _keep_one_affinity,
    "preemptible": _be_preemptible,
    "request": _request,
}
