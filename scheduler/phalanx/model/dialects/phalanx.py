"""PodGroups of Phalanx, which pods name by a label."""

from typing import Final

from phalanx.model.conversion.pod_groups import read_pod_group
from phalanx.model.dialects.dialect import Dialect, label
from phalanx.model.names import API_GROUP, LABEL_POD_GROUP

PHALANX: Final = Dialect(
    name=API_GROUP,
    kind="PodGroup",
    field=f"label {LABEL_POD_GROUP}",
    minimum_field="minMember",
    topology_field="spec.topology",
    group_of=label(LABEL_POD_GROUP),
    read=read_pod_group,
)
