"""Runs the catcher of one mutant in a process in which the mutant is part of the code.

`python -m tests.bugbank.apply NAME` exits with 0 if the mutant was caught, and prints by what; with 1 if it
was not; with 2 if its edit does not fit the code. `--sound NAME ...` uses the unchanged code. `--seeds` uses
the simulated runs of `seeds.py`.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from tests.bugbank.bank import Drilled, Mutant, Played, Simulated
from tests.bugbank.preloaded import forget


class EditMisfit(Exception):
    """The old text of an edit does not occur exactly once."""


class _Editor(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from its edited source; every later import gets the same source."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._mutant.module:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path)
        assert found is not None
        assert found.origin is not None
        return importlib.util.spec_from_file_location(
            name, found.origin, loader=_Source(name, found.origin, self)
        )

    def edited(self, source: str) -> str:
        for old, new in self._mutant.edits.items():
            if source.count(old) != 1:
                raise EditMisfit(f"{self._mutant.module}: {source.count(old)} times: {old}")
            source = source.replace(old, new)
        return source


class _Source(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, editor: _Editor) -> None:
        super().__init__(name, path)
        self._editor = editor

    def get_code(self, fullname: str) -> object:
        return compile(self._editor.edited(Path(self.path).read_text()), self.path, "exec")


def apply_mutant(mutant: Mutant) -> None:
    """Apply the mutant to this process, in which no product code has run. Raises EditMisfit."""
    forget(mutant.module)
    sys.meta_path.insert(0, _Editor(mutant))
    importlib.import_module(mutant.module)


def seen_by(catcher: Simulated | Drilled | Played) -> str | None:
    """The first finding of the catcher; None if it finds nothing."""
    from phalanx.observe.logs import configure_logs

    configure_logs(level="critical")
    return next(_findings(catcher), None)


def _findings(catcher: Simulated | Drilled | Played) -> Iterator[str]:
    match catcher:
        case Simulated():
            yield from _simulated(catcher)
        case Drilled():
            yield from _drilled(catcher)
        case Played(play=play):
            module, _, name = play.partition(":")
            found = getattr(importlib.import_module(f"tests.bugbank.{module}"), name)()
            if found is not None:
                yield found


def _simulated(wanted: Simulated) -> Iterator[str]:
    from phalanx_simulator.invariants.catalogue import ALL_CHECKS
    from phalanx_simulator.runs.scenarios import Request, scenario_of
    from phalanx_simulator.runs.simulation import simulate

    for seed in range(wanted.first, wanted.last + 1):
        request = Request(
            seed=seed, nodes=wanted.nodes, hours=wanted.hours, faults=wanted.faults, load=wanted.load
        )
        summary = simulate(scenario_of(request, checks=ALL_CHECKS))
        for violation in summary.violations:
            yield f"seed {seed}: {violation.check} {violation.subject}: {violation.message}"


def _drilled(wanted: Drilled) -> Iterator[str]:
    from itertools import islice

    from phalanx_simulator.drills.catalogue import plans_of
    from phalanx_simulator.invariants.catalogue import ALL_CHECKS

    plans = plans_of(wanted.drill, seed=1, checks=ALL_CHECKS, operations=(wanted.act,))
    last = wanted.start + wanted.every * wanted.most
    for plan in islice(plans, wanted.start, last, wanted.every):
        problem = plan.outcome(ALL_CHECKS).problem
        if problem is not None:
            yield f"{plan.name}: {problem}"


def main(arguments: list[str]) -> int:
    from tests.bugbank.mutants import MUTANTS
    from tests.bugbank.seeds import SEEDS

    mutants = {mutant.name: mutant for mutant in MUTANTS}
    names = [name for name in arguments if name not in ("--sound", "--seeds")]
    by_seeds = "--seeds" in arguments
    known = SEEDS.keys() if by_seeds else mutants.keys()
    if not names or not known >= set(names):
        print(f"no such mutant among {len(known)}: {names}")
        return 3
    catchers = [SEEDS[name] if by_seeds else mutants[name].caught_by for name in names]
    if "--sound" in arguments:
        return _report(_first_seen(catchers))
    try:
        apply_mutant(mutants[names[0]])
        return _report(seen_by(catchers[0]))
    except EditMisfit as misfit:
        print(misfit)
        return 2
    except Exception as crash:  # a mutant that crashes the scheduler's own code is caught too
        return _report(f"crash: {type(crash).__name__}: {crash}")


def _first_seen(catchers: Sequence[Simulated | Drilled | Played]) -> str | None:
    """The first finding of these catchers in the unchanged code."""
    for catcher in catchers:
        try:
            seen = seen_by(catcher)
        except Exception as crash:
            seen = f"crash: {type(crash).__name__}: {crash}"
        if seen is not None:
            return f"{catcher}: {seen}"
    return None


def _report(seen: str | None) -> int:
    print(seen or "nothing seen")
    return 0 if seen else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
