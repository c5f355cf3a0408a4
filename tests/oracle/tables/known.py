"""Rows of kube-scheduler's tests in which Phalanx is known to differ, and why."""

from typing import Final

KNOWN: Final = {
    "volumerestrictions/": "whether another pod uses the same disk without a claim is not checked",
    "volumebinding/TestVolumeBinding/": "volumes that exist already are not bound to claims that wait",
    "dynamicresources/": "claims to devices are refused",
}
"""Beginnings of the names of tests."""


def why_known(test: str) -> str:
    """Why a row differs; empty if that is not known."""
    return next((why for begin, why in KNOWN.items() if test.startswith(begin)), "")
