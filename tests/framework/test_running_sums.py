"""Incrementally updated sums equal sums that are computed again."""

from hypothesis import given
from hypothesis import strategies as st
from phalanx.framework.running_sums import RunningSum, RunningSums
from phalanx.model.resources import CPU, GPU, Resources, sum_of

from tests.examples import holds

AMOUNTS = st.dictionaries(st.sampled_from([CPU, GPU, "memory"]), st.integers(0, 9), max_size=3)
NAMES = [f"n{index}" for index in range(12)]
CHANGES = st.lists(st.tuples(st.sampled_from(NAMES), st.none() | AMOUNTS), max_size=4)


def by_kind(parts: dict[str, Resources]) -> list[tuple[frozenset[str], Resources]]:
    kinds = {frozenset(part) for part in parts.values()}
    return [
        (kind, dict(sorted(sum_of(part for part in parts.values() if part.keys() == kind).items())))
        for kind in sorted(kinds, key=sorted)
    ]


@holds(120)
@given(st.dictionaries(st.sampled_from(NAMES), AMOUNTS), st.lists(CHANGES, max_size=6))
def test_a_sum_does_not_depend_on_earlier_inputs(
    parts: dict[str, Resources], steps: list[list[tuple[str, Resources | None]]]
) -> None:
    sums = RunningSum[str]()
    for changes in [[], *steps]:
        parts = dict(parts)
        for name, amounts in changes:
            if amounts is None:
                parts.pop(name, None)
            else:
                parts[name] = amounts
        said = sums.of(parts)
        assert list(said.items()) == by_kind(parts)
        assert [list(total) for total in said.values()] == [sorted(total) for total in said.values()]


def test_a_returned_sum_never_changes() -> None:
    sums = RunningSum[str]()
    first = {name: {CPU: 1} for name in NAMES}
    before = sums.of(first)
    assert sums.of(first) is before
    sums.of({**first, "n3": {CPU: 5}})
    assert before == {frozenset({CPU}): {CPU: 12}}


def test_sums_are_kept_by_purpose_while_they_are_used() -> None:
    sums = RunningSums()
    assert sums.total("a", {"n": {CPU: 1}, "m": {GPU: 2, CPU: 1}}) == {CPU: 2, GPU: 2}
    assert sums.total("b", {"n": {CPU: 4}}) == {CPU: 4}
    assert sums.total("a", {}) == {}
    sums.forget_unused()
    assert len(sums) == 2
    assert sums.total("b", {"n": {CPU: 4}}) == {CPU: 4}
    sums.forget_unused()
    assert len(sums) == 1
    assert sums.total("a", {"n": {GPU: 1}}) == {GPU: 1}
