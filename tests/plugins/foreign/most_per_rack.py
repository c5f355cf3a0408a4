"""At most two pods of a gang run in each rack, as a kind of rule of its own."""

from collections import Counter
from collections.abc import Iterator

from phalanx.framework.plugin import Plugin, SessionView
from phalanx.model.gangs import Gang
from phalanx.rules.primitives import Primitive, Skew
from phalanx.rules.problem import Obstacle, PlacedPods, PlacementProblem, Rule, RuleWords

RACK, MOST = "acme.example/rack", 2


class MostPerRack(Rule, frozen=True, tag="acme-most-per-rack"):
    obstacle = Obstacle.AFFINITY

    running: tuple[tuple[str, int], ...]
    """Members that run already, by rack."""
    words: RuleWords = RuleWords(
        message=f"at most {MOST} pods of a gang run in each rack",
        next_step="Add a rack, or make the gang smaller",
    )

    @property
    def keys(self) -> tuple[str, ...]:
        return (RACK,)

    def lower(self, problem: PlacementProblem) -> Iterator[Primitive]:
        everyone = tuple(range(len(problem.roles)))
        more_than_exist = len(problem.classes) + len(self.running) + 1
        yield Skew(
            name=self.name,
            key=problem.key_of(RACK),
            owners=everyone,
            others=everyone,
            existing=self.running,
            max_skew=MOST,
            min_domains=more_than_exist,
        )

    def violations(self, placed: PlacedPods) -> Iterator[str]:
        running = dict(self.running)
        for rack, pods in placed.by_value(RACK).items():
            count = pods.total() + running.get(rack, 0)
            if not rack or count > MOST:
                yield f"{self.name}: {count} pods in rack {rack!r}"


class RackLimit(Plugin):
    name = "most-per-rack"

    def rules(self, gang: Gang, view: SessionView) -> tuple[Rule, ...]:
        names = [pod.node for pod in gang.members if pod.holds_node]
        nodes = [view.nodes[name].node for name in names if name in view.nodes]
        running = Counter(node.labels.get(RACK, "") for node in nodes)
        return (MostPerRack("most per rack", tuple(sorted(running.items()))),)
