"""The objective of a placement, evaluated in one place, from the problem itself.

It is lexicographic, smaller is better: pods not placed, then domains that the gang spans per level from the
widest down to the preferred one, then the same for its subgroups, added up over those that wish so, then the
total price, then the room of the domains that are opened on the deepest level of the gang, so that larger
holes stay whole. For a single pod that is to leave the least fragmentation, what it leaves comes last.
Backends may order what is left as they like.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest

import msgspec

from phalanx.model.decisions import Certificate
from phalanx.model.names import NodeName
from phalanx.model.queues import Objective
from phalanx.solver.problem import Assignment, NodeClass, Placed, PlacementProblem
from phalanx.solver.problem_rules import read_rules

UNPLACED = "unplaced"
DOMAINS = "domains:"
SUBGROUP_DOMAINS = "subgroup-domains:"
COST = "cost"
TIGHTNESS = "tightness:"
FRAGMENTS = "fragments"

NOWHERE = NodeName("")

DomainKey = tuple[str, ...]

DomainOrNode = tuple[tuple[str, ...], NodeName]
"""A path down to the deepest level that counts, and the node where it ends above that, else NOWHERE."""


def terms_of(problem: PlacementProblem) -> tuple[str, ...]:
    """The names of the terms that can differ between two placements of this problem, most important first."""
    elastic = (UNPLACED,) if any(role.minimum < role.maximum for role in problem.roles) else ()
    rules = read_rules(problem)
    preferred = (DOMAINS + level for level in problem.levels[: rules.preferred_depth])
    of_subgroups = (SUBGROUP_DOMAINS + level for level in problem.levels[: rules.subgroup_preferred_depth])
    priced = (COST,) if problem.has_costs else ()
    tight = (
        (TIGHTNESS + problem.levels[rules.gang_depth - 1],)
        if rules.gang_depth and problem.prefers_tightness
        else ()
    )
    fragments = (FRAGMENTS,) if minimizes_fragmentation(problem) else ()
    return (*elastic, *preferred, *of_subgroups, *priced, *tight, *fragments)


def primary_terms(terms: Sequence[str]) -> int:
    """How many of the terms, from the first on, are worth a long search: all before tightness."""
    return [not term.startswith((TIGHTNESS, FRAGMENTS)) for term in terms].count(True)


def proven_but_tightness(certificate: Certificate) -> bool:
    """Whether all of the firm terms are proven."""
    primary = primary_terms(certificate.terms)
    return certificate.objective[:primary] == certificate.bound[:primary]


def minimizes_fragmentation(problem: PlacementProblem) -> bool:
    """Whether it is about a single pod that is to leave the least fragmentation."""
    is_wished = problem.ties is Objective.LEAST_FRAGMENTATION
    return is_wished and sum([role.maximum for role in problem.roles]) == 1


def domain_key(path: Sequence[str], level: int, node: NodeName) -> DomainKey:
    """The domain of this level that a node is in; a node without the level's label is one by itself."""
    return tuple(path[: level + 1]) if len(path) > level else (*path, "", node)


def is_domain(key: DomainKey) -> bool:
    """Whether a key is that of a domain, and not of a node that is one by itself: no label is empty."""
    return "" not in key


def anchored_domains(problem: PlacementProblem, level: int) -> set[DomainKey]:
    """The domains of this level that members of the gang already run in."""
    return {tuple(path[: level + 1]) for path in problem.anchors}


def classes_by_node(
    problem: PlacementProblem, assignments: Sequence[Assignment]
) -> dict[NodeName, NodeClass]:
    """The class of each node that is used; nodes that the problem does not have are left out."""
    used = {one.node for one in assignments}
    return {node: group for group in problem.classes for node in group.nodes if node in used}


