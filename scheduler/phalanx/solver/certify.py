"""Certificates: what was reached, what was proven, and a digest of the problem that it is about."""

import hashlib
from collections.abc import Sequence

import msgspec

from phalanx.model.decisions import Certificate
from phalanx.solver.objective import Scorer
from phalanx.solver.problem import Assignment, Placed, PlacementProblem

_DIGITS = 32


def fingerprint(problem: PlacementProblem) -> str:
    """Digest of the whole problem: equal problems, and practically only those, have equal fingerprints."""
    encoded = msgspec.json.encode(problem, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:_DIGITS]


def certified(
    scorer: Scorer, assignments: Sequence[Assignment], *, bound: tuple[int, ...] | None, by: str
) -> Placed:
    """The placement with its certificate; no placement of the problem is lexicographically below `bound`.

    Without a bound the placement itself is known to be optimal.
    """
    objective = scorer.score(assignments)
    ordered = tuple(sorted(assignments, key=lambda one: (one.role, one.node)))
    certificate = Certificate(
        terms=scorer.terms,
        objective=objective,
        bound=objective if bound is None else bound,
        proven=bound is None or objective == bound,
        by=by,
        fingerprint=fingerprint(scorer.problem),
    )
    return Placed(assignments=ordered, certificate=certificate)
