"""`python -m bench.advice`: follows every advice of random refusals, and checks their reasons.

    python -m bench.advice [--cases N] [--first-seed SEED] [--jobs N] [--without-reasons] [--write]

Each case is a random cluster of `tests/advice`. An advice that does not let the gang start, or a reason that
another obstacle contradicts, is printed with its seed, and so is an advice that is enough without one of its
parts. The lines after these count advice by kind, and refusals with an advice that a user can follow by
reason; the last line has the totals. The exit code is 1 if anything was false. `--write` writes the totals to
bench/results/advice.json.
"""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from msgspec import Struct

from bench.record import record
from tests.advice.obstacles import contradiction
from tests.advice.parts import without_a_part
from tests.advice.refusals import needless_parts, refusal_of, trials

RESULTS = Path(__file__).parent / "results" / "advice.json"


class Outcome(Struct, frozen=True):
    """One refusal: its reason, the kinds of its advice, and what is false."""

    seed: int
    reason: str
    kinds: tuple[str, ...]
    false_advices: tuple[str, ...]
    parts: int
    """Parts of advices that were left out, one at a time."""
    needless: tuple[str, ...]
    """Those without which the advice is enough too."""
    wrong_reason: str

    @property
    def has_advice(self) -> bool:
        """Whether a user can follow some advice; the end of all running work does not count."""
        return any(kind != "all end" for kind in self.kinds)


def outcome_of(seed: int, *, with_reasons: bool = True) -> Outcome | None:
    """The outcome of one seed; None if the gang is placed."""
    refusal = refusal_of(seed)
    if refusal is None:
        return None
    followed = trials(refusal)
    false = tuple(f"{trial.problem}: {trial.text}" for trial in followed if trial.problem)
    wrong = contradiction(refusal) if with_reasons else ""
    kinds = [trial.advice.kind if trial.advice is not None else "unreadable" for trial in followed]
    advices = [trial.advice for trial in followed if trial.advice is not None]
    parts = sum(1 for advice in advices for _ in without_a_part(advice))
    needless = tuple(
        f"enough without {part}: {refusal.verdict.next_step}"
        for advice in advices
        for part in needless_parts(refusal, advice)
    )
    return Outcome(seed, refusal.verdict.reason, tuple(kinds), false, parts, needless, wrong)


def main(arguments: list[str] | None = None) -> int:
    """Print what is false, then the counts."""
    parser = argparse.ArgumentParser(prog="python -m bench.advice", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="random clusters")
    parser.add_argument("--first-seed", type=int, default=0, help="of the first cluster")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--without-reasons", action="store_true", help="only follow advice")
    parser.add_argument("--write", action="store_true", help="write the totals")
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.cases)
    examine = partial(outcome_of, with_reasons=not options.without_reasons)
    found: list[Outcome] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(examine, seeds, chunksize=20):
            if outcome is not None:
                found.append(outcome)
                for problem in filter(
                    None, (*outcome.false_advices, *outcome.needless, outcome.wrong_reason)
                ):
                    print(f"seed {outcome.seed}: {outcome.reason}: {problem}", flush=True)
    totals = _totals(found, seeds)
    _summarize(found, totals)
    if options.write:
        record(RESULTS, totals)
    return 1 if any(each.false_advices or each.needless or each.wrong_reason for each in found) else 0


def _totals(found: list[Outcome], seeds: range) -> dict[str, int]:
    return {
        "first_seed": seeds.start,
        "cases": len(seeds),
        "refusals": len(found),
        "with_advice_that_a_user_can_follow": sum(outcome.has_advice for outcome in found),
        "advices": sum(len(outcome.kinds) for outcome in found),
        "do_not_help": sum(len(outcome.false_advices) for outcome in found),
        "parts": sum(outcome.parts for outcome in found),
        "needless_parts": sum(len(outcome.needless) for outcome in found),
        "wrong_reasons": sum(bool(outcome.wrong_reason) for outcome in found),
    }


def _summarize(found: list[Outcome], totals: dict[str, int]) -> None:
    kinds = Counter(kind for outcome in found for kind in outcome.kinds)
    print("by kind: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    for reason, count in Counter(outcome.reason for outcome in found).most_common():
        mine = sum(outcome.has_advice for outcome in found if outcome.reason == reason)
        print(f"{reason}: {count}, with an advice that a user can follow {mine}")
    print(", ".join(f"{name.replace('_', ' ')} {count}" for name, count in totals.items()))


if __name__ == "__main__":
    sys.exit(main())
