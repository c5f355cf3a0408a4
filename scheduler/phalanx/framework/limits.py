"""Bounds of what a session keeps for the next one; others are in `scheduler/phalanx/limits.py`."""

from typing import Final

RUNNING_SUM_CHANGES_PART: Final = 4
"""A sum of whose parts more than one in so many changed is added up anew: quicker than one by one."""
