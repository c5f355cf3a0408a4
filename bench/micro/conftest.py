"""Measures the CPU time of a function relative to a reference loop that is measured at the same time.

A budget is the number of rounds of that loop per item. A slow or busy machine slows down both, so budgets do
not depend on the machine, and a budget that is exceeded shows that the code became slower.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct
from pytest_benchmark.fixture import BenchmarkFixture

REFERENCE_ROUNDS = 20_000
REPETITIONS = 5

Measure = Callable[..., None]


class Cost(Struct, frozen=True):
    """The CPU time of one item, in microseconds and in rounds of the reference loop."""

    what: str
    microseconds: float
    rounds: float
    budget: float


COSTS: pytest.StashKey[list[Cost]] = pytest.StashKey()


class Object:
    """The objects that the reference loop creates."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number


def reference_loop() -> int:
    """The typical operations of product code: create named objects, look them up, call and count them."""
    known: dict[str, Object] = {}
    total = 0
    for number in range(REFERENCE_ROUNDS):
        each = Object(f"object-{number % 1000}", number)
        before = known.get(each.name)
        known[each.name] = each
        total += each.number - (before.number if before is not None else 0)
    return total


def seconds_of_a_round() -> float:
    """The minimum of several measurements, since disturbances only make them longer."""
    least = float("inf")
    for _ in range(REPETITIONS):
        began = time.process_time()
        reference_loop()
        least = min(least, time.process_time() - began)
    return least / REFERENCE_ROUNDS


@pytest.fixture
def measure(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> Measure:
    """`measure(work, items=N, budget=B)`: fails when one item costs more than B rounds of the loop.

    `prepared` creates the arguments of each run outside the measurement.
    """

    def measured(
        work: Callable[..., Any],
        *,
        items: int,
        budget: float,
        prepared: Callable[[], tuple[Any, ...]] = tuple,
    ) -> None:
        before = seconds_of_a_round()
        benchmark.pedantic(  # type: ignore[no-untyped-call]
            work, setup=lambda: (prepared(), {}), rounds=REPETITIONS, warmup_rounds=1
        )
        assert benchmark.stats is not None
        each = benchmark.stats.stats.min / items
        rounds = each / min(before, seconds_of_a_round())
        cost = Cost(request.node.name.removeprefix("test_"), each * 1e6, rounds, budget)
        request.config.stash.setdefault(COSTS, []).append(cost)
        benchmark.extra_info.update(rounds=rounds, budget=budget)
        assert rounds <= budget, f"{rounds:.0f} rounds of the reference loop each, the budget is {budget}"

    return measured


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line for each benchmark."""
    rows = config.stash.get(COSTS, [])
    width = max((len(row.what) for row in rows), default=0)
    for row in rows:
        share = 100 * row.rounds / row.budget
        terminalreporter.write_line(
            f"{row.what:{width}} {row.microseconds:12.1f} us {row.rounds:10.0f} rounds, "
            f"{share:.0f} % of the budget"
        )
