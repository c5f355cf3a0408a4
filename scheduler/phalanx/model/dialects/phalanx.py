"""PodGroups of Phalanx, which pods name by a label."""

from typing import Final

from phalanx.model.api.core import Pod
from phalanx.model.conversion.pod_groups import read_pod_group
from phalanx.model.dialects.dialect import Dialect
from phalanx.model.names import API_GROUP, LABEL_POD_GROUP


def _group_of(pod: Pod) -> str:
    return pod.metadata.labels.get(LABEL_POD_GROUP, "")


PHALANX: Final = Dialect(
    name=API_GROUP,
    kind="PodGroup",
    field=f"label {LABEL_POD_GROUP}",
    minimum_field="minMember",
    topology_field="spec.topology",
    group_of=_group_of,
    read=read_pod_group,
)
