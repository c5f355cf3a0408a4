"""Read manifests into the objects that a scheduler would see, or report every error in them."""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from phalanx.cli.exits import BadInput
from phalanx.cli.manifests.admission import Item, admit, complete_references, identified, latest_time
from phalanx.cli.manifests.checker import check
from phalanx.cli.manifests.documents import Document, parse, read_sources
from phalanx.cli.manifests.findings import Finding, shown
from phalanx.cli.manifests.kubernetes_rules import violations
from phalanx.model.api.config_maps import ConfigMap
from phalanx.model.api.core import PriorityClass
from phalanx.model.api.kind import Kind
from phalanx.model.api.kinds import KINDS, OF_STATUSES, QUEUE_KINDS, READ_KINDS, kind_name, kind_named
from phalanx.model.api.meta import KubeObject
from phalanx.model.api.unknown_fields import names_unknown_fields, with_unknown_fields
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.dialects.queues import QUEUE_DIALECTS, QueueDialectName
from phalanx.model.names import API_GROUP
from phalanx.model.stored_records import RECORDS_NAME
from phalanx.model.supplies.devices.api import DeviceClass, ResourceClaim, ResourceSlice
from phalanx.model.workloads.known import KNOWN, SINGLE_VERSIONS, WorkloadKinds

_READ: Final = [KINDS[name] for name in READ_KINDS if name not in OF_STATUSES]

_BY_API_NAME: Final = {
    kind.api_name: tuple(other for other in _READ if other.api_name == kind.api_name) for kind in _READ
}
"""The kinds that are read, by their name in the API, which several API groups may have."""

_VERSION: Final = re.compile(r"v[1-9][0-9]?((alpha|beta)[1-9][0-9]?)?")
"""A version of an API."""

_CLOSE: Final = 0.84
"""Similarity from which a kind counts as misspelt: "PodGroups" does, "PodTemplate" and "NodePool" do not."""


class Manifests(Struct, frozen=True):
    """The result of reading."""

    objects: tuple[KubeObject, ...]
    latest: datetime
    """The latest time in the documents."""
    notes: tuple[str, ...]
    """Remarks for the user about ignored documents."""


def read_manifests(
    names: Sequence[str], workloads: WorkloadKinds = KNOWN, queue_dialects: Iterable[QueueDialectName] = ()
) -> Manifests:
    """Read files, folders and standard input. Raises BadInput with every error that was found.

    `workloads` may have more kinds than those that are always read. `queue_dialects`: the other projects
    whose Queues are read.
    """
    wrong: list[str] = []
    documents = list(_documents(names, wrong))
    return read_documents(documents, workloads, queue_dialects, wrong=wrong)


def read_documents(
    documents: Iterable[Document],
    workloads: WorkloadKinds = KNOWN,
    queue_dialects: Iterable[QueueDialectName] = (),
    *,
    classes: Iterable[PriorityClass] = (),
    wrong: Iterable[str] = (),
) -> Manifests:
    """The same for documents that were parsed already. Raises BadInput with these errors and all others.

    `classes`: PriorityClasses that exist beside those of the documents.
    """
    wrong = list(wrong)
    unread = set(QUEUE_KINDS) - {QUEUE_DIALECTS[name].kind for name in queue_dialects}
    inputs: list[tuple[Document, Kind]] = []
    skipped: list[Document] = []
    for document in map(as_current, documents):
        try:
            kind = kind_of(document, workloads)
        except BadInput as problem:
            wrong.extend(problem.lines)
        else:
            is_read = kind is not None and kind.name not in unread
            inputs.append((document, kind)) if kind and is_read else skipped.append(document)
    items = [item for document, kind in inputs for item in _decoded(document, kind, wrong)]
    wrong.extend(_twice(items))
    wrong.extend(_with_equal_uids(items))
    if wrong:
        raise BadInput(*wrong)
    latest = latest_time(document for document, _ in inputs)
    notes = (*_notes(skipped), *_notes_of_queues(items))
    return Manifests(admit(items, latest=latest, classes=classes), latest, notes)


def _documents(names: Sequence[str], wrong: list[str]) -> Iterator[Document]:
    """Yield the documents of all texts; the errors of a text are added to `wrong`."""
    for source in read_sources(names):
        try:
            yield from parse(source)
        except BadInput as problem:
            wrong.extend(problem.lines)


