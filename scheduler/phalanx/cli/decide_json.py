"""The JSON output of `phalanx decide`; `decide.schema.json` is its schema."""

from collections.abc import Iterable
from typing import Any

import msgspec

from phalanx.model.decisions import Bind, CycleResult, Placement
from phalanx.model.reasons import Verdict


def report(results: Iterable[CycleResult]) -> bytes:
    """Encode the cycles that decided something, and the last one, as indented JSON.

    The bytes are the same for the same results.
    """
    cycles = [_cycle(result) for result in results]
    return msgspec.json.format(msgspec.json.encode({"cycles": cycles}), indent=2)


def _cycle(result: CycleResult) -> dict[str, Any]:
    """One cycle, in the order of its decisions."""
    return {
        "binds": [_bind(bind) for placement in result.placements for bind in placement.binds],
        "evictions": [
            {"pod": _name(evict), "reason": evict.reason, "for": evict.beneficiary}
            for evict in result.evictions
        ],
        "nominations": [{"pod": _name(item), "node": item.node} for item in result.nominations],
        "verdicts": [_verdict(each) for each in sorted(result.verdicts, key=lambda verdict: verdict.group)],
        "certificates": [_certificate(placement) for placement in result.placements],
    }


def _bind(bind: Bind) -> dict[str, Any]:
    """The pod, its node, and the index of the GPU of which it gets a share, if any."""
    line = {"pod": _name(bind), "node": bind.node}
    return line if bind.device is None else line | {"gpuIndex": bind.device.index}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "group": verdict.group,
        "reason": verdict.reason,
        "message": verdict.message,
        "evidence": verdict.evidence,
        "nextStep": verdict.next_step,
    }


def _certificate(placement: Placement) -> dict[str, Any]:
    """Smaller is better in each term; the terms are in lexicographic order."""
    fields = msgspec.structs.asdict(placement.certificate)
    del fields["fingerprint"]
    return {"group": placement.group, **fields}


def _name(decision: Any) -> str:
    return f"{decision.namespace}/{decision.name}"
