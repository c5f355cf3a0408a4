"""From the names of files to the objects that a scheduler would see, or to all that is wrong with them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from phalanx.cli.exits import BadInput
from phalanx.cli.manifests.admission import Item, admit, complete_owners, identified, latest_time
from phalanx.cli.manifests.checker import check
from phalanx.cli.manifests.documents import Document, parse
from phalanx.cli.manifests.inputs import kind_of
from phalanx.cli.manifests.schemas import schema_of
from phalanx.cli.manifests.sources import read_sources
from phalanx.model.api.kinds import Kind, KubeObject


class Manifests(Struct, frozen=True):
    """The objects, the latest time that they mention, and remarks for the user about what was left out."""

    objects: tuple[KubeObject, ...]
    latest: datetime
    notes: tuple[str, ...]


def read_manifests(names: Sequence[str]) -> Manifests:
    """Read files, folders and standard input. Raises BadInput with every mistake that was found."""
    wrong: list[str] = []
    documents = list(_documents(names, wrong))
    inputs: list[tuple[Document, Kind]] = []
    skipped: list[Document] = []
    for document in documents:
        try:
            kind = kind_of(document)
        except BadInput as problem:
            wrong.extend(problem.lines)
        else:
            inputs.append((document, kind)) if kind else skipped.append(document)
    items = [item for document, kind in inputs for item in _decoded(document, kind, wrong)]
    wrong.extend(_twice(items))
    wrong.extend(_sharing_uids(items))
    if wrong:
        raise BadInput(*wrong)
    latest = latest_time(document for document, _ in inputs)
    return Manifests(admit(items, latest=latest), latest, tuple(_notes(skipped)))


def _documents(names: Sequence[str], wrong: list[str]) -> Iterator[Document]:
    """A text that cannot be read adds to `wrong`, and the next one is looked at."""
    for source in read_sources(names):
        try:
            yield from parse(source)
        except BadInput as problem:
            wrong.extend(problem.lines)


def _decoded(document: Document, kind: Kind, wrong: list[str]) -> Iterator[Item]:
    """One item, or none and its mistakes added to `wrong`."""
    complete_owners(document, namespaced=kind.namespaced)
    findings = check(document.value, schema_of(kind.name))
    wrong.extend(f"{document}: {finding}" for finding in findings)
    if findings:
        return
    try:
        yield document, identified(msgspec.convert(document.value, kind.struct))
    except msgspec.ValidationError as error:
        wrong.append(f"{document}: {error}")


def _twice(items: Iterable[Item]) -> Iterator[str]:
    """The same object given twice would make the result depend on which one is taken."""
    first: dict[tuple[str, str, str], Document] = {}
    for document, item in items:
        before = first.setdefault(_key(item), document)
        if before is not document:
            yield f"{document}: metadata.name: expected each object once, found it in {before.source} before"


def _sharing_uids(items: Iterable[Item]) -> Iterator[str]:
    """Of two objects with one UID only one would be decided about, and nobody would hear of the other."""
    first: dict[str, Item] = {}
    for document, item in items:
        before, other = first.setdefault(item.metadata.uid, (document, item))
        if _key(other) != _key(item):
            yield f"{document}: metadata.uid: expected a UID of its own, found that of {before}"


def _key(item: KubeObject) -> tuple[str, str, str]:
    return (type(item).__name__, item.metadata.namespace, item.metadata.name)


def _notes(skipped: Iterable[Document]) -> Iterator[str]:
    """One line a file: what was in it that no decision depends on."""
    by_source: dict[str, Counter[str]] = {}
    for document in skipped:
        by_source.setdefault(document.source, Counter())[f"{document.kind} ({document.api_version})"] += 1
    for source, counts in by_source.items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        yield f"{source}: left out, because no decision depends on it: {kinds}"