def _decoded(document: Document, kind: Kind, wrong: list[str]) -> Iterator[Item]:
    """Yield the item of a document; its errors are added to `wrong` instead."""
    complete_references(document, namespaced=kind.namespaced)
    findings = check(document.value, kind) or violations(kind.name, document.value)
    wrong.extend(f"{document}: {finding}" for finding in findings)
    if findings:
        return
    try:
        item = msgspec.convert(document.value, kind.struct)
        if isinstance(item, WorkloadObject):
            item = replace(item, kind_name=kind.name)
        if names_unknown_fields(kind.struct):
            item = with_unknown_fields(item, document.value.get("spec"))
        yield document, identified(item, kind)
    except msgspec.ValidationError as error:
        wrong.append(f"{document}: {error}")


def _twice(items: Iterable[Item]) -> Iterator[str]:
    """Yield an error for each object that is given twice, because the result would be ambiguous."""
    first: dict[tuple[str, str, str], Document] = {}
    for document, item in items:
        before = first.setdefault(_key(item), document)
        if before is not document:
            yield f"{document}: metadata.name: expected each object once, found it in {before.source} before"


def _with_equal_uids(items: Iterable[Item]) -> Iterator[str]:
    """Yield an error for each UID of two objects, of which one would be ignored silently."""
    first: dict[str, Item] = {}
    for document, item in items:
        before, other = first.setdefault(item.metadata.uid, (document, item))
        if _key(other) != _key(item):
            yield f"{document}: metadata.uid: expected a unique UID, found that of {before}"


def _key(item: KubeObject) -> tuple[str, str, str]:
    return (kind_name(item), item.metadata.namespace, item.metadata.name)


def _notes(skipped: Iterable[Document]) -> Iterator[str]:
    """Yield one line per file about the documents that no decision depends on."""
    by_source: dict[str, Counter[str]] = {}
    for document in skipped:
        by_source.setdefault(document.source, Counter())[f"{document.kind} ({document.api_version})"] += 1
    for source, counts in by_source.items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        yield f"{source}: ignored, because no decision depends on it: {kinds}"


def _notes_of_queues(items: Iterable[Item]) -> Iterator[str]:
    """Yield what fields of Queues of other projects mean here; fields that are refused are in verdicts."""
    dialects = {dialect.kind: dialect for dialect in QUEUE_DIALECTS.values()}
    for document, item in items:
        if type(item).__name__ in dialects:
            notes = dialects[type(item).__name__].mapped(item).notes
            yield from (f"{document}: {note}" for note in notes)


# --- selecting documents -------------------------------------------------------------------------------


def kind_of(document: Document, workloads: WorkloadKinds = KNOWN) -> Kind | None:
    """Return the kind of a document, None if no decision depends on it. Raises BadInput for a misspelling."""
    if not document.kind:
        raise _wrong(document, "kind", "a kind such as Pod", shown(document.value.get("kind")))
    name = workloads.of_owner(document.api_version, document.kind)
    if name in workloads.by_name and name not in KINDS:
        return kind_named(name, workloads)
    if _holds_records(document):
        return KINDS[ConfigMap.__name__]
    if document.kind in _BY_API_NAME:
        return _own_kind(document, _BY_API_NAME[document.kind])
    close = [name for name in _BY_API_NAME if name.lower() == document.kind.lower()]
    close = close or difflib.get_close_matches(document.kind, _BY_API_NAME, n=1, cutoff=_CLOSE)
    if close or _group(document) == API_GROUP:
        expected = close[0] if close else "PodGroup, Queue or Topology"
        raise _wrong(document, "kind", expected, shown(document.kind))
    return None


def _holds_records(document: Document) -> bool:
    """Whether it is the one ConfigMap that decisions depend on."""
    metadata = document.value.get("metadata")
    is_named = isinstance(metadata, dict) and metadata.get("name") == RECORDS_NAME
    return is_named and (document.api_version, document.kind) == ("v1", ConfigMap.__name__)


