"""Refuses a gang whose own objects are wrong, or ask for what this scheduler does not support yet.

A PodGroup that is missing or contradicts itself, an invalid value, a field or constraint that is not
honoured: placing the pods as if it were not there would break what they ask for. The verdict names the
field.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Objection


class Objects(Plugin):
    """The problems were found while the objects were read; the first one is told."""

    name = "objects"

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """The first problem of the gang's objects."""
        return gang.problems[0] if gang.problems else None
