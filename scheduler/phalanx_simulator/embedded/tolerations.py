"""Taints and tolerations as the embedded controllers apply them.

Written apart from the scheduler's own reading on purpose: what judges the scheduler must not share its
mistakes.
"""

from typing import Any

from phalanx_simulator.embedded.store import Object


def is_tolerated(taint: Object, tolerations: list[Any]) -> bool:
    """Whether a toleration matches the taint."""
    return bool(answering(taint, tolerations))


def answering(taint: Object, tolerations: list[Any]) -> list[Object]:
    """The tolerations that match the taint."""
    return [
        toleration
        for toleration in tolerations
        if toleration.get("key", "") in ("", taint["key"])
        and toleration.get("effect", "") in ("", taint["effect"])
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
    ]