def _own_kind(document: Document, kinds: Sequence[Kind]) -> Kind | None:
    """Return the kind with this API version; other projects have kinds with these names too."""
    for kind in kinds:
        if document.api_version == kind.api_version:
            return kind
    kind = next((kind for kind in kinds if kind.group == _group(document)), kinds[0])
    if kind.group == _group(document) and _is_another_version(kind, document):
        return kind
    is_custom = kind.group == API_GROUP and not _misspelt(_group(document))
    if _group(document) and (is_custom or _is_of_another_project(kind, document)):
        return None
    raise _wrong(document, "apiVersion", kind.api_version, shown(document.value.get("apiVersion")))


def _is_another_version(kind: Kind, document: Document) -> bool:
    """Whether it is a workload in another version of its API: the fields that are read are the same."""
    version = document.api_version.rpartition("/")[2]
    is_custom = kind.struct is WorkloadObject and "." in kind.group
    return is_custom and kind.workload not in SINGLE_VERSIONS and _VERSION.fullmatch(version) is not None


def _is_of_another_project(kind: Kind, document: Document) -> bool:
    """Whether it is a workload of another API group: several projects have a kind Job."""
    return kind.struct is WorkloadObject and kind.group != _group(document)


def _group(document: Document) -> str:
    return document.api_version.rpartition("/")[0]


def _misspelt(group: str) -> bool:
    """Whether a group is that of Phalanx or a misspelling of it."""
    return group == API_GROUP or difflib.SequenceMatcher(None, group, API_GROUP).ratio() > _CLOSE


def _wrong(document: Document, field: str, expected: str, found: str) -> BadInput:
    return BadInput(f"{document}: {Finding(field, expected, found)}")


# --- older versions of the API of devices -------------------------------------------------------------------


_DEVICES_GROUP: Final = "resource.k8s.io"
_DEVICE_KINDS: Final = tuple(struct.__name__ for struct in (DeviceClass, ResourceClaim, ResourceSlice))
_FLAT_VERSIONS: Final = ("v1beta1", "v1alpha3")
"""Versions in which the fields of `exactly` and of `basic` stand elsewhere."""

_OLDER_VERSIONS: Final = ("v1beta2", *_FLAT_VERSIONS)


def as_current(document: Document) -> Document:
    """The document in v1 if it is such an object in an older version, else the same."""
    group, _, version = document.api_version.rpartition("/")
    if group != _DEVICES_GROUP or document.kind not in _DEVICE_KINDS or version not in _OLDER_VERSIONS:
        return document
    value = {**document.value, "apiVersion": f"{_DEVICES_GROUP}/v1"}
    spec = value.get("spec")
    if version in _FLAT_VERSIONS and isinstance(spec, Mapping):
        value["spec"] = _with_nested_requests(_with_plain_devices(spec))
    return Document(document.source, document.place, value)


def _with_nested_requests(spec: Mapping[str, Any]) -> dict[str, Any]:
    devices = spec.get("devices")
    if not isinstance(devices, Mapping) or not isinstance(devices.get("requests"), list):
        return dict(spec)
    return {**spec, "devices": {**devices, "requests": [_nested(each) for each in devices["requests"]]}}


def _nested(request: object) -> object:
    if not isinstance(request, Mapping) or "firstAvailable" in request or "exactly" in request:
        return request
    exactly = {field: value for field, value in request.items() if field != "name"}
    return {**({"name": request["name"]} if "name" in request else {}), "exactly": exactly}


def _with_plain_devices(spec: Mapping[str, Any]) -> dict[str, Any]:
    devices = spec.get("devices")
    return (
        {**spec, "devices": [_plain(each) for each in devices]} if isinstance(devices, list) else dict(spec)
    )


def _plain(device: object) -> object:
    basic = device.get("basic") if isinstance(device, Mapping) else None
    if not isinstance(device, Mapping) or not isinstance(basic, Mapping):
        return device
    plain = {field: value for field, value in {**device, **basic}.items() if field != "basic"}
    if isinstance(plain.get("capacity"), Mapping):
        plain["capacity"] = {name: _capacity(amount) for name, amount in plain["capacity"].items()}
    return plain


def _capacity(amount: object) -> object:
    """An amount of v1alpha3 is the quantity itself."""
    return amount if isinstance(amount, Mapping) else {"value": amount}
