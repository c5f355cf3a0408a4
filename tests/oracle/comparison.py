"""What Phalanx says about the nodes for a single pod, from the same manifests, and whether that agrees."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from phalanx.actions.nodes.resource_projection import free_amounts, projections_for
from phalanx.cli.manifests.read import read_manifests
from phalanx.cli.static_cluster import StaticCluster
from phalanx.cycle import decide
from phalanx.framework.config import PluginConfig, SchedulerConfig
from phalanx.framework.nodes.affinity import label_value
from phalanx.framework.session import Session
from phalanx.model.api.meta import KubeObject
from phalanx.model.decisions import CycleResult
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName
from phalanx.model.pods import Pod
from phalanx.model.reasons import Reason
from phalanx.model.resources import capacity_amount, fits
from phalanx.model.supplies.known import requested
from phalanx.rules.topology_spread import TopologySpreadRule

from tests.oracle.plugins import Answer, Document, Plugins
from tests.oracle.preferred_spread import SPREAD_WEIGHT, PreferredSpread

_PRICES: Final = {"InterPodAffinity": 1, "NodeAffinity": 1, "TaintToleration": -100}
"""What a point of the score of each plugin is worth."""


class Opinion(Struct, frozen=True):
    """What Phalanx says about one pod."""

    feasible: tuple[str, ...]
    """The nodes that are eligible and have enough free; none if a plugin objects to the gang."""

    chosen: str | None
    """The node on which the cycle places the pod."""

    costs: dict[str, int]
    """What a node costs the pod; nodes without a cost are left out."""

    unsupported: bool
    """Whether the pod is refused because of a field that is not supported yet."""


class Comparison(Struct, frozen=True):
    """Both answers. `left_out`: why they are not compared; `problem`: what is wrong, empty if they agree."""

    answer: Answer
    left_out: str = ""
    problem: str = ""
    costs: tuple[tuple[str, int], ...] = ()
    """What Phalanx says that nodes cost."""


def compare(plugins: Plugins, objects: Sequence[Document], pod: str, *, hard_weight: int = 1) -> Comparison:
    """Compare the feasible nodes of a pod, "namespace/name", their costs, and the decision about it.

    `hard_weight`: the argument `hardPodAffinityWeight` of both.
    """
    answer = plugins.ask(objects, pod, {"hardPodAffinityWeight": hard_weight})
    if answer.error:
        return Comparison(answer, left_out="the API server refuses it")
    if shares_space(objects, pod):
        return Comparison(answer, left_out="its claims fit the published space one by one, not together")
    arguments = {"hardPodAffinityWeight": hard_weight}
    config = SchedulerConfig(
        plugins=(
            PluginConfig("pod-affinity", arguments=arguments),
            PluginConfig("topology-spread", arguments={"scheduleAnywayWeight": SPREAD_WEIGHT}),
        )
    )
    said = opinion(objects, pod, config)
    if said.unsupported:
        return Comparison(answer, left_out="Phalanx does not support it")
    problem = _disagreement(answer, said) or _of_costs(answer, said, PreferredSpread.of(objects, pod, answer))
    return Comparison(answer, problem=problem, costs=tuple(sorted(said.costs.items())))


def _requested(claim: Document) -> Mapping[str, str]:
    found: Mapping[str, str] = claim["spec"].get("resources", {}).get("requests", {})
    return found


def shares_space(objects: Sequence[Document], pod: str) -> bool:
    """Whether some published space holds each claim of the pod without a volume, but not all together.

    kube-scheduler compares each claim with the space alone, so it accepts a node on which only one of the
    volumes can be provisioned. Phalanx counts all of them.
    """
    asker = next((each for each in objects if each["kind"] == "Pod" and _key(each) == pod), None)
    volumes = (asker or {}).get("spec", {}).get("volumes") or ()
    mounted = {
        each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each
    }
    asked: dict[str, list[int]] = {}
    for each in objects:
        if each["kind"] != "PersistentVolumeClaim" or each["spec"].get("volumeName"):
            continue
        namespace, name = _key(each).split("/")
        if name in mounted and namespace == pod.split("/")[0]:
            size = capacity_amount("storage", _requested(each).get("storage", "0"))
            asked.setdefault(each["spec"].get("storageClassName", ""), []).append(size)
    for each in objects:
        if each["kind"] == "CSIStorageCapacity" and each.get("capacity"):
            sizes = asked.get(each["storageClassName"], [])
            space = capacity_amount("storage", each["capacity"])
            if len(sizes) > 1 and max(sizes) <= space < sum(sizes):
                return True
    return False


def _key(each: Document) -> str:
    metadata = each["metadata"]
    return f"{metadata.get('namespace', 'default')}/{metadata['name']}"


def _of_costs(answer: Answer, said: Opinion, spread: PreferredSpread) -> str:
    """What is wrong about the costs.

    A node costs what it scores less than another one: the weights of terms that match, and 100 for each
    taint. What remains is the cost of preferred spread constraints.
    """
    by_plugin = {name: answer.scores.get(name, {}) for name in _PRICES}
    sums = {
        node: said.costs.get(node, 0)
        + sum(
            price * scores.get(node, 0)
            for price, scores in zip(_PRICES.values(), by_plugin.values(), strict=True)
        )
        for node in answer.feasible
    }
    if problem := spread.disagreement(sums):
        return f"costs {said.costs} do not follow from the scores {by_plugin}: {problem}"
    chosen = said.costs.get(said.chosen, 0) if said.chosen is not None else 0
    cheapest = min([said.costs.get(node, 0) for node in answer.feasible], default=0)
    return f"a node that costs {chosen} is chosen, not one for {cheapest}" if chosen != cheapest else ""


def _disagreement(answer: Answer, said: Opinion) -> str:
    if said.feasible != answer.feasible:
        refused = {name: answer.refused[name] for name in said.feasible if name in answer.refused}
        return f"Phalanx: {said.feasible}; kube-scheduler: {answer.feasible}, refuses {refused}"
    if (said.chosen is None) == bool(said.feasible) or said.chosen not in (None, *said.feasible):
        return f"feasible are {said.feasible}, but the cycle chooses {said.chosen}"
    return ""


def opinion(objects: Sequence[Document], pod: str, config: SchedulerConfig) -> Opinion:
    """Read the manifests as `phalanx decide` does, and decide one cycle. Raises BadInput."""
    cluster = StaticCluster(read_objects(objects), config=config, now=0)
    snapshot = cluster.snapshot()
    session = Session(snapshot, config)
    gang, member = _find(session, pod)
    result = decide(snapshot, config)
    eligibility = session.eligibility(member)
    rejected = eligibility.rejected
    nodes = session.nodes if session.objection(gang) is None else ()
    projections = projections_for(session, [member])
    (asked,), free = requested(projections, [member]), free_amounts(projections, session)
    fitting = [name for name in nodes if name not in rejected and fits(asked, free(name))]
    return Opinion(
        feasible=tuple(name for name in fitting if _is_spread(session, gang, name)),
        chosen=_chosen(result, member),
        costs={str(node): cost for node, cost in eligibility.cost.items()},
        unsupported=any(
            verdict.reason is Reason.UNSUPPORTED_FIELD and verdict.gang == gang.id
            for verdict in result.verdicts
        ),
    )


def _is_spread(session: Session, gang: Gang, node: NodeName) -> bool:
    """Whether the spread constraints of a single pod allow the node."""
    rules = [rule for rule in session.hooks.rules(gang) if isinstance(rule, TopologySpreadRule)]
    for rule in rules:
        counts = dict(rule.existing)
        value = label_value(session.nodes[node].node.labels, rule.key)
        least = min(counts.values(), default=0) if len(counts) >= rule.min_domains else 0
        if counts.get(value, 0) + bool(rule.others) - least > rule.max_skew:
            return False
    return True


def read_objects(objects: Sequence[Document]) -> tuple[KubeObject, ...]:
    """The objects as `phalanx decide` reads them. Raises BadInput."""
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
