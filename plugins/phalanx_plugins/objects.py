"""Refuses a gang whose own objects are invalid, or request what this scheduler does not support.

Examples are a missing or inconsistent PodGroup, an invalid value, or a constraint that is not supported. Such
a constraint is not ignored, since placements would violate it. The verdict names the field.
"""

from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.reasons import Objection


class Objects(Plugin):
    """Reports the first problem that was found while the objects were read."""

    name = "objects"
    lasting_answers = True

    def check_gang(self, gang: Gang, view: SessionView) -> Objection | None:
        """The first problem of the gang's objects."""
        return gang.problems[0] if gang.problems else None
