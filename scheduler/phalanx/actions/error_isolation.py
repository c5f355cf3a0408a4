"""An error in what is asked about one gang must not stop the others, nor the scheduler."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def isolate_errors(question: Callable[[], T], *, about: str, errors: list[str]) -> T | None:
    """The answer; None after an error, which is noted as a defect: the cycle is kept, as a bug to be mended.

    For questions that leave the session as it was, as statements do that are left by an error.
    """
    try:
        return question()
    except Exception as error:
        errors.append(f"{about}: {error!r}")
        return None
