"""Whether a decision about a gang is right: by kube-scheduler pod by pod, and by a checker of the end."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from phalanx.cli.static_cluster import StaticCluster
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig

from tests.oracle.comparison import read_objects
from tests.oracle.gangs.checker import placements, violations
from tests.oracle.gangs.clusters import GROUP, GangCase
from tests.oracle.plugins import Plugins

Document = dict[str, Any]

PLACED: Final = "placed, and accepted pod by pod"
WHOLE_ONLY: Final = "placed, and valid only as a whole"
REFUSED: Final = "refused, and no placement is valid"
REFUSED_VALID: Final = "refused, and valid only as a whole"


class GangComparison(Struct, frozen=True):
    """What was decided, in words. `problem`: what is wrong, empty if nothing is."""

    outcome: str
    problem: str = ""
    nodes: tuple[tuple[str, str], ...] = ()


def compare_gang(plugins: Plugins, case: GangCase) -> GangComparison:
    """Decide one cycle and judge it."""
    config = SchedulerConfig()
    result = decide(StaticCluster(read_objects(case.objects), config=config, now=0).snapshot(), config)
    binds = {bind.name: str(bind.node) for each in result.placements for bind in each.binds}
    if binds:
        return _judged_placement(plugins, case, binds)
    reasons = [f"{each.reason}: {each.message}" for each in result.verdicts if each.group == GROUP]
    valid = next(placements(case.objects, case.members), None)
    if valid is None:
        return GangComparison(REFUSED)
    if order_of(plugins, case.objects, valid) is None:
        return GangComparison(REFUSED_VALID)
    return GangComparison("refused", problem=f"{valid} is valid, but: {reasons}")


def _judged_placement(plugins: Plugins, case: GangCase, binds: dict[str, str]) -> GangComparison:
    nodes = tuple(sorted(binds.items()))
    if missing := set(case.members) - binds.keys():
        return GangComparison("placed in part", f"not placed: {sorted(missing)}", nodes)
    if wrong := violations(case.objects, binds):
        return GangComparison("placed", f"{binds} violates: {wrong}", nodes)
    if order_of(plugins, case.objects, binds) is not None:
        return GangComparison(PLACED, nodes=nodes)
    problem = f"kube-scheduler accepts {binds} in no order" if is_order_free(case.objects) else ""
    return GangComparison(WHOLE_ONLY, problem, nodes)


def is_order_free(objects: Sequence[Document]) -> bool:
    """Whether each valid placement can be reached pod by pod.

    With required affinity to other pods it cannot, if these pods need each other. With several spread
    constraints, or pods that count for a constraint which they do not have, a step in between may exceed a
    skew.
    """
    pods = [each for each in objects if each["kind"] == "Pod" and "nodeName" not in each["spec"]]
    has_affinity = any("podAffinity" in pod["spec"].get("affinity", {}) for pod in pods)
    constraints = [pod["spec"].get("topologySpreadConstraints", []) for pod in pods]
    is_alike = all(each == constraints[0] for each in constraints) and len(constraints[0]) <= 1
    return not has_affinity and is_alike


def order_of(
    plugins: Plugins, objects: Sequence[Document], nodes_of: Mapping[str, str]
) -> tuple[str, ...] | None:
    """An order in which kube-scheduler accepts each pod on its node; None if there is none."""
    others = [each for each in objects if each["kind"] not in ("Pod", "PodGroup")]
    pods = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Pod"}
    running = [pod for name, pod in pods.items() if name not in nodes_of]
    failed: set[frozenset[str]] = set()

    def accepted(name: str, before: tuple[str, ...]) -> bool:
        placed = [_placed(pods[each], nodes_of[each]) for each in before]
        answer = plugins.ask([*others, *running, *placed, pods[name]], f"default/{name}")
        if answer.error:
            raise ValueError(answer.error)
        return nodes_of[name] in answer.feasible

    def extended(before: tuple[str, ...]) -> tuple[str, ...] | None:
        if len(before) == len(nodes_of):
            return before
        if frozenset(before) in failed:
            return None
        for name in nodes_of:
            if name not in before and accepted(name, before) and (found := extended((*before, name))):
                return found
        failed.add(frozenset(before))
        return None

    return extended(())


def _placed(pod: Document, node: str) -> Document:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running"}}