class Scorer:
    """Evaluates placements of one problem; made once where many placements are compared.

    `classes` of all nodes that will be used spare the look at all others. `primary` is the number of firm terms.
    """

    def __init__(
        self, problem: PlacementProblem, classes: Mapping[NodeName, NodeClass] | None = None
    ) -> None:
        self.terms = terms_of(problem)
        self.problem = problem
        self._known_classes = classes
        self._wanted = sum(role.maximum for role in problem.roles)
        rules = read_rules(problem)
        self._anchored = [anchored_domains(problem, level) for level in range(rules.preferred_depth)]
        self._gang_depth = rules.gang_depth
        self._depth = max(rules.gang_depth, rules.subgroup_preferred_depth)
        self.primary = primary_terms(self.terms)
        self._subgroup_preferences = [
            (frozenset(one.roles), [one.anchored_domains(level) for level in range(one.depth)])
            for one in rules.subgroup_preferences
        ]

    @cached_property
    def _classes(self) -> Mapping[NodeName, NodeClass]:
        if self._known_classes is not None:
            return self._known_classes
        return {node: group for group in self.problem.classes for node in group.nodes}

    def score(self, assignments: Sequence[Assignment]) -> tuple[int, ...]:
        """The value of each term for these assignments."""
        classes = self._classes
        per_subgroup = [
            self._opened(self._places([one.node for one in assignments if one.role in roles]), anchored)
            for roles, anchored in self._subgroup_preferences
        ]
        places = self._places([one.node for one in assignments])
        return self.values(
            placed=sum([one.count for one in assignments]),
            opened=self._opened(places, self._anchored),
            of_subgroups=[sum(counts) for counts in zip_longest(*per_subgroup, fillvalue=0)],
            cost=sum([one.count * classes[one.node].cost[one.role] for one in assignments]),
            tightness=self._tightness(places) if self.has_tightness else 0,
            fragments=self._fragments(assignments) if self.terms[-1:] == (FRAGMENTS,) else 0,
        )

    @property
    def has_tightness(self) -> bool:
        """Whether room is a term."""
        return any(term.startswith(TIGHTNESS) for term in self.terms[self.primary :])

    def _places(self, nodes: Sequence[NodeName]) -> set[DomainOrNode]:
        """Where the nodes are, as far as the terms can tell."""
        classes, depth = self._classes, self._depth
        paths = [(classes[node].path, node) for node in nodes]
        return {(path[:depth], node if len(path) < depth else NOWHERE) for path, node in paths}

    def _tightness(self, places: Collection[DomainOrNode]) -> int:
        """The room of the domains of the deepest level in which these places are."""
        depth, classes = self._gang_depth, self._classes
        alone = [classes[node].capacity for path, node in places if len(path) < depth]
        opened = {path[:depth] for path, _ in places if len(path) >= depth}
        opened -= anchored_domains(self.problem, depth - 1)
        shared = [group for group in self.problem.classes if group.path[:depth] in opened]
        return sum(alone) + sum([group.capacity * (len(group.nodes) + group.left_out) for group in shared])

    def _fragments(self, assignments: Sequence[Assignment]) -> int:
        classes = [(self._classes[one.node], one.node) for one in assignments]
        return sum([group.order[group.nodes.index(node)][0] for group, node in classes])

    def _opened(self, places: Collection[DomainOrNode], anchored: Sequence[set[DomainKey]]) -> list[int]:
        """How many domains per level these places are in, those with anchors left out."""
        return [
            len({domain_key(path, level, node) for path, node in places} - there)
            for level, there in enumerate(anchored)
        ]

    def values(
        self,
        *,
        placed: int,
        opened: Sequence[int],
        cost: int,
        of_subgroups: Sequence[int] = (),
        tightness: int = 0,
        fragments: int = 0,
    ) -> tuple[int, ...]:
        """The terms' values from pods placed, domains opened per level beside the anchors', price, and room.

        `of_subgroups` counts the domains opened per level by each subgroup that wishes for few; 0 where it
        ends.
        """
        values = {UNPLACED: self._wanted - placed, COST: cost, FRAGMENTS: fragments}
        for level, (count, there) in enumerate(zip(opened, self._anchored, strict=False)):
            values[DOMAINS + self.problem.levels[level]] = count + len(there)
        for _, anchored in self._subgroup_preferences:
            for level, there in enumerate(anchored):
                term = SUBGROUP_DOMAINS + self.problem.levels[level]
                values[term] = values.get(term, 0) + len(there)
        for level, count in enumerate(of_subgroups):
            values[SUBGROUP_DOMAINS + self.problem.levels[level]] += count
        return tuple(tightness if term.startswith(TIGHTNESS) else values[term] for term in self.terms)


_DIGITS = 32


def fingerprint(problem: PlacementProblem) -> str:
    """Digest of the whole problem: equal problems, and practically only those, have equal fingerprints."""
    encoded = msgspec.json.encode(problem, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:_DIGITS]


def certify(
    scorer: Scorer, assignments: Sequence[Assignment], *, bound: tuple[int, ...] | None, by: str
) -> Placed:
    """The placement with its certificate; no placement of the problem is lexicographically below `bound`.

    Without a bound the placement itself is known to be optimal.
    """
    objective = scorer.score(assignments)
    ordered = tuple(sorted(assignments, key=lambda one: (one.role, one.node)))
    certificate = Certificate(
        terms=scorer.terms,
        objective=objective,
        bound=objective if bound is None else bound,
        proven=bound is None or objective == bound,
        by=by,
        fingerprint=fingerprint(scorer.problem),
    )
    return Placed(assignments=ordered, certificate=certificate)
