"""The objective of a placement, and certificates about it.

The objective is lexicographic; smaller is better. Its terms, most important first:

- `unplaced`: optional pods that are not placed;
- `domains:<level>`: domains that the gang spans, per level from the widest to the preferred one;
- `subgroup-domains:<level>`: the same for subgroups with a preference, added up;
- `subgroup-domains:<topology>/<level>`: the same for levels of other topologies than the gang's;
- `traffic:<level>`: what members in different domains of a level send to each other, widest level first;
- `node-traffic`: the same between different nodes;
- `cost`: the total cost of pods on their nodes, and what pairs of pods cost that are not placed as they
prefer;
- `tightness:<level>`: the pod capacity of the domains that the gang opens on its deepest level. This is
  best fit by domains: large domains stay whole for large gangs;
- `subgroup-tightness:<level>`: the same for the domains that subgroups open on the deepest level that they
ask for, added up over the subgroups of a level, the widest level first;
- `fragments`: for a single pod that is to minimise fragmentation, what it leaves on its node.

`Scorer` evaluates all terms from the problem alone. A certificate states the value reached, a proven lower
bound, and the backend that proved it.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest

import msgspec

from phalanx.model.decisions import Certificate
from phalanx.model.names import NodeName
from phalanx.model.queues import Objective
from phalanx.rules.anchors import NOWHERE
from phalanx.rules.primitives import PairPreference
from phalanx.rules.problem import Assignment, NodeClass, PlacementProblem
from phalanx.rules.traffic_matrix import NO_TRAFFIC
from phalanx.solver.answer import Placed
from phalanx.solver.domains import DomainKey, anchored_domains, domain_key, open_domains
from phalanx.solver.problem_rules import ProblemRules, read_rules

UNPLACED = "unplaced"
DOMAINS = "domains:"
SUBGROUP_DOMAINS = "subgroup-domains:"
TRAFFIC = "traffic:"
NODE_TRAFFIC = "node-traffic"
COST = "cost"
TIGHTNESS = "tightness:"
SUBGROUP_TIGHTNESS = "subgroup-tightness:"
FRAGMENTS = "fragments"

LAST_TERMS = (TIGHTNESS, SUBGROUP_TIGHTNESS, FRAGMENTS)
"""Those that are not worth a long search."""

DomainOrNode = tuple[tuple[str, ...], NodeName]
"""A path down to the deepest level that counts, and the node where its path ends above that, else NOWHERE."""


def terms_of(problem: PlacementProblem) -> tuple[str, ...]:
    """Return the names of the terms that can differ between two placements, most important first."""
    elastic = (UNPLACED,) if any(role.minimum < role.maximum for role in problem.roles) else ()
    rules = read_rules(problem)
    preferred = (DOMAINS + level for level in problem.levels[: rules.preferred_depth])
    of_subgroups = (SUBGROUP_DOMAINS + level for level in problem.levels[: rules.subgroup_preferred_depth])
    traffic = (
        (*(TRAFFIC + level for level in problem.levels), NODE_TRAFFIC) if rules.traffic is not None else ()
    )
    priced = (COST,) if problem.has_costs or rules.pairs else ()
    tight = (
        (TIGHTNESS + problem.levels[rules.gang_depth - 1],)
        if rules.gang_depth and problem.prefers_tightness
        else ()
    )
    levels = dict.fromkeys(each.level for each in rules.subgroup_tightness)
    packed = (SUBGROUP_TIGHTNESS + problem.levels[level] for level in levels)
    fragments = (FRAGMENTS,) if minimizes_fragmentation(problem) else ()
    elsewhere = term_keys(rules)
    return (*elastic, *preferred, *of_subgroups, *elsewhere, *traffic, *priced, *tight, *packed, *fragments)


def term_keys(rules: ProblemRules) -> dict[str, int]:
    """The terms about domains of other topologies, in their order, with the index of the key of each."""
    names = {key: name for each in rules.few_values for key, name in zip(each.keys, each.names, strict=True)}
    return {SUBGROUP_DOMAINS + names[key]: key for key in rules.other_keys}


def primary_terms(terms: Sequence[str]) -> int:
    """Count the terms that are worth a long search: all before tightness."""
    return [not term.startswith(LAST_TERMS) for term in terms].count(True)


def proven_but_tightness(certificate: Certificate) -> bool:
    """Whether all primary terms are proven."""
    primary = primary_terms(certificate.terms)
    return certificate.objective[:primary] == certificate.bound[:primary]


def minimizes_fragmentation(problem: PlacementProblem) -> bool:
    """Whether the problem is a single pod that is to minimise fragmentation."""
    is_preferred = problem.ties is Objective.LEAST_FRAGMENTATION
    return is_preferred and sum([role.maximum for role in problem.roles]) == 1


def classes_by_node(
    problem: PlacementProblem, assignments: Sequence[Assignment]
) -> dict[NodeName, NodeClass]:
    """The class of each used node; nodes that the problem does not have are left out."""
    used = {assignment.node for assignment in assignments}
    return {node: group for group in problem.classes for node in group.nodes if node in used}


class Scorer:
    """Evaluates placements of one problem; create one where many placements are compared.

    `classes` of all nodes that will be used saves a map of all nodes.
    """

    def __init__(
        self, problem: PlacementProblem, classes: Mapping[NodeName, NodeClass] | None = None
    ) -> None:
        self.terms = terms_of(problem)
        self.problem = problem
        self._known_classes = classes
        self._wanted = sum(role.maximum for role in problem.roles)
        rules = read_rules(problem)
        self._anchored = [
            len(anchored_domains(problem.anchors, level)) for level in range(rules.preferred_depth)
        ]
        self._open = [open_domains(problem.anchors, level) for level in range(rules.gang_depth)]
        self._gang_depth, self._preferred_depth = rules.gang_depth, rules.preferred_depth
        self._depth = max(rules.gang_depth, rules.subgroup_preferred_depth)
        self._tight_subgroups = [
            (each, frozenset(each.roles), open_domains(each.anchors, each.level))
            for each in rules.subgroup_tightness
        ]
        self.primary = primary_terms(self.terms)
        self._traffic, self._pairs = rules.traffic, rules.pairs
        self._elsewhere = term_keys(rules)
        self._few_values = rules.few_values
        self._traffic_terms = [term for term in self.terms if term.startswith((TRAFFIC, NODE_TRAFFIC))]
        self._subgroup_preferences = [
            (
                frozenset(preference.roles),
                [open_domains(preference.anchors, level) for level in range(preference.depth)],
            )
            for preference in rules.subgroup_preferences
        ]
        self._anchored_of_subgroups = [
            sum(
                len(anchored_domains(preference.anchors, level))
                for preference in rules.subgroup_preferences
                if level < preference.depth
            )
            for level in range(rules.subgroup_preferred_depth)
        ]

    @cached_property
    def _classes(self) -> Mapping[NodeName, NodeClass]:
        if self._known_classes is not None:
            return self._known_classes
        return {node: group for group in self.problem.classes for node in group.nodes}

    def score(self, assignments: Sequence[Assignment]) -> tuple[int, ...]:
        """Return the value of each term for these assignments."""
        classes = self._classes
        per_subgroup = [
            self._opened(
                self._places([assignment.node for assignment in assignments if assignment.role in roles]),
                opened,
            )
            for roles, opened in self._subgroup_preferences
        ]
        places = self._places([assignment.node for assignment in assignments])
        return self.values(
            placed=sum([assignment.count for assignment in assignments]),
            opened=self._opened(places, self._open[: self._preferred_depth]),
            of_subgroups=[sum(counts) for counts in zip_longest(*per_subgroup, fillvalue=0)],
            elsewhere=[self._domains_elsewhere(key, assignments) for key in self._elsewhere.values()],
            traffic=self._crossing(assignments),
            cost=sum(
                [
                    assignment.count * classes[assignment.node].cost[assignment.role]
                    for assignment in assignments
                ]
            )
            + sum([self._cost_of_pairs(pairs, assignments) for pairs in self._pairs]),
            tightness=self._tightness(assignments) if self.has_tightness else 0,
            tightness_of_subgroups=self._tightness_of_subgroups(assignments),
            fragments=self._fragments(assignments) if self.terms[-1:] == (FRAGMENTS,) else 0,
        )

    @property
    def has_tightness(self) -> bool:
        """Whether tightness is a term."""
        return any(term.startswith(TIGHTNESS) for term in self.terms[self.primary :])

    def _places(self, nodes: Sequence[NodeName]) -> set[DomainOrNode]:
        """The domains, or nodes outside of domains, that the terms distinguish."""
        classes, depth = self._classes, self._depth
        paths = [(classes[node].path, node) for node in nodes]
        return {(path[:depth], node if len(path) < depth else NOWHERE) for path, node in paths}

    def _crossing(self, assignments: Sequence[Assignment]) -> list[int]:
        """The traffic between different domains per level, and between different nodes."""
        matrix, classes = self._traffic, self._classes
        if matrix is None:
            return []
        placed = [
            (classes[one.node].path, one.node, matrix.members[one.role], one.count)
            for one in assignments
            if matrix.members[one.role] != NO_TRAFFIC
        ]
        return matrix.crossing(placed, len(self.problem.levels))

    def _domains_elsewhere(self, key: int, assignments: Sequence[Assignment]) -> int:
        """The domains that subgroups open on this level of another topology, added up."""
        opened = 0
        for preference in self._few_values:
            if key in preference.keys:
                there = preference.open[preference.keys.index(key)]
                nodes = {one.node for one in assignments if one.role in preference.roles}
                opened += len({self._classes[node].label_values[key] for node in nodes} - there)
        return opened

    @property
    def least_elsewhere(self) -> list[int]:
        """A lower bound for each term about domains of other topologies: needed pods open at least one."""
        return [
            sum(
                key in preference.keys
                and not preference.open[preference.keys.index(key)]
                and any(self.problem.roles[role].minimum for role in preference.roles)
                for preference in self._few_values
            )
            for key in self._elsewhere.values()
        ]

    def _anchored_elsewhere(self, key: int) -> int:
        return sum(
            len(preference.anchored[preference.keys.index(key)])
            for preference in self._few_values
            if key in preference.keys
        )

    def _cost_of_pairs(self, pairs: PairPreference, assignments: Sequence[Assignment]) -> int:
        counts: dict[str, list[int]] = {}
        for one in assignments:
            value = pairs.value_of(self._classes[one.node].label_values, one.node)
            if value:
                counts.setdefault(value, [0] * pairs.matrix.size)[one.role] += one.count
        return pairs.cost(list(counts.values()))

    def _tightness(self, assignments: Sequence[Assignment]) -> int:
        """The capacity of the deepest-level domains that are used, without open ones."""
        level, classes = self._gang_depth - 1, self._classes
        used = [(classes[assignment.node], assignment.node) for assignment in assignments]
        capacities = {domain_key(group.path, level, node): group.domain_capacity for group, node in used}
        return sum([capacity for key, capacity in capacities.items() if key not in self._open[level]])

    def _tightness_of_subgroups(self, assignments: Sequence[Assignment]) -> dict[int, int]:
        """By level, the capacity of the domains that subgroups open there."""
        found: dict[int, int] = {}
        for each, roles, there in self._tight_subgroups:
            used = [(self._classes[one.node], one.node) for one in assignments if one.role in roles]
            opened = {domain_key(group.path, each.level, node): group for group, node in used}
            capacities = [
                dict(group.subgroup_capacities).get(each.level, 0)
                for key, group in opened.items()
                if key not in there
            ]
            found[each.level] = found.get(each.level, 0) + sum(capacities)
        return found

    def _fragments(self, assignments: Sequence[Assignment]) -> int:
        classes = [(self._classes[assignment.node], assignment.node) for assignment in assignments]
        return sum([group.order[group.nodes.index(node)][0] for group, node in classes])

    def _opened(self, places: Collection[DomainOrNode], open_keys: Sequence[set[DomainKey]]) -> list[int]:
        """The number of domains per level without open ones."""
        return [
            len({domain_key(path, level, node) for path, node in places} - there)
            for level, there in enumerate(open_keys)
        ]

    def values(
        self,
        *,
        placed: int,
        opened: Sequence[int],
        cost: int,
        of_subgroups: Sequence[int] = (),
        elsewhere: Sequence[int] = (),
        traffic: Sequence[int] = (),
        tightness: int = 0,
        tightness_of_subgroups: Mapping[int, int] = {},
        fragments: int = 0,
    ) -> tuple[int, ...]:
        """Return the values of the terms from their parts.

        `opened` counts domains per level without open ones; `of_subgroups` the same per level, added up over
        the subgroups with a preference; `elsewhere` the same by key of other topologies. `traffic` is that
        between domains per level, then between nodes. `tightness_of_subgroups` is by level.
        """
        values = {UNPLACED: self._wanted - placed, COST: cost, FRAGMENTS: fragments}
        for level, (count, there) in enumerate(zip(opened, self._anchored, strict=False)):
            values[DOMAINS + self.problem.levels[level]] = count + there
        for level, there in enumerate(self._anchored_of_subgroups):
            values[SUBGROUP_DOMAINS + self.problem.levels[level]] = there
        for level, count in enumerate(of_subgroups):
            values[SUBGROUP_DOMAINS + self.problem.levels[level]] += count
        for number, (term, key) in enumerate(self._elsewhere.items()):
            values[term] = self._anchored_elsewhere(key) + (elsewhere[number] if elsewhere else 0)
        for each, _, _ in self._tight_subgroups:
            term = SUBGROUP_TIGHTNESS + self.problem.levels[each.level]
            values[term] = tightness_of_subgroups.get(each.level, 0)
        if self._traffic_terms:
            values |= dict.fromkeys(self._traffic_terms, 0) | dict(
                zip(self._traffic_terms, traffic, strict=False)
            )
        return tuple(tightness if term.startswith(TIGHTNESS) else values[term] for term in self.terms)


_DIGITS = 32


def fingerprint(problem: PlacementProblem) -> str:
    """Digest of the whole problem."""
    encoded = msgspec.json.encode(problem, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:_DIGITS]


def certify(
    scorer: Scorer, assignments: Sequence[Assignment], *, bound: tuple[int, ...] | None, by: str
) -> Placed:
    """Return the placement with its certificate.

    No placement of the problem is lexicographically below `bound`; None means that this placement is optimal.
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
