"""Answers that are remembered: a question about the same problem with the same effort is not solved again.

Explanations ask nearly the same of each gang, and a cluster comes back to what it was: when a node flaps, or
when what was taken is given back. An answer follows from its problem alone, so remembering changes none.
"""

import hashlib
from typing import Final

import msgspec

from phalanx.limits import SOLVER_CACHE_ENTRIES_MAX
from phalanx.solver.engine import place
from phalanx.solver.problem import Answer, PlacementProblem, SolveLimits

DIGEST_BYTES: Final = 16


class Answers:
    """The answers that were asked for last, by a digest of the problem and the limits."""

    def __init__(self, kept: int = SOLVER_CACHE_ENTRIES_MAX) -> None:
        self._kept = kept
        self._known: dict[bytes, Answer] = {}
        self._defects: list[str] = []

    def place(self, problem: PlacementProblem, *, limits: SolveLimits) -> Answer:
        """As the engine's."""
        content = msgspec.json.encode((problem, limits), order="deterministic")
        key = hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
        answer = self._known.pop(key, None) or place(problem, limits=limits)
        self._known[key] = answer
        self._defects.extend(answer.errors)
        if len(self._known) > self._kept:
            del self._known[next(iter(self._known))]
        return answer

    def take_errors(self) -> tuple[str, ...]:
        """What was wrong on the way to the answers that were asked for since the last call, each once."""
        errors, self._defects = tuple(dict.fromkeys(self._defects)), []
        return errors


ANSWERS: Final = Answers()
"""Those of this process, in which one cycle runs at a time."""
