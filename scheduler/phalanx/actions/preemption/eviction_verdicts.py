"""The verdict on a gang that waits until the pods evicted for it have terminated."""

from collections.abc import Iterable

from phalanx.actions import formatting
from phalanx.actions.limits import SHOWN_VICTIMS
from phalanx.model import named_parts
from phalanx.model.gangs import Gang
from phalanx.model.pods import Pod
from phalanx.model.reasons import Evidence, Reason, Verdict


def eviction_in_progress(gang: Gang, pods: Iterable[Pod], proof: str) -> Verdict:
    """`pods` are evicted for the gang. `proof`: how good the choice of victims is; empty if unknown."""
    names = sorted({str(pod) for pod in pods})
    return Verdict(
        gang=gang.id,
        group=str(gang),
        reason=Reason.EVICTION_IN_PROGRESS,
        message=f"{formatting.pods(len(names))} evicted for it must terminate first",
        evidence=(
            *(
                Evidence(subject=named_parts.workload(name), finding="is being evicted")
                for name in names[:SHOWN_VICTIMS]
            ),
            *((Evidence(subject="choice of victims", finding=proof),) if proof else ()),
        ),
        next_step="Wait: the gang starts when they have terminated, within their grace periods",
    )
