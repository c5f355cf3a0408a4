"""What is not necessary is left out, also where one part makes another necessary."""

from collections.abc import Sequence

from phalanx.actions.explanations.deletion_filter import necessary


def test_what_is_not_necessary_is_left_out() -> None:
    assert necessary("abcd", lambda parts: {"b", "d"} <= set(parts)) == ["b", "d"]


def test_a_part_that_only_another_makes_necessary_is_left_out_with_it() -> None:
    def is_enough(parts: Sequence[str]) -> bool:
        return "node" in parts and ("toleration" not in parts or "spread" in parts)

    assert necessary(["node", "spread", "toleration"], is_enough) == ["node"]


def test_one_part_stays() -> None:
    assert necessary(["a", "b"], lambda parts: True) == ["b"]
