"""Limits of the dashboard, each with its reason."""

from typing import Final

RECONNECT_PERIOD_S: Final = 600.0
"""Seconds after which the kubeconfig is read again: many tokens expire within an hour."""

GANGS_PER_PAGE: Final = 100
"""Gangs that the table of gangs shows at once. More rows slow a browser down."""

ACCESS_PERIOD_S: Final = 60.0
"""Seconds for which a review of a token counts. A right that is taken away is gone after them."""
