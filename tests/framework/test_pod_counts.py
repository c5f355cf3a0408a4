"""Counts of placed pods that sessions continue equal new ones, and no session changes those of another."""

from hypothesis import given
from hypothesis import strategies as st
from phalanx.framework.nodes.pod_counts import PodCounts, PodCountsCache
from phalanx.framework.nodes.pod_terms import PodTerms
from phalanx.model.names import NodeName
from phalanx.model.pods import AffinityTerm, Requirement, Term, WeightedPodTerm
from phalanx.model.snapshot import PlacedPods

from tests.examples import holds

LABELS = {NodeName(f"n{index}"): {"rack": f"r{index % 2}", "host": f"n{index}"} for index in range(4)}


def term(app: str, key: str, *, for_spread: bool = False) -> AffinityTerm:
    selector = Term((Requirement("app", "In", (app,)),))
    return AffinityTerm(key, selector=selector, namespaces=("team",), for_spread=for_spread)


SINGLE = [term(app, key) for app in "ab" for key in ("rack", "host")]
REQUIRED = (*[(each,) for each in SINGLE], (term("a", "rack"), term("a", "host")))
SPREAD = ((term("a", "host", for_spread=True),),)
TERMS = PodTerms((*REQUIRED, *SPREAD), tuple(SINGLE), {"team": {}})

placed = st.builds(
    PlacedPods,
    namespace=st.sampled_from(["team", "other"]),
    labels=st.sampled_from([(), (("app", "a"),), (("app", "b"),)]),
    anti_affinity=st.lists(st.sampled_from(SINGLE), max_size=2, unique=True).map(tuple),
    nodes=st.dictionaries(st.sampled_from(list(LABELS)), st.integers(1, 3), min_size=1, max_size=3),
    is_terminating=st.booleans(),
    preferred=st.lists(
        st.builds(WeightedPodTerm, st.integers(-2, 2), st.sampled_from(SINGLE)), max_size=2
    ).map(tuple),
)


def tables(counts: PodCounts) -> object:
    return (counts.matching, counts.avoiding, counts.selected, counts.weights, counts.requiring)


@holds(60)
@given(st.data())
def test_continued_counts_equal_new_ones(data: st.DataObject) -> None:
    pool = data.draw(st.lists(placed, min_size=1, max_size=6))
    cache, made = PodCountsCache(), []
    for _ in range(data.draw(st.integers(1, 5))):
        pods = tuple(data.draw(st.lists(st.sampled_from(pool), unique_by=id, max_size=6)))
        counts = cache.counts(TERMS, LABELS, pods)
        new = PodCounts(TERMS, LABELS)
        new.add(pods)
        made.append((counts, tables(new)))
        used = cache.counts(TERMS, LABELS, pods)
        for table, value in used.tables(range(len(TERMS.required)), range(len(REQUIRED)), NodeName("n0")):
            table[value] = table.get(value, 0) + 1
        for table, value, amount in used.weight_tables(range(len(SINGLE)), [(0, 1), (1, 0)], NodeName("n1")):
            table[value] = table.get(value, 0) + amount
    for counts, expected in made:
        assert tables(counts) == expected
