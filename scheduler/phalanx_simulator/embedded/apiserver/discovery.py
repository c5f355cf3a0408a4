"""Discovery documents: groups, resources and version of the server."""

from collections.abc import Callable
from typing import Final

from phalanx_simulator.embedded.apiserver import errors
from phalanx_simulator.embedded.apiserver.kinds import ResourceType, Types
from phalanx_simulator.embedded.store import Object

_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_SUBRESOURCE_VERBS: Final = ("get", "patch", "update")


def version(_: Types) -> Object:
    """The document at /version."""
    return {"major": "1", "minor": "37", "gitVersion": "v1.37.0+phalanx-embedded", "platform": "python"}


def core_versions(_: Types) -> Object:
    """The document at /api."""
    return {"kind": "APIVersions", "versions": ["v1"]}


def groups(types: Types) -> Object:
    """The document at /apis."""
    versions: dict[str, list[str]] = {}
    for kind in types.all():
        if kind.group and kind.version not in versions.setdefault(kind.group, []):
            versions[kind.group].append(kind.version)
    found = [_group(name, names) for name, names in versions.items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def _group(name: str, versions: list[str]) -> Object:
    described = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": described, "preferredVersion": described[0]}


DOCUMENTS: Final[dict[str, Callable[[Types], Object]]] = {
    "/version": version,
    "/api": core_versions,
    "/apis": groups,
}


def resources(types: Types, group: str, version: str) -> Object:
    """The document at /api/v1 or /apis/group/version. Raises ApiError 404."""
    kinds = [kind for kind in types.all() if (kind.group, kind.version) == (group, version)]
    if not kinds:
        raise errors.no_such_path()
    listed = [described for kind in kinds for described in _described(kind)]
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": listed,
    }


def _described(kind: ResourceType) -> list[Object]:
    main: Object = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(_VERBS),
    }
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    found = [main]
    if kind.status:
        found.append(_subresource(kind, "status", kind.kind, _SUBRESOURCE_VERBS))
    if kind.resource == "pods":
        found.append(_subresource(kind, "binding", "Binding", ("create",)))
        eviction = _subresource(kind, "eviction", "Eviction", ("create",))
        found.append({**eviction, "group": "policy", "version": "v1"})
    return found


def _subresource(kind: ResourceType, name: str, shape: str, verbs: tuple[str, ...]) -> Object:
    return {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": shape,
        "verbs": list(verbs),
    }
