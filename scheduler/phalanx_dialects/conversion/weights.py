"""Weights of KAI's Queues, which may have fractions, as whole numbers with the same ratios."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from fractions import Fraction
from math import lcm
from typing import Final

from msgspec.structs import replace
from phalanx.cli.manifests.documents import Document

from phalanx_dialects.conversion.inputs import Object
from phalanx_dialects.conversion.templates import mapping_of

_API_VERSION: Final = "scheduling.run.ai/v2"
_WEIGHT: Final = "overQuotaWeight"
_LARGEST: Final = 1_000
"""The largest factor: what it does not make whole is rounded."""

_WEIGHT_MAX: Final = 65_535
"""As the schema of Queues says."""


def with_whole_weights(documents: Sequence[Document], notes: list[str]) -> Sequence[Document]:
    """The documents; if a weight has a fraction or is 0, all weights of KAI are multiplied by one number."""
    found = [Fraction(part[_WEIGHT]).limit_denominator(_LARGEST) for part in _parts(documents)]
    factor = lcm(*(weight.denominator for weight in found))
    if found and _has_zero(documents):
        factor = max(factor, min(_LARGEST, int(_WEIGHT_MAX / max(found))) // factor * factor)
    if factor == 1 or factor > _LARGEST:
        return documents
    documents = [replace(each, value=deepcopy(each.value)) if _is_queue(each) else each for each in documents]
    for part in _parts(documents):
        part[_WEIGHT] = float(Fraction(part[_WEIGHT]).limit_denominator(_LARGEST) * factor)
    notes.append(f"{_WEIGHT}: all are multiplied by {factor}, since weights are whole numbers of at least 1")
    return documents


def _has_zero(documents: Sequence[Document]) -> bool:
    """Whether a queue has no share of the GPUs that nobody has a quota of. Its weight here is 1."""
    specs = [mapping_of(each.value.get("spec")) for each in documents if _is_queue(each)]
    return any(mapping_of(mapping_of(spec.get("resources")).get("gpu")).get(_WEIGHT) == 0 for spec in specs)


def _is_queue(document: Document) -> bool:
    return (document.api_version, document.kind) == (_API_VERSION, "Queue")


def _parts(documents: Sequence[Document]) -> Iterator[Object]:
    """The quotas with a positive weight."""
    for document in filter(_is_queue, documents):
        for part in mapping_of(mapping_of(document.value.get("spec")).get("resources")).values():
            weight = part.get(_WEIGHT) if isinstance(part, dict) else None
            if isinstance(weight, int | float) and 0 < weight < float("inf"):
                yield part
