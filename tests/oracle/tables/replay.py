"""Replays rows of kube-scheduler's table tests through Phalanx.

The oracle, which runs the whole default profile, shows whether a row keeps its meaning when it becomes a
scenario: each node that the plugin of the test refuses must be refused, each one that it accepts must be
feasible or refused by another plugin. Then Phalanx must give the same feasible nodes and costs as the oracle.
"""

from enum import StrEnum
from typing import Any, Final

from msgspec import Struct
from phalanx.cli.exits import BadInput

from tests.oracle.comparison import Comparison, compare
from tests.oracle.plugins import Plugins
from tests.oracle.tables.rows import Row, Scenario, real_name, scenario


class Outcome(StrEnum):
    """What became of a row."""

    AGREES = "agrees"
    AGREES_IN_PART = "agrees, and another plugin refuses nodes that this one accepts"
    NO_NODE = "has no node: the test looks at inner state only"
    CHANGED = "pods are added or removed after PreFilter, as in the search for victims"
    BOUND = "the pod names its node, so it is bound"
    ERROR = "the plugin reports an error"
    INVALID = "the API server would refuse an object"
    GATES = "needs a feature gate that is not at its default"
    ARGUMENTS = "needs arguments of the plugin that differ from the default profile"
    OTHER_MEANING = "the default profile answers otherwise: the test sets up what no cluster has"
    UNSUPPORTED = "Phalanx refuses the pod because of a field that it does not support yet"
    NOT_SCORED = "the scores of this plugin are not compared; the feasible nodes agree"
    DIFFERS = "differs"


AGREEING: Final = (Outcome.AGREES, Outcome.AGREES_IN_PART, Outcome.NOT_SCORED)
"""Rows that were replayed, and whose feasible nodes agree."""

_COMPARED_SCORES: Final = ("InterPodAffinity", "NodeAffinity", "TaintToleration", "PodTopologySpread")


_WITH_STRATEGY: Final = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")
"""Plugins whose tests of scores each have resources and weights of their own."""

_ARGUMENTS: Final = (
    "addedNodeSelector",
    "addedPrefSchedTerms",
    "defaultConstraints",
    "ignoredResourceGroups",
    "ignoredResources",
)


class Replay(Struct, frozen=True):
    """One row, what became of it, and details."""

    test: str
    plugin: str
    outcome: Outcome
    detail: str = ""
    scenario: Scenario | None = None


def replay(plugins: Plugins, row: Row) -> Replay:
    """Replay one row."""
    if hindrance := _hindrance(row):
        return Replay(row.test, row.plugin, hindrance)
    made = scenario(row)
    arguments: dict[str, Any] = row.settings.get("args") or {}
    hard_weight = arguments.get("HardPodAffinityWeight", arguments.get("hardPodAffinityWeight", 1))
    try:
        found = compare(plugins, made.objects, made.pod, hard_weight=hard_weight)
    except BadInput as bad:
        answer = plugins.ask(made.objects, made.pod)
        outcome = Outcome.INVALID if answer.error else Outcome.DIFFERS
        return Replay(row.test, row.plugin, outcome, f"BadInput: {bad}", made)
    outcome, detail = _judged(row, found)
    return Replay(row.test, row.plugin, outcome, detail, made)


def _hindrance(row: Row) -> Outcome | None:
    if not row.nodes:
        return Outcome.NO_NODE
    if row.is_changed:
        return Outcome.CHANGED
    if row.plugin == "NodeName" and row.pod["spec"].get("nodeName"):
        return Outcome.BOUND
    return Outcome.ERROR if row.has_error() else None


def _judged(row: Row, found: Comparison) -> tuple[Outcome, str]:
    answer = found.answer
    if answer.error:
        return Outcome.INVALID, answer.error
    if surprise := _other_meaning(row, found):
        return _reason_of(row), surprise
    if found.left_out:
        return Outcome.UNSUPPORTED, found.left_out
    if found.problem:
        return Outcome.DIFFERS, found.problem
    if row.scores and row.plugin not in _COMPARED_SCORES:
        return Outcome.NOT_SCORED, ""
    wanted = row.wanted()
    if any(accepts and real_name(node) not in answer.feasible for node, accepts in wanted.items()):
        return Outcome.AGREES_IN_PART, ""
    return Outcome.AGREES, ""


def _reason_of(row: Row) -> Outcome:
    """Why the default profile answers otherwise than the plugin in its test."""
    ignores = (row.settings.get("args") or {}).get("IgnorePreferredTermsOfExistingPods")
    has_strategy = row.scores and row.plugin in _WITH_STRATEGY
    if ignores or has_strategy or any(row.settings.get(name) for name in _ARGUMENTS):
        return Outcome.ARGUMENTS
    return Outcome.GATES if row.gates else Outcome.OTHER_MEANING


def _other_meaning(row: Row, found: Comparison) -> str:
    """How the answer of the default profile differs from that of the plugin in its test."""
    answer = found.answer
    if row.scores and row.plugin == "VolumeBinding":
        return ""
    if row.scores:
        scores = answer.scores.get(row.plugin, {})
        named = {real_name(node): points for node, points in row.points.items()}
        seen = {node: points for node, points in named.items() if node in answer.feasible}
        wrong = {
            node: (points, scores.get(node, 0))
            for node, points in seen.items()
            if points != scores.get(node, 0)
        }
        return f"scores in the test and of the profile: {wrong}" if wrong else ""
    for name, accepts in row.wanted().items():
        node = real_name(name)
        refusal = answer.refused.get(node)
        if accepts and refusal is not None and refusal.plugin == row.plugin:
            return f"node {node}: accepted in the test, refused by the profile: {refusal.reason}"
        if not accepts and refusal is None:
            return f"node {node}: refused in the test, accepted by the profile"
    return ""
