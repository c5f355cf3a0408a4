"""Count failures of members by node: the nodes that a gang avoids, and a failure score per node.

A gang avoids a node on which a member failed, and a node that was lost or became faulty while a member ran
there. Each further failure on the node doubles the time. A member that somebody evicted did not fail. The
score counts what the node did: members that failed because of it or in a preflight check that the
configuration names, of each namespace and workload once in a half-life, and transitions of the node to
faulty. It decays with this half-life, in integers.

A failed pod counts once, when it is first seen. After a start of the scheduler, the nodes of existing failed
pods are avoided from the time of their failure, and these failures do not count for the score. With each
failure or deletion the creation time of the newest member that held a node is remembered; newer members were
created after it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from phalanx.framework.decay import decayed
from phalanx.framework.nodes.tolerations import is_on_lost_node
from phalanx.framework.retry import RetryConfig
from phalanx.framework.session import Session
from phalanx.limits import AVOIDED_GANGS_MAX, AVOIDED_NODES_MAX
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.memory import Avoided, FailedPod, NodeScore
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.model.pod_failures import PodFailure
from phalanx.model.pods import Pod, PodPhase
from phalanx.model.queues import preflight_containers

FAILURE_SCORE_MIN: Final = 100
"""Thousandths of a failure below which the score of a node is forgotten: it changes no cost."""

WORKLOADS_PER_SCORE_MAX: Final = 64
"""Workloads that are remembered for the score of a node. It has its full cost after ten."""

SCORED_NODES_MAX: Final = 20_000
"""Nodes with a failure score: more than a cluster has. Scores of deleted nodes decay."""

ONE_FAILURE = 1000
"""Scores are in thousandths of a failure."""

AvoidedNodes = Mapping[NodeName, Avoided]

_Blame = tuple[NodeName, str]
"""A node, and the namespace and workload that it failed; empty if the node reported it itself."""


class NodeFailures(Struct, frozen=True):
    """The failures that the next cycle remembers; this cycle uses `avoided` too."""

    avoided: Mapping[GangId, AvoidedNodes]
    failed: Mapping[PodUid, FailedPod]
    deleting: Mapping[PodUid, int]
    scores: Mapping[NodeName, NodeScore]

    def nodes_to_avoid(self, gang: GangId) -> frozenset[NodeName]:
        """Nodes that this gang uses only if it fits nowhere else."""
        return frozenset(self.avoided.get(gang, {}))


def find(session: Session) -> NodeFailures:
    """The failures that this cycle sees, added to those of the last one."""
    now, memory = session.snapshot.now, session.snapshot.memory
    known = memory.failed
    avoided = {gang: _still_avoided(nodes, now) for gang, nodes in memory.avoided.items()}
    failed: dict[PodUid, FailedPod] = {}
    deleting: dict[PodUid, int] = {}
    became_faulty = () if session.health.is_open else session.health.became_faulty
    blamed: list[_Blame] = [(node, "") for node in became_faulty]
    for gang in session.incomplete:
        for pod in [pod for pod in gang.members if pod.node is not None]:
            if pod.deleting and pod.holds_node:
                deleting[pod.uid] = memory.deleting_members.get(pod.uid) or _newest_member(gang, pod)
            if pod.phase is PodPhase.FAILED:
                failed[pod.uid] = known.get(pod.uid) or FailedPod(
                    _newest_member(gang, pod), before_start=not memory.cycle
                )
                if pod.uid not in known and pod.failure is not PodFailure.DISRUPTED:
                    _avoid(avoided.setdefault(gang.id, {}), pod, now, session.config.retry)
                    blamed.extend(_blame(gang, pod, session) if memory.cycle else ())
            elif is_on_lost_node(pod, session) or _is_on_faulty_node(pod, session):
                _avoid_lost(avoided.setdefault(gang.id, {}), pod, now, session.config.retry)
    return NodeFailures(
        avoided=_bounded(avoided),
        failed=dict(sorted(failed.items())),
        deleting=dict(sorted(deleting.items())),
        scores=_scores(session, blamed),
    )


def _newest_member(gang: Gang, lost: Pod) -> int:
    """Creation time (s) of the newest member that holds a node or is this one."""
    return max(pod.created for pod in gang.members if pod.holds_node or pod is lost)


def _is_on_faulty_node(pod: Pod, session: Session) -> bool:
    """Whether the node is faulty: the reporter of the fault may drain it before any pod fails."""
    return pod.node in session.faults and not session.health.is_open


def _still_avoided(nodes: AvoidedNodes, now: int) -> dict[NodeName, Avoided]:
    return {node: avoided for node, avoided in nodes.items() if avoided.until > now}


def _avoid(nodes: dict[NodeName, Avoided], pod: Pod, now: int, retry: RetryConfig) -> None:
    assert pod.node is not None
    failures = nodes[pod.node].failures if pod.node in nodes else 0
    since = min(now, pod.ended * 1000) if pod.ended else now
    until = since + retry.avoid_node_ms(failures)
    if until > now:
        nodes[pod.node] = Avoided(until=until, failures=failures + 1)


def _avoid_lost(nodes: dict[NodeName, Avoided], pod: Pod, now: int, retry: RetryConfig) -> None:
    """Avoid a lost node; the time begins when the gang has no member on it any more."""
    assert pod.node is not None
    before = nodes.get(pod.node, Avoided(until=0, failures=1))
    nodes[pod.node] = Avoided(until=max(before.until, now + retry.avoid_node_ms(0)), failures=before.failures)


def _blame(gang: Gang, pod: Pod, session: Session) -> Iterable[_Blame]:
    is_of_node = pod.failure is not None and pod.failure.is_of_node
    if pod.node is not None and (is_of_node or _failed_preflight(gang, pod, session)):
        yield pod.node, f"{gang.namespace}/{_workload(gang, pod)}"


def _failed_preflight(gang: Gang, pod: Pod, session: Session) -> bool:
    """Whether an init container failed that the configuration or the queue of the gang names."""
    if pod.failure is not PodFailure.INIT_CONTAINER or pod.failed is None:
        return False
    of_queue = preflight_containers(session.queues.path(gang.queue))
    return pod.failed.name in (*session.config.tolerance.preflight_containers, *of_queue)


def _workload(gang: Gang, pod: Pod) -> str:
    """What stays the same when its pods are made again."""
    alone = pod.controller.name if pod.controller is not None else pod.name
    return alone if gang.kind is GangKind.POD else gang.name


def _bounded(avoided: Mapping[GangId, AvoidedNodes]) -> dict[GangId, AvoidedNodes]:
    """The gangs and nodes that are avoided longest, if there are too many."""
    longest = {gang: _longest(nodes) for gang, nodes in avoided.items() if nodes}
    if len(longest) > AVOIDED_GANGS_MAX:
        order = sorted(longest, key=lambda gang: (-max(node.until for node in longest[gang].values()), gang))
        longest = {gang: longest[gang] for gang in order[:AVOIDED_GANGS_MAX]}
    return dict(sorted(longest.items()))


def _longest(nodes: AvoidedNodes) -> AvoidedNodes:
    order = sorted(nodes, key=lambda node: (-nodes[node].until, node))
    return {node: nodes[node] for node in sorted(order[:AVOIDED_NODES_MAX])}


def _scores(session: Session, blamed: Iterable[_Blame]) -> dict[NodeName, NodeScore]:
    now, half_life = session.snapshot.now, session.config.tolerance.failure_half_life_ms
    scores = dict(session.snapshot.memory.scores)
    for node, workload in blamed:
        before = scores.get(node, NodeScore(score=0, at=now))
        counted = {each: at for each, at in before.counted.items() if now - at < half_life}
        if workload in counted or len(counted) >= WORKLOADS_PER_SCORE_MAX:
            continue
        if workload:
            counted[workload] = now
        score = decayed(before.score, now - before.at, half_life) + ONE_FAILURE
        scores[node] = NodeScore(score=score, at=now, counted=dict(sorted(counted.items())))
    left = {node: decayed(score.score, now - score.at, half_life) for node, score in scores.items()}
    kept = [node for node in scores if left[node] >= FAILURE_SCORE_MIN]
    worst = sorted(kept, key=lambda node: (-left[node], node))[:SCORED_NODES_MAX]
    return {node: scores[node] for node in sorted(worst)}
