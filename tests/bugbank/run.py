"""The whole bank at once: who is caught, by what, and how long that takes."""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from msgspec import Struct

from tests.bugbank.bank import Mutant
from tests.bugbank.children import ROOT, Answer, Children

RESULTS = ROOT / "bench" / "results" / "bugbank.json"


class Result(Struct, frozen=True):
    """`caught`: by something that sees nothing in the code as it is. `seen`: what it saw first, or says."""

    mutant: Mutant
    caught: bool
    seen: str
    seconds: float


def run(mutants: Sequence[Mutant], *, jobs: int = 2) -> Iterator[Result]:
    """One result after the other, in the order of the mutants. Catchers that see too much come first."""
    pool: SimpleQueue[Children] = SimpleQueue()
    helpers = [Children().__enter__() for _ in range(jobs)]
    for helper in helpers:
        pool.put(helper)

    def ask(mutant: Mutant, *, sound: bool = False) -> Answer:
        helper = pool.get()
        try:
            return helper.ask(mutant.name, sound=sound)
        finally:
            pool.put(helper)

    with ThreadPoolExecutor(jobs) as threads:
        judges = one_per_catcher(mutants)
        answers = threads.map(lambda mutant: ask(mutant, sound=True), judges)
        wrong = {
            mutant.caught_by: answer.said
            for mutant, answer in zip(judges, answers, strict=True)
            if answer.code != 1
        }
        for mutant, answer in zip(mutants, threads.map(ask, mutants), strict=True):
            yield _result(mutant, answer, wrong.get(mutant.caught_by))
    for helper in helpers:
        helper.__exit__(None, None, None)


def one_per_catcher(mutants: Iterable[Mutant]) -> list[Mutant]:
    """The first mutant of each catcher."""
    firsts: dict[object, Mutant] = {}
    for mutant in mutants:
        firsts.setdefault(mutant.caught_by, mutant)
    return list(firsts.values())


def write(results: Sequence[Result], path: Path = RESULTS) -> None:
    """As JSON, for people and for later comparison."""
    caught = sum(1 for one in results if one.caught)
    document = {
        "mutants": len(results),
        "caught": caught,
        "uncaught": [one.mutant.name for one in results if not one.caught],
        "bugs": [
            {
                "name": one.mutant.name,
                "issues": list(one.mutant.issues),
                "module": one.mutant.module,
                "caught": one.caught,
                "seen": one.seen,
                "seconds": round(one.seconds, 2),
            }
            for one in results
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _result(mutant: Mutant, answer: Answer, wrong: str | None) -> Result:
    lines = answer.said.splitlines() or [f"ended with {answer.code}"]
    seen = f"the code as it is fails too: {wrong}" if wrong is not None else lines[-1]
    return Result(mutant, answer.code == 0 and wrong is None, seen, answer.seconds)
