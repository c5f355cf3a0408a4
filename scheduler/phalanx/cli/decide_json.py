"""The JSON output of `phalanx decide`; `decide.schema.json` is its schema."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from phalanx.model.decisions import Bind, CycleResult, Evict, Placement
from phalanx.model.reasons import Evidence, Verdict


class BindLine(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod (namespace/name), its node, and the index of the GPU of which it gets a share, if any."""

    pod: str
    node: str
    gpu_index: int | None = None


class EvictionLine(Struct, frozen=True, rename={"beneficiary": "for"}):
    """An evicted pod, the reason, and the gang for which it is preempted (may be empty)."""

    pod: str
    reason: str
    beneficiary: str


class VerdictLine(Struct, frozen=True, rename="camel"):
    """Why a group waits."""

    group: str
    reason: str
    message: str
    evidence: tuple[Evidence, ...]
    next_step: str


class CertificateLine(Struct, frozen=True):
    """The quality of a placement: smaller is better in each term, terms in lexicographic order."""

    group: str
    terms: tuple[str, ...]
    objective: tuple[int, ...]
    bound: tuple[int, ...]
    proven: bool
    by: str


class CycleReport(Struct, frozen=True):
    """One cycle, in the order of its decisions."""

    binds: tuple[BindLine, ...]
    evictions: tuple[EvictionLine, ...]
    nominations: tuple[BindLine, ...]
    verdicts: tuple[VerdictLine, ...]
    certificates: tuple[CertificateLine, ...]


class Report(Struct, frozen=True):
    """The cycles that decided something, and the last one, whose verdicts are the current ones."""

    cycles: tuple[CycleReport, ...]


def report(results: Iterable[CycleResult]) -> bytes:
    """Encode the report as indented JSON: the same bytes for the same results."""
    cycles = tuple(map(_cycle, results))
    return msgspec.json.format(msgspec.json.encode(Report(cycles)), indent=2)


def _cycle(result: CycleResult) -> CycleReport:
    return CycleReport(
        binds=tuple(_bind(bind) for placement in result.placements for bind in placement.binds),
        evictions=tuple(map(_eviction, result.evictions)),
        nominations=tuple(BindLine(_name(item), item.node) for item in result.nominations),
        verdicts=tuple(map(_verdict, sorted(result.verdicts, key=lambda verdict: verdict.group))),
        certificates=tuple(map(_certificate, result.placements)),
    )


def _bind(bind: Bind) -> BindLine:
    return BindLine(_name(bind), bind.node, bind.device.index if bind.device is not None else None)


def _eviction(evict: Evict) -> EvictionLine:
    return EvictionLine(_name(evict), evict.reason, evict.beneficiary)


def _verdict(verdict: Verdict) -> VerdictLine:
    return VerdictLine(verdict.group, verdict.reason, verdict.message, verdict.evidence, verdict.next_step)


def _certificate(placement: Placement) -> CertificateLine:
    certificate = placement.certificate
    return CertificateLine(
        group=placement.group,
        terms=certificate.terms,
        objective=certificate.objective,
        bound=certificate.bound,
        proven=certificate.proven,
        by=certificate.by,
    )


def _name(decision: Any) -> str:
    return f"{decision.namespace}/{decision.name}"
