"""The supplies that write something before pods are bound, in the order in which the binder asks them."""

from functools import cache
from importlib.metadata import entry_points
from typing import Final

from phalanx.kube.devices.claim_preparation import ClaimPreparer
from phalanx.kube.preparation import PreparerType
from phalanx.kube.volume_binder import VolumePreparer

ENTRY_POINT_GROUP: Final = "phalanx.preparers"

_BUILT_IN: Final[tuple[PreparerType, ...]] = (VolumePreparer, ClaimPreparer)


@cache
def preparers() -> tuple[PreparerType, ...]:
    """Those of other distributions come last, by the names of their entry points."""
    installed = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name)
    return (*_BUILT_IN, *(entry.load() for entry in installed))
