"""PodGroups of scheduler-plugins: `scheduling.x-k8s.io/v1alpha1`, which pods name by a label.

docs/dialects/scheduler-plugins.md states what becomes of each field.
"""

from typing import Final

from phalanx.model.api.pod_groups import PodGroupSpec
from phalanx.model.api.scheduler_plugins import SchedulerPluginsPodGroup
from phalanx.model.conversion.min_resources import read_min_resources
from phalanx.model.conversion.pod_groups import PodGroup, fields_of_metadata
from phalanx.model.dialects.dialect import Dialect, label, unsupported_field
from phalanx.model.names import LABEL_QUEUE
from phalanx.model.reasons import Objection, Reason

_LABEL: Final = "scheduling.x-k8s.io/pod-group"


def read_scheduler_plugins_pod_group(written: SchedulerPluginsPodGroup) -> PodGroup:
    """Convert one PodGroup.

    Its controller does not count: it is often an indirect owner of the pods, such as a TrainJob.
    """
    meta, spec = written.metadata, written.spec
    min_member, wrong = max(spec.min_member, 1), list[str]()
    return PodGroup(
        **fields_of_metadata(SchedulerPluginsPodGroup.__name__, meta),
        spec=PodGroupSpec(min_member=min_member, queue=meta.labels.get(LABEL_QUEUE) or None),
        min_member=min_member,
        min_resources=read_min_resources(spec.min_resources, wrong),
        records_start=False,
        problems=(
            *[unsupported_field(path) for path in written.unknown_fields],
            *[Objection(Reason.INVALID_OBJECT, f"PodGroup field {error}") for error in wrong],
        ),
    )


SCHEDULER_PLUGINS: Final = Dialect(
    name="scheduling.x-k8s.io",
    kind=SchedulerPluginsPodGroup.__name__,
    field=f"label {_LABEL}",
    minimum_field="minMember",
    topology_field="",
    group_of=label(_LABEL),
    read=read_scheduler_plugins_pod_group,
)
