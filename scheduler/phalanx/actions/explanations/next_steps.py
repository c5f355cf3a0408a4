"""The next step of a verdict as one sentence: what to wait for, and what lets the gang start."""

from collections.abc import Sequence
from typing import Final

from phalanx.actions.explanations.advice import Action, Advice

WORK_ENDS: Final = "then wait until running work ends"


def sentence(advice: Advice, otherwise: str) -> str:
    """Each part is enough by itself. `otherwise`: the text if there is no advice."""
    if advice.events:
        wait = f"Wait until {' or '.join(event.text for event in advice.events)}"
        return f"{wait}; to start now, {_either(advice.actions)}" if advice.actions else wait
    now = _either(advice.actions)
    later = f"{_either(advice.later_actions)}; {WORK_ENDS}" if advice.later_actions else ""
    text = "; or ".join(part for part in (now, later) if part) or otherwise
    return text[:1].upper() + text[1:]


def _either(actions: Sequence[Action]) -> str:
    return ", or ".join(action.text for action in actions)
