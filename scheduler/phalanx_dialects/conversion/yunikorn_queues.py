"""`phalanx convert` for queues of YuniKorn: `queues.yaml`, as a file or in a ConfigMap, and namespaces."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from phalanx.cli.manifests.documents import Document, Source, parse
from phalanx.model.conversion.requests import read_amounts
from phalanx.model.dialects.task_groups import DOMAIN
from phalanx.model.dialects.yunikorn import queue_name
from phalanx.model.names import API_VERSION, LABEL_QUEUE

Object = dict[str, Any]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_ROOT: Final = "root"
_PARTITION: Final = "default"
_CONFIG_MAPS: Final = ("yunikorn-configs", "yunikorn-defaults")
_POLICY_GROUP: Final = "service.policyGroup"
_NO_COUNTERPART: Final = "has no counterpart"
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_CPU: Final = "vcore"

_AS_USUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "application.sort.policy": ("fifo", "stateaware"),
    "application.sort.priority": ("enabled",),
    "priority.policy": ("default",),
    "priority.offset": ("0",),
    "preemption.policy": ("default",),
    "preemption.delay": ("30s",),
    "quota.preemption.delay": ("0", "0s"),
}
"""Values of properties that ask for nothing: the defaults of YuniKorn."""

_QUOTA: Final = f"{DOMAIN}/namespace.quota"
_GUARANTEED: Final = f"{DOMAIN}/namespace.guaranteed"
_OLD_QUOTAS: Final = {f"{DOMAIN}/namespace.max.cpu": "cpu", f"{DOMAIN}/namespace.max.memory": "memory"}
_PARENT: Final = f"{DOMAIN}/parentqueue"
_MOST: Final = f"{DOMAIN}/namespace.maxApps"
_OF_NAMESPACES: Final = (_QUOTA, _GUARANTEED, *_OLD_QUOTAS, _PARENT, _MOST)


def without_queues(documents: Sequence[Document], wrong: list[str]) -> tuple[list[Document], list[Object]]:
    """The documents without those of YuniKorn's queues, and the Queues of Phalanx for these.

    Namespaces stay, with the label of their Queue. Errors go to `wrong`.
    """
    kept: list[Document] = []
    queues: list[Object] = []
    for document in documents:
        configuration = _configuration(document)
        if configuration is not None:
            queues += _queues(configuration, wrong)
        elif document.kind == "ConfigMap" and (packed := _packed(document)):
            wrong.append(
                f"{document}: binaryData[{packed}]: expected {packed.removesuffix('.gz')} as text in data"
            )
        elif document.kind == "Namespace" and any(key in _annotations(document) for key in _OF_NAMESPACES):
            queue, changed = _of_namespace(document, wrong)
            queues.append(queue)
            kept.append(changed)
        else:
            kept.append(document)
    return kept, queues


def _configuration(document: Document) -> Document | None:
    """The configuration of queues in a file without a kind or in a ConfigMap."""
    if not document.kind and "partitions" in document.value:
        return document
    data = document.value.get("data")
    if document.kind != "ConfigMap" or not isinstance(data, dict):
        return None
    key = f"{data.get(_POLICY_GROUP, 'queues')}.yaml"
    if not isinstance(data.get(key), str) or "partitions" not in data[key]:
        return None
    found = list(parse(Source(f"{document}: data[{key}]", data[key])))
    return found[0] if len(found) == 1 and "partitions" in found[0].value else None


def _packed(document: Document) -> str:
    """The key of a compressed configuration; empty for none."""
    data = document.value.get("binaryData")
    keys = data if isinstance(data, dict) else {}
    meta = document.value.get("metadata")
    is_ours = isinstance(meta, dict) and meta.get("name") in _CONFIG_MAPS
    return next((key for key in keys if is_ours and key.endswith(".yaml.gz")), "")


# --- partitions and queues ----------------------------------------------------------------------------------


def _queues(document: Document, wrong: list[str]) -> list[Object]:
    found: list[Object] = []
    errors: list[str] = []
    for number, partition in enumerate(_objects(document.value, "partitions", "", errors)):
        name = partition.get("name")
        path = f"partitions[{name if isinstance(name, str) else number}]"
        if name != _PARTITION:
            errors.append(f"{path}: {_NO_COUNTERPART}: expected the partition {_PARTITION} only")
            continue
        errors += _partition_errors(partition, path)
        for queue in _objects(partition, "queues", path, errors):
            found += _tree(queue, (), path, errors)
    wrong.extend(f"{document.source}: {error}" for error in errors)
    return found


def _objects(value: Mapping[str, Any], key: str, path: str, errors: list[str]) -> list[Object]:
    written = value.get(key, [])
    if isinstance(written, list) and all(isinstance(each, dict) for each in written):
        return written
    errors.append(f"{path}{path and '.'}{key}: expected a list of objects")
    return []


def _partition_errors(partition: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, value in partition.items():
        if key in ("name", "queues") or (key == "preemption" and value == {"enabled": True}):
            continue
        if key == "placementrules":
            yield from _rule_errors(value, f"{path}.{key}")
        elif key == "preemption":
            yield f"{path}.{key}: {_NO_COUNTERPART}: take preempt out of the actions of the configuration"
        else:
            yield f"{path}.{key}: {_NO_COUNTERPART}"


def _rule_errors(rules: Any, path: str) -> Iterator[str]:
    """The queue that a pod names is used, as by the rule `provided`."""
    for index, rule in enumerate(rules if isinstance(rules, list) else [rules]):
        others = {key: value for key, value in rule.items() if (key, value) != ("create", False)}
        if str(others.pop("name", "")).lower() == "provided" and not others:
            continue
        hint = f"a pod, its PodGroup or the label {LABEL_QUEUE} of its namespace names a queue that exists"
        yield f"{path}[{index}]: {_NO_COUNTERPART}: {hint}"


def _tree(queue: Object, around: tuple[str, ...], path: str, errors: list[str]) -> Iterator[Object]:
    """The Queues of a queue and of those inside it; the queue `root` is none."""
    name = str(queue.get("name", "")).lower()
    names = around if not around and name == _ROOT else (*around, name)
    path = f"{path}.queues[{'.'.join((_ROOT, *names))}]"
    inside = _objects(queue, "queues", path, errors)
    spec: Object = {}
    if len(names) > 1:
        spec["parent"] = ".".join(names[:-1])
    errors += _into(spec, queue, inside, path)
    if names:
        whole = ".".join(names)
        if "." in name or not _NAME.fullmatch(whole):
            errors.append(f"{path}.name: expected a path of lower-case letters, digits and '-', at most 63")
        yield {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": whole}, "spec": spec}
    elif spec:
        errors.append(f"{path}: {_NO_COUNTERPART}: {', '.join(spec)} of the queue {_ROOT}")
    for each in inside:
        yield from _tree(each, names, path.partition(".queues[")[0], errors)


def _into(spec: Object, queue: Object, inside: list[Object], path: str) -> Iterator[str]:
    """Fill the spec of a Queue; yields errors."""
    for key, value in queue.items():
        if key in ("name", "queues") or (key in ("submitacl", "adminacl") and str(value).strip() == "*"):
            continue
        if key == "resources":
            yield from _resources(spec, value, f"{path}.{key}")
        elif key == "properties":
            yield from _properties(spec, value, f"{path}.{key}")
        elif key == "parent" and (inside or value is False):
            continue
        elif key == "parent":
            yield f"{path}.{key}: {_NO_COUNTERPART}: expected queues inside, none is made by itself"
        else:
            yield f"{path}.{key}: {_NO_COUNTERPART}"


def _resources(spec: Object, written: Any, path: str) -> Iterator[str]:
    for key, value in (written if isinstance(written, dict) else {"": written}).items():
        mine = {"guaranteed": "guarantee", "max": "limit"}.get(key)
        if mine is None or not isinstance(value, dict):
            yield f"{path}.{key}: {_NO_COUNTERPART}"
            continue
        amounts = {"cpu" if name == _CPU else name: amount for name, amount in value.items()}
        yield from _amount_errors(amounts, f"{path}.{key}")
        if "cpu" in value:
            yield f"{path}.{key}.cpu: expected {_CPU}, as YuniKorn calls it"
        elif mine == "limit" and amounts and all(str(each) == "0" for each in amounts.values()):
            yield f"{path}.{key}: only zeros, which YuniKorn ignores"
        elif amounts:
            spec[mine] = amounts


def _amount_errors(amounts: Mapping[str, Any], path: str) -> list[str]:
    wrong = [f"{path}.{name}: expected an amount" for name, each in amounts.items() if not _is_amount(each)]
    if not wrong:
        read_amounts(amounts, path, wrong)
    return wrong


def _is_amount(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _properties(spec: Object, written: Any, path: str) -> Iterator[str]:
    """A queue with a fence has the priority of its offset, whatever the priorities of its pods."""
    values = {
        key: str(value).lower() for key, value in (written if isinstance(written, dict) else {}).items()
    }
    if not isinstance(written, dict):
        yield f"{path}: expected an object"
    if values.get("priority.policy") == "fence":
        del values["priority.policy"]
        offset = values.pop("priority.offset", "0")
        if not re.fullmatch(r"-?[0-9]{1,10}", offset):
            yield f"{path}[priority.offset]: expected a whole number"
        elif int(offset):
            spec["priority"] = int(offset)
    for key, value in values.items():
        if value not in _AS_USUAL.get(key, ()):
            yield f"{path}[{key}]: {value}: {_NO_COUNTERPART}"


# --- namespaces ---------------------------------------------------------------------------------------------


def _annotations(document: Document) -> Mapping[str, str]:
    meta = document.value.get("metadata")
    found = meta.get("annotations") if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def _of_namespace(document: Document, wrong: list[str]) -> tuple[Object, Document]:
    """The Queue that YuniKorn would make for a namespace, and the namespace with its label."""
    written, errors = _annotations(document), list[str]()
    name = str(document.value["metadata"].get("name"))
    limit: Object = {
        resource: written[key]
        for key, resource in _OLD_QUOTAS.items()
        if key in written and _QUOTA not in written
    }
    limit |= _quota(written, _QUOTA, errors)
    if _MOST in written:
        errors.append(f"metadata.annotations[{_MOST}]: {_NO_COUNTERPART}")
    parent = queue_name(written.get(_PARENT, ""))
    amounts = {"guarantee": _quota(written, _GUARANTEED, errors), "limit": limit}
    errors += [error for each in amounts.values() for error in _amount_errors(each, "metadata.annotations")]
    queue = f"{parent}.{name}" if parent else name
    if not _NAME.fullmatch(queue):
        errors.append(
            f"metadata.annotations[{_PARENT}]: expected a path of lower-case letters, digits and '-'"
        )
    spec: Object = {"parent": parent} if parent else {}
    spec["namespaceSelector"] = {"matchLabels": {_NAMESPACE_NAME: name}}
    spec |= {key: value for key, value in amounts.items() if value}
    changed = deepcopy(document.value)
    meta = changed["metadata"]
    meta["annotations"] = {key: value for key, value in written.items() if key not in _OF_NAMESPACES}
    meta["labels"] = {**(meta.get("labels") or {}), LABEL_QUEUE: queue}
    wrong.extend(f"{document}: {error}" for error in errors)
    made = {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": queue}, "spec": spec}
    return made, Document(document.source, document.place, changed)


def _quota(written: Mapping[str, str], key: str, errors: list[str]) -> Object:
    if key not in written:
        return {}
    try:
        found = json.loads(written[key])
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    errors.append(f"metadata.annotations[{key}]: expected amounts of resources in JSON")
    return {}
