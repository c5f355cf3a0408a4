"""All dialects, and which of them a pod uses."""

from collections.abc import Mapping
from typing import Final

from phalanx.model.api.core import Pod
from phalanx.model.dialects.composite import COMPOSITE
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.dialects.kai import KAI
from phalanx.model.dialects.native import NATIVE
from phalanx.model.dialects.phalanx import PHALANX
from phalanx.model.dialects.scheduler_plugins import SCHEDULER_PLUGINS
from phalanx.model.dialects.volcano import VOLCANO
from phalanx.model.dialects.yunikorn import YUNIKORN
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import KUEUE_COUNT_ANNOTATION, LABEL_MIN_MEMBER

_ALL: Final = (PHALANX, NATIVE, COMPOSITE, SCHEDULER_PLUGINS, VOLCANO, KAI, YUNIKORN)

DIALECTS: Final[Mapping[str, Dialect]] = {dialect.name: dialect for dialect in _ALL}
"""By name. If a pod names groups of several, the first one decides which gang reports the error."""

WITH_OBJECTS: Final = tuple(dialect for dialect in _ALL if dialect.kind)
"""Those whose gangs are objects of the API."""


_NAMES_OF_GROUPS: Final = tuple(
    (dialect, dialect.group_of)
    for dialect in _ALL
    if dialect is not COMPOSITE and not dialect.group_annotations
)
_NAMES_IN_ANNOTATIONS: Final = tuple(
    (dialect, dialect.group_of) for dialect in _ALL if dialect.group_annotations
)
_GROUP_ANNOTATIONS: Final = frozenset(key for dialect in _ALL for key in dialect.group_annotations)


def how_to_lower_minimum(gang: Gang) -> str:
    """What lowers the minimum of a gang, as an imperative: a workload has no field for it, but a label."""
    if gang.workload:
        return f"set the label {LABEL_MIN_MEMBER} of the pods"
    if gang.kind is GangKind.LABEL:
        field = minimum_field_of_pods(has_controller=any(pod.controller for pod in gang.members))
        return f"lower the {field} of the pods"
    return f"lower {DIALECTS[gang.dialect].minimum_field}"


def minimum_field_of_pods(*, has_controller: bool) -> str:
    """What names the minimum in pods of a gang without an object: groups of Kueue have no controller."""
    return f"label {LABEL_MIN_MEMBER}" if has_controller else f"annotation {KUEUE_COUNT_ANNOTATION}"


def named_groups(pod: Pod) -> list[tuple[Dialect, str]]:
    """The groups that a pod names, at most one per dialect."""
    named: list[tuple[Dialect, str]] = []
    for dialect, group_of in _NAMES_OF_GROUPS:
        if name := group_of(pod):
            named.append((dialect, name))
    if not _GROUP_ANNOTATIONS.isdisjoint(pod.metadata.annotations):
        named += [(dialect, name) for dialect, group_of in _NAMES_IN_ANNOTATIONS if (name := group_of(pod))]
    return named
