"""PodGroup of `scheduling.x-k8s.io/v1alpha1` (scheduler-plugins): API structs of its spec.

Its status is not decoded: the controller of scheduler-plugins writes it, and nothing depends on it.
"""

from collections.abc import Mapping
from typing import Final

from phalanx.model.api.core import Quantity
from phalanx.model.api.kind import pod_groups
from phalanx.model.api.meta import ApiStruct, Int32, KubeObject


class SchedulerPluginsPodGroupSpec(ApiStruct, frozen=True):
    """Desired behaviour of a group of pods."""

    min_member: Int32 = 0
    """At least 1 if it is written."""

    min_resources: Mapping[str, Quantity] = {}
    schedule_timeout_seconds: Int32 | None = None
    """Not read: it limits how long pods with nodes wait for the others. Phalanx places all at once."""


class SchedulerPluginsPodGroup(KubeObject, frozen=True):
    """A group of pods, which name it in the label `scheduling.x-k8s.io/pod-group`."""

    spec: SchedulerPluginsPodGroupSpec = SchedulerPluginsPodGroupSpec()
    unknown_fields: tuple[str, ...] = ()
    """No field of the API: the paths of fields of the spec that the structs lack, set by the decoder."""


KINDS: Final = (pod_groups(SchedulerPluginsPodGroup, "scheduling.x-k8s.io/v1alpha1"),)
