"""The three patch types on plain JSON.

Strategic merge knows its list keys by field name alone (`containers` by name, `conditions` by type ...),
which is unambiguous for the kinds served here; lists without an entry are replaced whole.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from phalanx_simulator.embedded.apiserver.errors import ApiError, bad_request

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json-patch+json"

_LIST_KEYS: Final[Mapping[str, str]] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_PRIMITIVE_LISTS: Final = frozenset({"finalizers"})


def apply_patch(content_type: str, current: Any, patch: Any) -> Any:
    """Apply a patch to `current`.

    Raises ApiError 400 or 422.
    """
    if content_type == JSON:
        patched = json_patch(current, patch)
        if not isinstance(patched, dict):
            raise _unprocessable("what is left is no object")
        return patched
    if not isinstance(patch, dict):
        raise bad_request("the body of the patch must be a JSON object")
    return strategic_merge(current, patch) if content_type == STRATEGIC else merge(current, patch)


def merge(current: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def strategic_merge(current: Any, patch: Any) -> Any:
    """Kubernetes' strategic merge patch, with $patch, $retainKeys and $deleteFromPrimitiveList."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    result = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if name.startswith("$"):
            _apply_directive(result, name, value)
        elif value is None:
            result.pop(name, None)
        elif isinstance(value, list):
            result[name] = _merge_list(name, result.get(name) or [], value)
        else:
            result[name] = strategic_merge(result.get(name), value)
    return result


def _apply_directive(result: dict[str, Any], name: str, value: Any) -> None:
    directive, _, field = name.partition("/")
    if directive == "$deleteFromPrimitiveList":
        result[field] = [item for item in result.get(field, []) if item not in value]
    elif directive == "$retainKeys":
        for extra in [key for key in result if key not in value]:
            del result[extra]


def _merge_list(name: str, current: list[Any], patch: list[Any]) -> list[Any]:
    if name in _PRIMITIVE_LISTS:
        return [*current, *(item for item in patch if item not in current)]
    key = _LIST_KEYS.get(name)
    if key is None or not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    result = list(current)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        _merge_item(result, key, item)
    return result


def _merge_item(items: list[Any], key: str, item: dict[str, Any]) -> None:
    place = next((i for i, other in enumerate(items) if other.get(key) == item[key]), None)
    if item.get("$patch") == "delete":
        if place is not None:
            del items[place]
    elif place is None:
        items.append(strategic_merge({}, item))
    else:
        items[place] = strategic_merge(items[place], item)


def json_patch(current: Any, operations: Any) -> Any:
    """Apply a JSON patch (RFC 6902).

    Raises ApiError 422 where an operation or a test fails.
    """
    if not isinstance(operations, list):
        raise bad_request("a JSON patch must be a list of operations")
    for operation in operations:
        try:
            current = _OPERATIONS[operation["op"]](current, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            path = operation.get("path") if isinstance(operation, dict) else operation
            raise _unprocessable(f"cannot apply the operation on {path!r}: {error}") from None
    return current


def _unprocessable(why: str) -> ApiError:
    message = f"the server rejected our request due to an error in our request: {why}"
    return ApiError(422, "Invalid", message, details={})


def _parts(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError("a path starts with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _value_at(document: Any, pointer: str) -> Any:
    for part in _parts(pointer):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _edit(document: Any, parts: list[str], change: Callable[[Any, str], None]) -> Any:
    """A copy of the document with the container of the last path part changed."""
    copy = list(document) if isinstance(document, list) else dict(document)
    if len(parts) == 1:
        change(copy, parts[0])
    else:
        step: Any = int(parts[0]) if isinstance(copy, list) else parts[0]
        copy[step] = _edit(copy[step], parts[1:], change)
    return copy


def _add(document: Any, operation: dict[str, Any]) -> Any:
    value, parts = operation["value"], _parts(operation["path"])
    return _edit(document, parts, lambda container, last: _put(container, last, value)) if parts else value


def _put(container: Any, last: str, value: Any) -> None:
    if isinstance(container, list):
        container.insert(len(container) if last == "-" else int(last), value)
    else:
        container[last] = value


def _remove(document: Any, operation: dict[str, Any]) -> Any:
    return _edit(document, _parts(operation["path"]), _take)


def _take(container: Any, last: str) -> None:
    del container[int(last) if isinstance(container, list) else last]


def _replace(document: Any, operation: dict[str, Any]) -> Any:
    value, parts = operation["value"], _parts(operation["path"])

    def exchange(container: Any, last: str) -> None:
        _take(container, last)
        _put(container, last, value)

    return _edit(document, parts, exchange) if parts else value


def _move(document: Any, operation: dict[str, Any]) -> Any:
    value = _value_at(document, operation["from"])
    rest = _remove(document, {"path": operation["from"]})
    return _add(rest, {"path": operation["path"], "value": value})


def _copy(document: Any, operation: dict[str, Any]) -> Any:
    value = _value_at(document, operation["from"])
    return _add(document, {"path": operation["path"], "value": value})


def _test(document: Any, operation: dict[str, Any]) -> Any:
    if _value_at(document, operation["path"]) != operation["value"]:
        raise ValueError("the test failed")
    return document


_OPERATIONS: Final[Mapping[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
