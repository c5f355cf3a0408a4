"""Caches answers: the same problem with the same effort limit is solved once.

Explanations solve nearly the same problems for each gang, and a cluster returns to earlier states: when a
node flaps, or when capacity is taken and given back. An answer is a function of problem and limits, so the
cache changes no decision. Least recently used entries are dropped; a look-up costs one encoding of the
problem.
"""

import hashlib
from typing import Final

import msgspec

from phalanx.rules.problem import PlacementProblem
from phalanx.solver.answer import Answer, SolveLimits
from phalanx.solver.engine import place

SOLVER_CACHE_ENTRIES_MAX: Final = 512
"""Cached results of solves, the most recent ones: those of some cycles with a few hundred each. A result
takes as much memory as its placement: 100 kB for a gang on 1,000 nodes, otherwise a few hundred bytes."""

DIGEST_BYTES: Final = 16


class AnswerCache:
    """The last answers by a digest of problem and limits, and the solver errors met on the way.

    The engine of a scheduler owns one and passes it to everything that explains or forecasts.
    """

    def __init__(self, size: int = SOLVER_CACHE_ENTRIES_MAX) -> None:
        self._size = size
        self._answers: dict[bytes, Answer] = {}
        self._errors: list[str] = []
        self.given = 0
        """The number of answers given, cached ones included."""

    def place(self, problem: PlacementProblem, *, limits: SolveLimits) -> Answer:
        self.given += 1
        content = msgspec.json.encode((problem, limits), order="deterministic")
        key = hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
        answer = self._answers.pop(key, None) or place(problem, limits=limits)
        self._answers[key] = answer
        self._errors.extend(answer.errors)
        if len(self._answers) > self._size:
            del self._answers[next(iter(self._answers))]
        return answer

    def take_errors(self) -> tuple[str, ...]:
        """Return the distinct errors of the answers given since the last call."""
        errors, self._errors = tuple(dict.fromkeys(self._errors)), []
        return errors
