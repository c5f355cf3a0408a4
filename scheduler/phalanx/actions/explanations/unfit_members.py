"""Evidence of members that no node can take, whatever else the verdict of their gang is about."""

from collections.abc import Iterator
from itertools import islice

from phalanx.actions import formatting
from phalanx.actions.explanations.evidence import dominance
from phalanx.actions.limits import EVIDENCE_BATCHES_MAX, EVIDENCE_LINES_MAX
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import ShapeKey
from phalanx.model.pods import Pod
from phalanx.model.reasons import Evidence
from phalanx.model.resources import largest


def unfit_members(gang: Gang, session: Session) -> tuple[Evidence, ...]:
    """The names of waiting members that no node can take, and why; those with the same causes together.

    None for a gang of one pod, which its verdict is about.
    """
    if len(gang.members) == 1:
        return ()
    by_shape: dict[ShapeKey, list[Pod]] = {}
    for pod in gang.members:
        if pod.is_waiting:
            by_shape.setdefault(pod.shape.key, []).append(pod)
    unfit = (pods for pods in by_shape.values() if not session.can_run(pods[0]))
    by_causes: dict[str, list[Pod]] = {}
    for pods in islice(unfit, EVIDENCE_BATCHES_MAX):
        by_causes.setdefault(formatting.listed(_causes(pods[0], session)), []).extend(pods)
    found = [
        Evidence(formatting.named_pods(pods), f"can run on no node: {causes}")
        for causes, pods in by_causes.items()
    ]
    return tuple(found[:EVIDENCE_LINES_MAX])


def _causes(pod: Pod, session: Session) -> Iterator[str]:
    """The nodes that are excluded, by reason, and what is too little on the others."""
    rejected = session.eligibility(pod)
    yield from (f"{count} {reason}" for reason, count in rejected.count_by_reason())
    eligible = [state.node for name, state in session.nodes.items() if name not in rejected.rejected]
    most = largest(node.allocatable for node in eligible)
    requests = pod.shape.requests
    short = [name for name in sorted(requests, key=dominance) if requests[name] > most.get(name, 0)]
    for name in short if eligible else ():
        asked = formatting.amount(name, requests[name], up=True)
        has = formatting.amount(name, most.get(name, 0))
        yield f"requests {asked}, and the largest eligible node has {has}"
    if eligible and not short:
        yield f"no eligible node has all of {formatting.amounts(requests)}"
