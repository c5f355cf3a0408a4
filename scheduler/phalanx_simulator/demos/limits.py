"""Bounds of the demo, each with its unit and its reason."""

from typing import Final

DEMO_STEP_TIMEOUT_S: Final = 60.0
"""Seconds that one step of the demo may take. On idle cores each takes a few, and nobody watches longer."""

DEMO_POLL_S: Final = 0.1
"""Seconds between two checks of the demo without a change: less than a viewer notices."""

DEMO_FRAME_S: Final = 0.1
"""Seconds between two frames of act 1 on a terminal. It looks alive and costs little."""
