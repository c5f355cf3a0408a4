"""An in-memory API server: `handle` answers requests, `watch` opens watches.

It follows the real server's rules for what a scheduler, its tests and its demo use; `tests/conformance` runs
the same cases against both. Not here: schemas of CustomResourceDefinitions are not enforced, no server-side
apply, no dry run, no Table output, no authorization beyond a token (see http.py). No asyncio; time comes from
a Clock.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from phalanx.clock import Clock
from phalanx.ports import Response

from phalanx_simulator.embedded.apiserver import discovery, errors, patches
from phalanx_simulator.embedded.apiserver.errors import ApiError
from phalanx_simulator.embedded.apiserver.events import shown, stored
from phalanx_simulator.embedded.apiserver.kinds import CRDS, Types, shipped_crds, types_of
from phalanx_simulator.embedded.apiserver.lists import encode_page, list_page, wire
from phalanx_simulator.embedded.apiserver.objects import Stamps
from phalanx_simulator.embedded.apiserver.pods import SUCCESS
from phalanx_simulator.embedded.apiserver.registry import Deleted, Registry
from phalanx_simulator.embedded.apiserver.requests import Request, Target, target_of
from phalanx_simulator.embedded.apiserver.validation import check_options, check_shape
from phalanx_simulator.embedded.apiserver.watches import Deliver, Watch, open_watch
from phalanx_simulator.embedded.store import Change, ChangeType, Entry, Object, Store

_JSON_HEADERS: Final = {"content-type": "application/json"}
_HEALTH_PATHS: Final = ("/healthz", "/livez", "/readyz")
_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PATCHES: Final = (patches.JSON, patches.MERGE)


class ApiServer:
    """The embedded API server.

    Checks read its `store` directly.
    """

    def __init__(self, *, clock: Clock, seed: int = 0) -> None:
        self.store = Store()
        self.types = Types()
        self.registry = Registry(store=self.store, stamps=Stamps(clock=clock, seed=seed))
        self.store.subscribe(CRDS.resource, self._serve_crd)
        self._create_first_objects()

    def handle(self, request: Request) -> Response:
        """Answer one request; a refusal is an answer too."""
        try:
            return self._answer(request)
        except ApiError as error:
            return json_response(error.status, status=error.code)

    def watch(self, request: Request, deliver: Deliver) -> Watch | Response:
        """Open a watch that passes lines to `deliver`, starting during this call.

        Returns the error response if it is refused.
        """
        try:
            return open_watch(self.store, target_of(request.path, self.types), request, deliver)
        except ApiError as error:
            return json_response(error.status, status=error.code)

    def _answer(self, request: Request) -> Response:
        if request.path in _HEALTH_PATHS:
            return Response(200, b"ok", {"content-type": "text/plain"})
        path = request.path.rstrip("/")
        if path in discovery.DOCUMENTS:
            return json_response(discovery.DOCUMENTS[path](self.types))
        if path == "/api/v1" or (path.startswith("/apis/") and path.count("/") == 3):
            group, version = path.split("/")[-2:]
            return json_response(discovery.resources(self.types, "" if group == "api" else group, version))
        if "dryRun" in request.query:
            raise errors.bad_request("the embedded API server does not support dryRun")
        return self._answer_resource(target_of(path, self.types), request)

    def _answer_resource(self, target: Target, request: Request) -> Response:
        if target.subresource:
            verbs = _SUBRESOURCES.get(target.subresource, {})
        else:
            verbs = _ON_OBJECT if target.name else _ON_COLLECTION
        if not verbs or not _is_served(target):
            raise errors.no_such_path()
        verb = verbs.get(request.method)
        if verb is None:
            raise errors.method_not_allowed()
        return verb(self, target, request)

    def get(self, target: Target, request: Request) -> Response:
        """GET of an object or its status."""
        return self._show(target, self.registry.get(target))

    def list(self, target: Target, request: Request) -> Response:
        """GET of a collection."""
        page = list_page(self.store, target, request)
        return Response(200, encode_page(target.type, page), _JSON_HEADERS)

    def create(self, target: Target, request: Request) -> Response:
        """POST to a collection."""
        new = request.json()
        _check_kind(target, new)
        if target.type.namespaced and not target.namespace:
            raise errors.bad_request("an empty namespace may not be set during creation")
        return self._show(target, self.registry.create(target, stored(target.type, new)), status=201)

    def replace(self, target: Target, request: Request) -> Response:
        """PUT of an object."""
        new = self._replacement(target, request)
        return self._show(target, self.registry.update(target, lambda _: new))

    def replace_status(self, target: Target, request: Request) -> Response:
        """PUT of a status."""
        new = self._replacement(target, request)
        return self._show(target, self.registry.update_status(target, lambda _: new))

    def patch(self, target: Target, request: Request) -> Response:
        """PATCH of an object."""
        return self._show(target, self.registry.update(target, _patching(target, request)))

    def patch_status(self, target: Target, request: Request) -> Response:
        """PATCH of a status."""
        return self._show(target, self.registry.update_status(target, _patching(target, request)))

    def bind(self, target: Target, request: Request) -> Response:
        """POST of a Binding."""
        binding = request.json()
        check_options("Binding", binding)
        self.registry.bind(target, binding)
        return json_response(SUCCESS, status=201)

    def evict(self, target: Target, request: Request) -> Response:
        """POST of an Eviction."""
        eviction = request.json()
        check_options("Eviction", eviction)
        self.registry.evict(target, eviction)
        return json_response(SUCCESS, status=201)

    def finalize(self, target: Target, request: Request) -> Response:
        """PUT of a namespace's finalizers."""
        new = self._replacement(target, request)
        return self._show(target, self.registry.finalize(target, lambda _: new))

    def delete(self, target: Target, request: Request) -> Response:
        """DELETE of an object."""
        deleted = self.registry.delete(target, _delete_options(request))
        if target.type.returns_deleted or not deleted.gone:
            return self._show(target, deleted.entry)
        return json_response(_deletion_status(target, deleted))

    def delete_collection(self, target: Target, request: Request) -> Response:
        """DELETE of a collection."""
        options = _delete_options(request)
        page = list_page(self.store, target, request)
        for entry in page.entries:
            self.registry.delete(Target(target.type, entry.key.namespace, entry.key.name), options)
        return Response(200, encode_page(target.type, page), _JSON_HEADERS)

    def _replacement(self, target: Target, request: Request) -> Object:
        new = request.json()
        _check_kind(target, new)
        check_shape(target.type, new)
        self.registry.check_uid(target, (new.get("metadata") or {}).get("uid", ""))
        return stored(target.type, new)

    def _show(self, target: Target, entry: Entry, *, status: int = 200) -> Response:
        return Response(status, wire(target.type, entry), _JSON_HEADERS)

    def _serve_crd(self, change: Change) -> None:
        update = self.types.discard if change.type is ChangeType.DELETED else self.types.add
        for kind in types_of(change.entry.data):
            update(kind)

    def _create_first_objects(self) -> None:
        for name in _NAMESPACES:
            self._create("", "namespaces", {"metadata": {"name": name}})
        for name, value in _SYSTEM_PRIORITIES.items():
            self._create("scheduling.k8s.io", "priorityclasses", {"metadata": {"name": name}, "value": value})
        for crd in shipped_crds():
            self._create(CRDS.group, CRDS.plural, crd)

    def _create(self, group: str, plural: str, new: Object) -> None:
        kind = self.types.find(group, "v1", plural)
        if kind is not None:
            self.registry.create(Target(kind), new)


