"""All dialects, and which of them a pod uses."""

from collections.abc import Mapping
from typing import Final

from phalanx.model.api.core import Pod
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.dialects.kai import KAI
from phalanx.model.dialects.native import NATIVE
from phalanx.model.dialects.phalanx import PHALANX
from phalanx.model.dialects.scheduler_plugins import SCHEDULER_PLUGINS
from phalanx.model.dialects.volcano import VOLCANO

_ALL: Final = (PHALANX, NATIVE, SCHEDULER_PLUGINS, VOLCANO, KAI)

DIALECTS: Final[Mapping[str, Dialect]] = {dialect.name: dialect for dialect in _ALL}
"""By name. If a pod names groups of several, the first one decides which gang reports the error."""


def named_groups(pod: Pod) -> list[tuple[Dialect, str]]:
    """The groups that a pod names, at most one per dialect."""
    return [(dialect, name) for dialect in DIALECTS.values() if (name := dialect.group_of(pod))]
