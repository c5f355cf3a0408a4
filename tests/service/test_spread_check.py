"""The pods that a spread constraint counts are counted once for all pods of a placement."""

from collections.abc import Iterator

from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import AffinityTerm
from phalanx.service.write_checks import SpreadCheck, SpreadCounts

from tests.assumed import assumed
from tests.model.written import node, pod


class Counting(Cache):
    asked = 0

    def spread_counts(self, term: AffinityTerm) -> Iterator[tuple[NodeName, int]]:
        self.asked += 1
        return super().spread_counts(term)


def test_pods_of_one_placement_are_counted_once() -> None:
    cache = Counting(scheduler_name="phalanx")
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    nodes = [node(name, labels={"zone": name}) for name in ("a", "b")]
    fields = {"labels": {"app": "x"}, "topologySpreadConstraints": [constraint]}
    pods = [pod(name, uid=name, **fields) for name in ("p", "q", "r")]
    cache.apply_all(map(Applied, (*nodes, *pods)))
    for name, where in (("p", "a"), ("q", "b"), ("r", "a")):
        cache.apply(assumed(name, where))
    check = SpreadCheck(cache)
    assert _objections(cache, check, {}) == [None, None, None]
    assert cache.asked == 1
    cache.apply(Applied(pod("s", uid="s", labels={"app": "x"}, nodeName="a")))
    text = "topology spread by zone: maxSkew 1 would be 2"
    assert _objections(cache, check, {}) == [text, None, text]
    cache.apply(Applied(node("c", labels={"zone": "c"})))
    text = "topology spread by zone: maxSkew 1 would be 3"
    assert _objections(cache, check, {}) == [text, None, text]


def _objections(cache: Cache, check: SpreadCheck, known: SpreadCounts) -> list[str | None]:
    found = [cache.pod(PodUid(name)) for name in ("p", "q", "r")]
    return [check.objection(each, known) for each in found if each is not None]
