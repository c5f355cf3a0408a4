"""Which documents are inputs of a decision: the kinds that the cache reads. Misspelt ones are refused."""

import difflib
from typing import Final

from phalanx.cli.exits import BadInput
from phalanx.cli.manifests.documents import Document
from phalanx.cli.manifests.findings import Finding, shown
from phalanx.model.api.kinds import KINDS, WATCHED_KINDS, Kind
from phalanx.model.names import API_GROUP

_CLOSE: Final = 0.84
"""Similarity from which a kind counts as misspelt: "PodGroups" is, "PodTemplate" and "NodePool" are not."""


def kind_of(document: Document) -> Kind | None:
    """The kind of an input, None for what no decision looks at. Raises BadInput for what looks misspelt."""
    if not document.kind:
        raise _wrong(document, "kind", "a kind such as Pod", shown(document.value.get("kind")))
    if document.kind in WATCHED_KINDS:
        return _ours(document, KINDS[document.kind])
    close = [name for name in WATCHED_KINDS if name.lower() == document.kind.lower()]
    close = close or difflib.get_close_matches(document.kind, WATCHED_KINDS, n=1, cutoff=_CLOSE)
    if close or _group(document) == API_GROUP:
        expected = close[0] if close else "PodGroup, Queue or Topology"
        raise _wrong(document, "kind", expected, shown(document.kind))
    return None


def _ours(document: Document, kind: Kind) -> Kind | None:
    """Other projects have kinds of these names too, in groups of their own; they are not read yet."""
    if document.api_version == kind.api_version:
        return kind
    is_custom = kind.group == API_GROUP
    if is_custom and _group(document) and not _misspelt(_group(document)):
        return None
    raise _wrong(document, "apiVersion", kind.api_version, shown(document.value.get("apiVersion")))


def _group(document: Document) -> str:
    return document.api_version.rpartition("/")[0]


def _misspelt(group: str) -> bool:
    """Whether a group is ours, or rather meant to be."""
    return group == API_GROUP or difflib.SequenceMatcher(None, group, API_GROUP).ratio() > _CLOSE


def _wrong(document: Document, field: str, expected: str, found: str) -> BadInput:
    return BadInput(f"{document}: {Finding(field, expected, found)}")
