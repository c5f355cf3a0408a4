"""The objective of a placement, evaluated in one place, from the problem itself.

It is lexicographic, smaller is better: pods not placed, then domains that the gang spans per level from the
widest down to the preferred one, then the same for its subgroups, added up over those that wish so, then the
total price, then the room of the domains that are opened on the deepest level of the gang, so that larger
holes stay whole. For a single pod that is to leave the least fragmentation, what it leaves comes last.
Backends may order what is left as they like.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest

from phalanx.model.decisions import Certificate
from phalanx.model.names import NodeName
from phalanx.model.queues import Objective
from phalanx.solver.problem import Assignment, NodeClass, PlacementProblem
from phalanx.solver.problem_rules import read_rules

UNPLACED = "unplaced"
DOMAINS = "domains:"
OF_SUBGROUPS = "subgroup-domains:"
PRICE = "price"
ROOM = "room:"
FRAGMENTS = "fragments"

NOWHERE = NodeName("")

DomainKey = tuple[str, ...]

Place = tuple[tuple[str, ...], NodeName]
"""A path down to the deepest level that counts, and the node where it ends above that, else NOWHERE."""


def terms_of(problem: PlacementProblem) -> tuple[str, ...]:
    """The names of the terms that can differ between two placements of this problem, most important first."""
    elastic = (UNPLACED,) if any(role.minimum < role.maximum for role in problem.roles) else ()
    book = read_rules(problem)
    preferred = (DOMAINS + level for level in problem.levels[: book.preferred_depth])
    of_subgroups = (OF_SUBGROUPS + level for level in problem.levels[: book.gathered_depth])
    priced = (PRICE,) if problem.has_costs else ()
    tight = (ROOM + problem.levels[book.gang_depth - 1],) if book.gang_depth and problem.has_room else ()
    fragments = (FRAGMENTS,) if leaves_fragments(problem) else ()
    return (*elastic, *preferred, *of_subgroups, *priced, *tight, *fragments)


def primary_terms(terms: Sequence[str]) -> int:
    """How many of the terms, from the first on, are worth a long search: all before tightness."""
    return [not term.startswith((ROOM, FRAGMENTS)) for term in terms].count(True)


def proven_but_tightness(certificate: Certificate) -> bool:
    """Whether all of the firm terms are proven."""
    firm = primary_terms(certificate.terms)
    return certificate.objective[:firm] == certificate.bound[:firm]


def leaves_fragments(problem: PlacementProblem) -> bool:
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


def homes_of(problem: PlacementProblem, assignments: Sequence[Assignment]) -> dict[NodeName, NodeClass]:
    """The class of each node that is used; nodes that the problem does not have are left out."""
    used = {one.node for one in assignments}
    return {node: group for group in problem.classes for node in group.nodes if node in used}


class Scorer:
    """Evaluates placements of one problem; made once where many placements are compared.

    `homes` of all nodes that will be used spare the look at all others. `firm` is the number of firm terms.
    """

    def __init__(self, problem: PlacementProblem, homes: Mapping[NodeName, NodeClass] | None = None) -> None:
        self.terms = terms_of(problem)
        self.problem = problem
        self._homes = homes
        self._wanted = sum(role.maximum for role in problem.roles)
        book = read_rules(problem)
        self._anchored = [anchored_domains(problem, level) for level in range(book.preferred_depth)]
        self._gang_depth = book.gang_depth
        self._depth = max(book.gang_depth, book.gathered_depth)
        self.firm = primary_terms(self.terms)
        self._gathered = [
            (frozenset(one.roles), [one.anchored(level) for level in range(one.depth)])
            for one in book.gatherings
        ]

    @cached_property
    def _home(self) -> Mapping[NodeName, NodeClass]:
        if self._homes is not None:
            return self._homes
        return {node: group for group in self.problem.classes for node in group.nodes}

    def score(self, assignments: Sequence[Assignment]) -> tuple[int, ...]:
        """The value of each term for these assignments."""
        home = self._home
        per_subgroup = [
            self._opened(self._places([one.node for one in assignments if one.role in roles]), anchored)
            for roles, anchored in self._gathered
        ]
        places = self._places([one.node for one in assignments])
        return self.values(
            placed=sum([one.count for one in assignments]),
            opened=self._opened(places, self._anchored),
            of_subgroups=[sum(counts) for counts in zip_longest(*per_subgroup, fillvalue=0)],
            cost=sum([one.count * home[one.node].cost[one.role] for one in assignments]),
            room=self._room(places) if self.is_tight else 0,
            fragments=self._fragments(assignments) if self.terms[-1:] == (FRAGMENTS,) else 0,
        )

    @property
    def is_tight(self) -> bool:
        """Whether room is a term."""
        return any(term.startswith(ROOM) for term in self.terms[self.firm :])

    def _places(self, nodes: Sequence[NodeName]) -> set[Place]:
        """Where the nodes are, as far as the terms can tell."""
        home, depth = self._home, self._depth
        paths = [(home[node].path, node) for node in nodes]
        return {(path[:depth], node if len(path) < depth else NOWHERE) for path, node in paths}

    def _room(self, places: Collection[Place]) -> int:
        """The room of the domains of the deepest level in which these places are."""
        depth, home = self._gang_depth, self._home
        alone = [home[node].room for path, node in places if len(path) < depth]
        opened = {path[:depth] for path, _ in places if len(path) >= depth}
        opened -= anchored_domains(self.problem, depth - 1)
        shared = [group for group in self.problem.classes if group.path[:depth] in opened]
        return sum(alone) + sum([group.room * (len(group.nodes) + group.left_out) for group in shared])

    def _fragments(self, assignments: Sequence[Assignment]) -> int:
        homes = [(self._home[one.node], one.node) for one in assignments]
        return sum([group.order[group.nodes.index(node)][0] for group, node in homes])

    def _opened(self, places: Collection[Place], anchored: Sequence[set[DomainKey]]) -> list[int]:
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
        room: int = 0,
        fragments: int = 0,
    ) -> tuple[int, ...]:
        """The terms' values from pods placed, domains opened per level beside the anchors', price, and room.

        `of_subgroups` counts the domains opened per level by each subgroup that wishes for few; 0 where it
        ends.
        """
        values = {UNPLACED: self._wanted - placed, PRICE: cost, FRAGMENTS: fragments}
        for level, (count, there) in enumerate(zip(opened, self._anchored, strict=False)):
            values[DOMAINS + self.problem.levels[level]] = count + len(there)
        for _, anchored in self._gathered:
            for level, there in enumerate(anchored):
                term = OF_SUBGROUPS + self.problem.levels[level]
                values[term] = values.get(term, 0) + len(there)
        for level, count in enumerate(of_subgroups):
            values[OF_SUBGROUPS + self.problem.levels[level]] += count
        return tuple(room if term.startswith(ROOM) else values[term] for term in self.terms)