Verb = Callable[[ApiServer, Target, Request], Response]

_ON_COLLECTION: Final[dict[str, Verb]] = {
    "GET": ApiServer.list,
    "POST": ApiServer.create,
    "DELETE": ApiServer.delete_collection,
}
_ON_OBJECT: Final[dict[str, Verb]] = {
    "GET": ApiServer.get,
    "PUT": ApiServer.replace,
    "PATCH": ApiServer.patch,
    "DELETE": ApiServer.delete,
}
_SUBRESOURCES: Final[dict[str, dict[str, Verb]]] = {
    "status": {"GET": ApiServer.get, "PUT": ApiServer.replace_status, "PATCH": ApiServer.patch_status},
    "binding": {"POST": ApiServer.bind},
    "eviction": {"POST": ApiServer.evict},
    "finalize": {"PUT": ApiServer.finalize},
}
_SUBRESOURCE_OWNERS: Final = {"binding": "pods", "eviction": "pods", "finalize": "namespaces"}


def json_response(body: Object, *, status: int = 200) -> Response:
    """An answer with a JSON object as its body."""
    return Response(status, msgspec.json.encode(body), _JSON_HEADERS)


def _is_served(target: Target) -> bool:
    if target.subresource == "status":
        return target.type.status
    return target.type.resource == _SUBRESOURCE_OWNERS.get(target.subresource, target.type.resource)


def _check_kind(target: Target, new: Object) -> None:
    kind = target.type
    if kind.custom and not (new.get("apiVersion") and new.get("kind")):
        raise errors.bad_request(f"Object 'Kind' or 'apiVersion' is missing (must be of type {kind.kind})")
    for field, wanted in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if new.get(field, wanted) != wanted:
            message = f"the {field} in the data ({new[field]}) does not match the expected {field} ({wanted})"
            raise errors.bad_request(message)


def _patching(target: Target, request: Request) -> Callable[[Object], Object]:
    content_type = request.content_type.partition(";")[0].strip()
    accepted = _PATCHES if target.type.custom else (*_PATCHES, patches.STRATEGIC)
    if content_type not in accepted:
        raise errors.unsupported_media_type(accepted)
    patch = request.any_json()

    def change(current: Object) -> Object:
        patched = patches.apply_patch(content_type, shown(target.type, current), patch)
        return stored(target.type, patched)

    return change


def _delete_options(request: Request) -> Object:
    """DeleteOptions from the body, completed from the query. Raises ApiError 400."""
    options = request.json() if request.body else {}
    grace = request.number("gracePeriodSeconds")
    if grace is not None:
        options.setdefault("gracePeriodSeconds", grace)
    if request.query.get("propagationPolicy"):
        options.setdefault("propagationPolicy", request.query["propagationPolicy"])
    check_options("DeleteOptions", options)
    return options


def _deletion_status(target: Target, deleted: Deleted) -> Object:
    details = {"name": target.name, "group": target.type.group, "kind": target.type.plural}
    details["uid"] = deleted.entry.data["metadata"]["uid"]
    shown = {name: value for name, value in details.items() if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": shown}
