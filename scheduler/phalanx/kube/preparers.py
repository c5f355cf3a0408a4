"""The supplies that write something before pods are bound, in the order in which the binder asks them."""

from typing import Final

from phalanx.kube.devices.claim_preparation import ClaimPreparer
from phalanx.kube.preparation import PreparerType
from phalanx.kube.volume_binder import VolumePreparer

PREPARERS: Final[tuple[PreparerType, ...]] = (VolumePreparer, ClaimPreparer)
