"""Which pods are near which, as far as required pod affinity and anti-affinity ask.

Terms are known by their numbers in the snapshot. Counts follow the session: what a statement places is there
for whoever is looked at next. A snapshot without terms costs nothing.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.model.conversion.metadata import PER_POD_LABELS
from phalanx.model.conversion.selectors import keys_of
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, ShapeKey
from phalanx.model.pods import NO_LABELS, AffinityTerms, Company, Pod, PodLabels, PodShape, Term
from phalanx.model.selectors import labels_match, required_label_pairs
from phalanx.model.snapshot import Snapshot

_KEY_BYTES: Final = 8
_EMPTY: Final = "''"

Counts = dict[str, int]
"""Pods by the value of a node label."""


class _Meant(Struct, frozen=True):
    """A term's number, its pods, and the namespaces in which they are; None for every namespace."""

    number: int
    terms: AffinityTerms
    namespaces: tuple[frozenset[str] | None, ...]

    def means(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod is one of those that are meant."""
        return all(
            (names is None or namespace in names)
            and term.selector is not None
            and labels_match(labels, term.selector)
            for term, names in zip(self.terms, self.namespaces, strict=True)
        )


class AffinityIndex:
    """`matching[n][i]`: pods that terms n mean, by the i-th's label; `avoiding[n]`: pods that avoid them.

    `serials[n]` is another one whenever pods that n means, or that ask for it, came or went.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.terms = snapshot.pod_affinity_terms
        self._labels = {name: state.node.labels for name, state in snapshot.nodes.items()}
        self._numbers = {terms: number for number, terms in enumerate(self.terms)}
        self._index = _indexed(self.terms, snapshot.namespace_labels)
        self._known: dict[tuple[str, PodLabels, PodLabels], tuple[int, ...]] = {}
        watched = {key for terms in self.terms for key in keys_of(terms)}
        self._tells_members_apart = not watched.isdisjoint(PER_POD_LABELS)
        self._serial = itertools.count(1)
        self._unique: dict[str, bool] = {}
        self._shapes: dict[Company, PodShape] = {}
        self._wished: set[int] = set()
        self.serials: dict[int, int] = {}
        self.matching: list[list[Counts]] = [[{} for _ in terms] for terms in self.terms]
        self.avoiding: list[Counts] = [{} for _ in self.terms]
        for placed_pods in snapshot.placed_pods:
            matches = self._matches(placed_pods.namespace, PodLabels(placed_pods.labels), NO_LABELS)
            avoids = self._numbers_of((term,) for term in placed_pods.anti_affinity)
            for node, count in placed_pods.nodes.items() if matches or avoids else ():
                for table, value in self._tables(matches, avoids, node):
                    table[value] = table.get(value, 0) + count

    def marked(self, gang: Gang) -> Gang:
        """The gang with the company of each of its pods in its shape; itself where none has any."""
        companies = [self._company(pod) for pod in gang.members]
        if not any(companies):
            return gang
        matched = {
            (company.near, number)
            for pod, company in zip(gang.members, companies, strict=True)
            if company is not None and pod.is_waiting
            for number in company.matches
        }
        members = tuple(
            pod if company is None else replace(pod, shape=self._shape(pod.shape, company, matched))
            for pod, company in zip(gang.members, companies, strict=True)
        )
        return replace(gang, members=members)

    def stamp(self, company: Company) -> tuple[int, ...]:
        """Equal while nothing has changed that these pods may be kept from, or brought to, a node by."""
        near = () if company.near is None else (company.near,)
        return tuple([self.serials.get(each, 0) for each in (*near, *company.apart, *company.matches)])

    def changes(
        self, company: Company, node: NodeName, by: int = 1, *, is_absent: bool = False
    ) -> Iterator[tuple[dict[Any, int], object, int]]:
        """Tables, keys and values that say that the node has one more pod with this company, or one less.

        `is_absent`: it is yet to come. Whoever must be apart from it stays away, but nobody goes there to be
        near it: terms by which somebody looks for company do not mean it.
        """
        matches = [each for each in company.matches if not is_absent or each not in self._wished]
        for table, value in self._tables(matches, company.apart, node):
            yield table, value, table.get(value, 0) + by
        for number in (*matches, *company.apart):
            yield self.serials, number, next(self._serial)

    def homes(self, number: int) -> list[frozenset[str]]:
        """Per term of affinity, the values of its label where pods that it means are."""
        return [frozenset(_positive(counts)) for counts in self.matching[number]]

    def shunned(self, number: int) -> frozenset[str]:
        """The values of the label where pods are that avoid those which a term of anti-affinity means."""
        return frozenset(_positive(self.avoiding[number]))

    def clash(self, pod: Pod, node: NodeName) -> str:
        """What anti-affinity says against a pod that was just placed on the node; empty for nothing."""
        company = pod.shape.company
        if company is None:
            return ""
        labels = self._labels[node]
        for number in (*company.apart, *company.matches):
            key = self.terms[number][0].topology_key
            avoids, matches = number in company.apart, number in company.matches
            if key not in labels:
                continue
            if avoids and self.matching[number][0].get(labels[key], 0) > matches:
                return f"pod {pod} is not apart by {key} from pods that it avoids"
            if matches and self.avoiding[number].get(labels[key], 0) > avoids:
                return f"pod {pod} is not apart by {key} from pods that avoid it"
        return ""

    def has_unique_values(self, key: str) -> bool:
        """Whether every node has this label and each another value."""
        if key not in self._unique:
            values = [labels.get(key) for labels in self._labels.values()]
            self._unique[key] = None not in values and len(set(values)) == len(values)
        return self._unique[key]

    def _company(self, pod: Pod) -> Company | None:
        shape = pod.shape
        own = pod.per_pod_labels if self._tells_members_apart else NO_LABELS
        matches = self._matches(pod.namespace, pod.labels, own)
        if not (matches or shape.affinity or shape.anti_affinity):
            return None
        near = self._numbers.get(shape.affinity) if shape.affinity and pod.is_waiting else None
        if near is not None:
            self._wished.add(near)
        apart = self._numbers_of((term,) for term in shape.anti_affinity)
        return Company(plain=shape.key, near=near, apart=apart, matches=matches)

    def _shape(self, shape: PodShape, company: Company, matched: set[tuple[int | None, int]]) -> PodShape:
        """The shape with its company, under a key that says the same in every cycle."""
        if company.near is not None:
            company = replace(
                company,
                in_gang=any(near != company.near for near, number in matched if number == company.near),
                begins=(company.near, company.near) in matched,
            )
        known = self._shapes.get(company)
        if known is None:
            near = () if company.near is None else self.terms[company.near]
            others = [[self.terms[each] for each in some] for some in (company.apart, company.matches)]
            content = repr((near, others, company.in_gang, company.begins)).encode()
            digest = blake2b(content, digest_size=_KEY_BYTES).hexdigest()
            known = replace(shape, key=ShapeKey(f"{shape.key}+{digest}"), company=company)
            self._shapes[company] = known
        return known

    def _matches(self, namespace: str, labels: PodLabels, own: PodLabels) -> tuple[int, ...]:
        """The numbers of all terms that mean a pod with these labels."""
        found = self._known.get((namespace, labels, own))
        if found is None:
            pairs = dict((*labels.pairs, *own.pairs))
            meant = {
                each.number
                for key in [None, *pairs.items()]
                for each in self._index.get(key, ())
                if each.means(namespace, pairs)
            }
            found = self._known[namespace, labels, own] = tuple(sorted(meant))
        return found

    def _numbers_of(self, terms: Iterable[AffinityTerms]) -> tuple[int, ...]:
        return tuple(sorted({self._numbers[each] for each in terms if each in self._numbers}))

    def _tables(
        self, matches: Sequence[int], avoids: Sequence[int], node: NodeName
    ) -> Iterator[tuple[Counts, str]]:
        """The counts that a pod on this node adds to, with the value of the label."""
        labels = self._labels.get(node, {})
        for number in matches:
            for counts, term in zip(self.matching[number], self.terms[number], strict=True):
                if term.topology_key in labels:
                    yield counts, labels[term.topology_key]
        for number in avoids:
            key = self.terms[number][0].topology_key
            if key in labels:
                yield self.avoiding[number], labels[key]


def _indexed(
    terms: Sequence[AffinityTerms], namespaces: Mapping[str, Mapping[str, str]]
) -> dict[tuple[str, str] | None, list[_Meant]]:
    """All terms by a label that their pods must have; under None those that ask for no certain one."""
    index: dict[tuple[str, str] | None, list[_Meant]] = {}
    for number, each in enumerate(terms):
        where = tuple(_namespaces(term.namespaces, term.namespace_selector, namespaces) for term in each)
        meant = _Meant(number, each, where)
        for key in required_label_pairs(each):
            index.setdefault(key, []).append(meant)
    return index


def _namespaces(
    names: Sequence[str], selector: Term | None, known: Mapping[str, Mapping[str, str]]
) -> frozenset[str] | None:
    if selector is None:
        return frozenset(names)
    if not selector.requirements:
        return None
    return frozenset((*names, *(name for name, labels in known.items() if labels_match(labels, selector))))


def label_value(labels: Mapping[str, str], key: str) -> str:
    """The value of a label as problems name it: empty for none, since a label may be there and empty."""
    return quoted_value(labels[key]) if key in labels else ""


def quoted_value(value: str) -> str:
    """A value as problems name it; quotes are in no value of a label."""
    return value or _EMPTY


def _positive(counts: Counts) -> list[str]:
    return [value for value, count in counts.items() if count > 0]
