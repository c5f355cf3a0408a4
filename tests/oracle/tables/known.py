"""Rows of kube-scheduler's tests in which Phalanx is known to differ, and why."""

from typing import Final

_DRA: Final = "dynamicresources/TestPlugin/"
_CHOSEN_FIRST: Final = "the devices of a shared claim are chosen before nodes, and other nodes drop out"
_GIVEN_BACK: Final = "a claim of a template that is allocated before its pod has a node is given back first"
_NO_GROUP: Final = "the PodGroup that the pod names does not exist in the scenario"

KNOWN: Final = {
    f"{_DRA}single-claim-prioritized-list-scoring/": _CHOSEN_FIRST,
    f"{_DRA}multiple-requests-prioritized-list-scoring/": _CHOSEN_FIRST,
    f"{_DRA}multiple-claims-prioritized-list-scoring/": _CHOSEN_FIRST,
    f"{_DRA}bound-claim-without-binding-conditions/": _GIVEN_BACK,
    f"{_DRA}claim-template/": _GIVEN_BACK,
    f"{_DRA}bind-podgroup-failure/": _NO_GROUP,
    f"{_DRA}podgroup-": _NO_GROUP,
    f"{_DRA}reserved-okay-podgroup/": _NO_GROUP,
    "dynamicresources/TestPreFilterReusesPendingAllocation": _NO_GROUP,
    "dynamicresources/TestFilterReusesPendingAllocation": _NO_GROUP,
}
"""Beginnings of the names of tests."""


def why_known(test: str) -> str:
    """Why a row differs; empty if that is not known."""
    return next((why for begin, why in KNOWN.items() if test.startswith(begin)), "")
