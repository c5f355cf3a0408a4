"""Whether pods may be where they are: a checker written from the documentation of Kubernetes.

It shares no code with the scheduler. Sources: "Assigning Pods to Nodes", "Pod Topology Spread Constraints",
"Taints and Tolerations" and the reference of PodSpec (`hostPort`). It knows what `clusters.py` draws:
requests of cpu, node selectors, NoSchedule taints, host ports, required terms, DoNotSchedule constraints.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final

Document = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ANY_ADDRESS: Final = "0.0.0.0"


def violations(objects: Iterable[Document], nodes_of: Mapping[str, str]) -> list[str]:
    """What is wrong when the pending pods are on these nodes. Rules of pods that ran before are not new."""
    return list(_Cluster(objects, nodes_of).violations())


def placements(objects: Iterable[Document], members: Iterable[str]) -> Iterator[dict[str, str]]:
    """All placements of the members without a violation."""
    known, names = list(objects), list(members)
    nodes = [each["metadata"]["name"] for each in known if each["kind"] == "Node"]
    for chosen in product(nodes, repeat=len(names)):
        found = dict(zip(names, chosen, strict=True))
        if next(_Cluster(known, found).violations(), None) is None:
            yield found


class _Cluster:
    def __init__(self, objects: Iterable[Document], nodes_of: Mapping[str, str]) -> None:
        known = list(objects)
        self.nodes = {each["metadata"]["name"]: each for each in known if each["kind"] == "Node"}
        self.pods = [each for each in known if each["kind"] == "Pod"]
        self.new = [pod for pod in self.pods if _name(pod) in nodes_of]
        self.on = {_name(pod): nodes_of.get(_name(pod)) or pod["spec"].get("nodeName") for pod in self.pods}

    def violations(self) -> Iterator[str]:
        yield from self._full_nodes()
        for pod in self.new:
            node = self.nodes[self.on[_name(pod)]]
            if not _tolerates(pod, node):
                yield f"{_name(pod)}: a taint of {_name(node)}"
            if not _is_selected(pod, node):
                yield f"{_name(pod)}: the labels of {_name(node)}"
            yield from self._ports(pod)
            yield from self._anti_affinity(pod)
            yield from self._affinity(pod)
            yield from self._spread(pod)

    def _others(self, pod: Document) -> list[Document]:
        return [other for other in self.pods if other is not pod and self.on[_name(other)]]

    def _label(self, pod: Document, key: str) -> str | None:
        """The label of the node of a pod."""
        value: str | None = self.nodes[self.on[_name(pod)]]["metadata"]["labels"].get(key)
        return value

    def _full_nodes(self) -> Iterator[str]:
        for name, node in self.nodes.items():
            held = [pod for pod in self.pods if self.on[_name(pod)] == name]
            new = [pod for pod in held if pod in self.new]
            if new and sum(map(_cores, held)) > int(node["status"]["allocatable"]["cpu"]):
                yield f"{name}: too many cores"

    def _ports(self, pod: Document) -> Iterator[str]:
        for other in self._others(pod):
            if self.on[_name(other)] == self.on[_name(pod)] and _ports_clash(pod, other):
                yield f"{_name(pod)} and {_name(other)}: a port"

    def _anti_affinity(self, pod: Document) -> Iterator[str]:
        """Terms of both: a pod may not join a domain where another pod excludes it."""
        for other in self._others(pod):
            for owner, target in ((pod, other), (other, pod)):
                for term in _terms(owner, "podAntiAffinity"):
                    domain = self._label(owner, term["topologyKey"])
                    is_same = domain is not None and domain == self._label(target, term["topologyKey"])
                    if is_same and _matches(term, target):
                        yield f"{_name(owner)} excludes {_name(target)}"

    def _affinity(self, pod: Document) -> Iterator[str]:
        """Each term needs another pod in the domain, unless the pod is the first of a series.

        It is if it matches its own terms and no pod in any domain did before. Pods on nodes without the label
        are in no domain, as for kube-scheduler. Of two pods that match the terms of each other one is first.
        """
        for term in _terms(pod, "podAffinity"):
            if self._label(pod, term["topologyKey"]) is None:
                yield f"{_name(pod)}: no label {term['topologyKey']}"
        if self._is_alone(pod):
            rivals = [other for other in self.new if other is not pod and self._is_alone(other)]
            before = [other for other in self._others(pod) if other not in self.new]
            rivals = [other for other in rivals if self._serves(pod, other) and self._serves(other, pod)]
            if rivals or not self._serves(pod, pod) or any(self._serves(each, pod) for each in before):
                yield f"{_name(pod)}: no pod that it must be with"

    def _is_alone(self, pod: Document) -> bool:
        """Whether a term has no other pod in the domain."""
        return any(
            not any(
                _matches(term, other)
                and self._label(other, term["topologyKey"]) == self._label(pod, term["topologyKey"])
                for other in self._others(pod)
            )
            for term in _terms(pod, "podAffinity")
        )

    def _serves(self, other: Document, pod: Document) -> bool:
        """Whether a pod matches all affinity terms of another one, in some domain."""
        return all(
            _matches(term, other) and self._label(other, term["topologyKey"]) is not None
            for term in _terms(pod, "podAffinity")
        )

    def _spread(self, pod: Document) -> Iterator[str]:
        constraints = pod["spec"].get("topologySpreadConstraints", ())
        keys = [each["topologyKey"] for each in constraints]
        for constraint in constraints:
            key = constraint["topologyKey"]
            domain = self._label(pod, key)
            if domain is None:
                yield f"{_name(pod)}: no label {key}"
                continue
            eligible = [node for node in self.nodes.values() if _is_eligible(pod, node, constraint, keys)]
            counts = {node["metadata"]["labels"][key]: 0 for node in eligible}
            names = {_name(node) for node in eligible}
            for other in self._others(pod):
                if self.on[_name(other)] in names and _matches(constraint, other):
                    counts[self.nodes[self.on[_name(other)]]["metadata"]["labels"][key]] += 1
            least = min(counts.values(), default=0) if len(counts) >= constraint.get("minDomains", 1) else 0
            skew = counts.get(domain, 0) + _matches(constraint, pod) - least
            if skew > constraint["maxSkew"]:
                yield f"{_name(pod)}: skew {skew} over {key}"


def _name(document: Document) -> str:
    name: str = document["metadata"]["name"]
    return name


def _cores(pod: Document) -> int:
    return sum(int(each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"])


def _tolerates(pod: Document, node: Document) -> bool:
    keys = {each["key"] for each in pod["spec"].get("tolerations", ())}
    return all(taint["key"] in keys for taint in node["spec"].get("taints", ()))


def _is_selected(pod: Document, node: Document) -> bool:
    wanted: dict[str, str] = pod["spec"].get("nodeSelector", {})
    labels: dict[str, str] = node["metadata"]["labels"]
    return wanted.items() <= labels.items()


def _ports_clash(one: Document, other: Document) -> bool:
    return any(
        first["hostPort"] == second["hostPort"]
        and first.get("protocol", "TCP") == second.get("protocol", "TCP")
        and _addresses_clash(first.get("hostIP", _ANY_ADDRESS), second.get("hostIP", _ANY_ADDRESS))
        for first, second in product(_ports(one), _ports(other))
    )


def _addresses_clash(one: str, other: str) -> bool:
    return one == other or _ANY_ADDRESS in (one, other)


def _ports(pod: Document) -> list[Document]:
    return [port for each in pod["spec"]["containers"] for port in each.get("ports", ())]


def _terms(pod: Document, kind: str) -> list[Document]:
    found: list[Document] = pod["spec"].get("affinity", {}).get(kind, {}).get(_REQUIRED, [])
    return found


def _matches(term: Document, pod: Document) -> bool:
    wanted: dict[str, str] = term["labelSelector"]["matchLabels"]
    labels: dict[str, str] = pod["metadata"]["labels"]
    return wanted.items() <= labels.items()


def _is_eligible(pod: Document, node: Document, constraint: Document, keys: list[str]) -> bool:
    """Whether pods of a node count: it has all keys, and no policy excludes it."""
    if not all(key in node["metadata"]["labels"] for key in keys):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not _is_selected(pod, node):
        return False
    return constraint.get("nodeTaintsPolicy", "Ignore") == "Ignore" or _tolerates(pod, node)
