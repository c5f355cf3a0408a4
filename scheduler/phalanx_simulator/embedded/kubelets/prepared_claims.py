"""Whether a kubelet can prepare the ResourceClaims of a pod: until then the pod stays Pending on its node."""

from typing import Final

from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.controllers.device_driver import DRIVER_STOPPED
from phalanx_simulator.embedded.controllers.resource_claims import CLAIMS
from phalanx_simulator.embedded.pod_claims import claim_names
from phalanx_simulator.embedded.store import Key, Object

CLAIMS_REFUSED: Final = "sim.phalanx.dev/claims-refused"
"""Annotation of a node: its drivers cannot prepare claims while it has this."""


def why_unprepared(client: Client, pod: Object, node: Object) -> str:
    """Why the claims cannot be prepared; empty if they can.

    As a real kubelet, it requires that each claim is allocated and reserved for the pod, also the one for its
    extended resources.
    """
    names = claim_names(pod)
    if not names:
        return ""
    annotations = node["metadata"].get("annotations") or {}
    if CLAIMS_REFUSED in annotations or DRIVER_STOPPED in annotations:
        return "a driver does not answer"
    reasons = (_why_not(client, pod, name) for name in names)
    return next(filter(None, reasons), "")


def _why_not(client: Client, pod: Object, name: str) -> str:
    meta = pod["metadata"]
    claim = client.get(Key(CLAIMS, meta["namespace"], name)) if name else None
    status = claim.get("status") or {} if claim is not None else {}
    if claim is None or not status.get("allocation"):
        return f"claim {name} is not allocated"
    if all(each["uid"] != meta["uid"] for each in status.get("reservedFor") or ()):
        return f"claim {name} is not reserved for the pod"
    return ""
