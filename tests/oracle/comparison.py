"""What Phalanx says about the nodes for a single pod, from the same manifests, and whether that agrees."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from phalanx.cli.manifests.read import read_manifests
from phalanx.cli.static_cluster import StaticCluster
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.decisions import CycleResult
from phalanx.model.gangs import Gang
from phalanx.model.pods import Pod
from phalanx.model.reasons import Reason
from phalanx.model.resources import fits

from tests.oracle.plugins import Answer, Document, Plugins


class Opinion(Struct, frozen=True):
    """What Phalanx says about one pod."""

    feasible: tuple[str, ...]
    """The nodes that are eligible and have enough free; none if a plugin objects to the gang."""

    chosen: str | None
    """The node on which the cycle places the pod."""

    unsupported: bool
    """Whether the pod is refused because of a field that is not supported yet."""


class Comparison(Struct, frozen=True):
    """Both answers. `left_out`: why they are not compared; `problem`: what is wrong, empty if they agree."""

    answer: Answer
    left_out: str = ""
    problem: str = ""


def compare(plugins: Plugins, objects: Sequence[Document], pod: str) -> Comparison:
    """Compare the feasible nodes of a pod, "namespace/name", and the decision about it."""
    answer = plugins.ask(objects, pod)
    if answer.error:
        return Comparison(answer, left_out="the API server refuses it")
    said = opinion(objects, pod)
    if said.unsupported:
        return Comparison(answer, left_out="Phalanx does not support it")
    return Comparison(answer, problem=_disagreement(answer, said))


def _disagreement(answer: Answer, said: Opinion) -> str:
    if said.feasible != answer.feasible:
        refused = {name: answer.refused[name] for name in said.feasible if name in answer.refused}
        return f"Phalanx: {said.feasible}; kube-scheduler: {answer.feasible}, refuses {refused}"
    if (said.chosen is None) == bool(said.feasible) or said.chosen not in (None, *said.feasible):
        return f"feasible are {said.feasible}, but the cycle chooses {said.chosen}"
    return ""


def opinion(objects: Sequence[Document], pod: str) -> Opinion:
    """Read the manifests as `phalanx decide` does, and decide one cycle. Raises BadInput."""
    config = SchedulerConfig()
    cluster = StaticCluster(_read(objects), config=config, now=0)
    snapshot = cluster.snapshot()
    session = Session(snapshot, config)
    gang, member = _find(session, pod)
    result = decide(snapshot, config)
    rejected = session.eligibility(member).rejected
    nodes = session.nodes if session.objection(gang) is None else ()
    return Opinion(
        feasible=tuple(
            name for name in nodes if name not in rejected and fits(member.shape.requests, session.free(name))
        ),
        chosen=_chosen(result, member),
        unsupported=any(
            verdict.reason is Reason.UNSUPPORTED_FIELD and verdict.gang == gang.id
            for verdict in result.verdicts
        ),
    )


def _read(objects: Sequence[Document]) -> tuple[object, ...]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        return read_manifests([str(file)]).objects


def _find(session: Session, pod: str) -> tuple[Gang, Pod]:
    members = ((gang, member) for gang in session.gangs.values() for member in gang.members)
    return next((gang, member) for gang, member in members if str(member) == pod)


def _chosen(result: CycleResult, pod: Pod) -> str | None:
    binds = (bind for placement in result.placements for bind in placement.binds)
    return next((bind.node for bind in binds if bind.pod == pod.uid), None)
