"""The complete bank at once: which mutants are caught, by what, and in what time."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from msgspec import Struct

from bench.record import record
from tests.bugbank.bank import Drilled, Mutant, Played, Simulated, words_of
from tests.bugbank.children import ROOT, Answer, Children
from tests.bugbank.seeds import SEEDS

RESULTS = ROOT / "bench" / "results" / "bugbank.json"


class _Try(Struct, frozen=True):
    mutant: Mutant
    by: Simulated | Drilled | Played


class Result(Struct, frozen=True):
    """`caught`: by a catcher that finds nothing in the unchanged code. `seen`: its first finding or output.

    `by`: the catcher. A mutant has a second result if simulated runs should catch it too.
    """

    mutant: Mutant
    by: Simulated | Drilled | Played
    caught: bool
    seen: str
    seconds: float


def run(mutants: Sequence[Mutant], *, jobs: int = 2) -> Iterator[Result]:
    """One result after the other, in the order of the mutants; that of seeds follows that of the play.

    The catchers run on the unchanged code before that.
    """
    pool: SimpleQueue[Children] = SimpleQueue()
    helpers = [Children().__enter__() for _ in range(jobs)]
    for helper in helpers:
        pool.put(helper)

    def ask(try_: _Try, *, sound: bool = False) -> Answer:
        helper = pool.get()
        try:
            return helper.ask(try_.mutant.name, sound=sound, seeds=isinstance(try_.by, Simulated))
        finally:
            pool.put(helper)

    tries = [
        _Try(mutant, by)
        for mutant in mutants
        for by in (mutant.caught_by, SEEDS.get(mutant.name))
        if by is not None
    ]
    with ThreadPoolExecutor(jobs) as threads:
        catchers = list({one.by: one for one in tries}.values())
        answers = threads.map(lambda one: ask(one, sound=True), catchers)
        wrong = {
            one.by: answer.said for one, answer in zip(catchers, answers, strict=True) if answer.code != 1
        }
        for one, answer in zip(tries, threads.map(ask, tries), strict=True):
            yield _result(one, answer, wrong.get(one.by))
    for helper in helpers:
        helper.__exit__(None, None, None)


def one_per_catcher(mutants: Iterable[Mutant]) -> list[Mutant]:
    """The first mutant of each catcher."""
    firsts: dict[object, Mutant] = {}
    for mutant in mutants:
        firsts.setdefault(mutant.caught_by, mutant)
    return list(firsts.values())


def write(results: Sequence[Result], path: Path = RESULTS) -> None:
    """As JSON, to read and to compare later."""
    own = [one for one in results if one.by is one.mutant.caught_by]
    by_seeds = {one.mutant.name: one for one in results if one.by is not one.mutant.caught_by}
    document = {
        "mutants": len(own),
        "caught": sum(one.caught for one in own),
        "uncaught": [one.mutant.name for one in own if not one.caught],
        "seedRanges": len(by_seeds),
        "seedRangesThatCatch": sum(one.caught for one in by_seeds.values()),
        "bugs": [_written(one, by_seeds.get(one.mutant.name)) for one in own],
    }
    record(path, document)


def _written(one: Result, by_seeds: Result | None) -> dict[str, Any]:
    about = {"name": one.mutant.name, "issues": list(one.mutant.issues), "module": one.mutant.module}
    return {**about, **_outcome(one), **({} if by_seeds is None else {"seeds": _outcome(by_seeds)})}


def _outcome(one: Result) -> dict[str, Any]:
    return {
        "by": words_of(one.by),
        "caught": one.caught,
        "seen": one.seen,
        "seconds": round(one.seconds, 2),
    }


def _result(one: _Try, answer: Answer, wrong: str | None) -> Result:
    lines = answer.said.splitlines() or [f"ended with {answer.code}"]
    seen = f"the unchanged code fails too: {wrong}" if wrong is not None else lines[-1]
    return Result(one.mutant, one.by, answer.code == 0 and wrong is None, seen, answer.seconds)
