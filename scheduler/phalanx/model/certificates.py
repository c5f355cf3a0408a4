"""How good a placement is: the objective reached, the bound proven, and who proved it."""

from msgspec import Struct


class Certificate(Struct, frozen=True):
    """Objective and bound per term of a lexicographic objective, in the order of `terms`; smaller is better.

    `proven` only when the objective of the placement that was split onto nodes and checked equals the bound.
    `by` names the backend that gave the bound; `fingerprint` identifies the problem that was solved.
    """

    terms: tuple[str, ...]
    objective: tuple[int, ...]
    bound: tuple[int, ...]
    proven: bool
    by: str
    fingerprint: str = ""
