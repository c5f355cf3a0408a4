"""Whether what nodes cost by spread constraints with ScheduleAnyway follows from the raw scores of
PodTopologySpread.

The score of a node is the sum, over the constraints, of the pods that are counted in its domain times the
logarithm of the number of domains plus 2; rounded. kube-scheduler takes the domains of feasible nodes;
Phalanx those of nodes that the selectors, affinity and tolerations of the pod allow. Where all domains have a
feasible node the numbers are compared. Otherwise only the order is, and only with one constraint.
"""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, Final

from msgspec import Struct

from tests.oracle.plugins import Answer, Document

SPREAD_WEIGHT: Final = 1000
"""What a point of the score costs, by the configuration of Phalanx."""

_ROUNDED: Final = SPREAD_WEIGHT + 50
"""How far the differences of two costs and of two scores may be apart: each score is rounded to a whole
point, and the costs of few pods to a few thousandths."""


class PreferredSpread(Struct, frozen=True):
    """The raw scores of the nodes that have all keys of the preferred constraints of a pod."""

    scores: Mapping[str, int]
    constraints: int
    has_all_domains: bool
    """Whether all domains have a feasible node."""

    @staticmethod
    def of(objects: Sequence[Document], pod: str, answer: Answer) -> "PreferredSpread":
        """What kube-scheduler says about this pod."""
        spec = next(each["spec"] for each in objects if each["kind"] == "Pod" and _name(each) == pod)
        preferred = [
            each["topologyKey"]
            for each in spec.get("topologySpreadConstraints", ())
            if each["whenUnsatisfiable"] == "ScheduleAnyway"
        ]
        labels = {each["metadata"]["name"]: _labels(each) for each in objects if each["kind"] == "Node"}
        complete = {name: each for name, each in labels.items() if each.keys() >= set(preferred)}
        return PreferredSpread(
            scores={
                name: score
                for name, score in answer.scores.get("PodTopologySpread", {}).items()
                if name in complete
            },
            constraints=len(preferred),
            has_all_domains=all(
                {each[key] for each in complete.values()}
                == {complete[name][key] for name in answer.feasible if name in complete}
                for key in preferred
            ),
        )

    def disagreement(self, costs: Mapping[str, int]) -> str:
        """What is wrong about these costs of the feasible nodes; empty if nothing is."""
        if not self.constraints:
            return "" if len(set(costs.values())) <= 1 else "no constraint"
        scored = [name for name in costs if name in self.scores]
        for one, other in permutations(scored, 2):
            cost, score = costs[one] - costs[other], self.scores[one] - self.scores[other]
            if self.has_all_domains and abs(cost - SPREAD_WEIGHT * score) > _ROUNDED:
                return f"{one} scores {score} more than {other}, and costs {cost} more"
            if self.constraints == 1 and (cost > 0) != (score > 0):
                return f"{one} scores {score} more than {other}, and costs {cost} more"
        most = max((costs[name] for name in scored), default=0)
        cheap = [name for name in costs if name not in self.scores and scored and costs[name] <= most]
        return f"nodes without a key are not the most expensive ones: {cheap}" if cheap else ""


def _name(document: Document) -> str:
    metadata = document["metadata"]
    return f"{metadata.get('namespace', 'default')}/{metadata['name']}"


def _labels(node: Document) -> dict[str, Any]:
    return node["metadata"].get("labels") or {}
