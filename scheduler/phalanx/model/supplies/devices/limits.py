"""Bounds of claims to devices that several modules share, each with its unit and its reason."""

from typing import Final

CLAIM_DEVICES_MAX: Final = 32
"""Devices of one claim: the API stores no more in its status."""

CLAIM_CONSUMERS_MAX: Final = 256
"""Pods that can use one claim: the API stores no more in its status."""

CLAIM_SEARCH_DEVICES_MAX: Final = 256
"""Devices that one search allocates together: each of them is a step of the search."""

DEVICE_BIND_TIMEOUT_S: Final = 600.0
"""Seconds in which the binding conditions of all devices of a placement must be true, as in kube-scheduler
(bindingTimeout)."""
