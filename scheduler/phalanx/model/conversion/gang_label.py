"""The label `gang`: it makes a gang of a workload, whose object says how many pods there are.

On other pods it is refused, since each of them alone would be a part of a gang.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.names import LABEL_GANG, LABEL_MIN_MEMBER
from phalanx.model.pods import Controller, Pod
from phalanx.model.reasons import Objection, Reason
from phalanx.model.workloads.known import POD

_BY_LABEL: Final = f"Set the label {LABEL_MIN_MEMBER} to this number, or create a PodGroup"


def problems_of_pod(controller: Controller | None) -> Iterator[Objection]:
    """Of a pod with the label that names no PodGroup and no minimum."""
    if controller is None:
        yield _uncounted("the pod has no owner that says", "Create a PodGroup")
    elif not controller.workload:
        yield _uncounted(f"the kind {controller.kind} of its owner does not say", _BY_LABEL)


def problems_of_pods_of_pods(members: Sequence[Pod], group: PodGroup | None) -> Iterator[Objection]:
    """Of members that another pod makes, such as executors: only a workload with their role counts them."""
    made = [pod for pod in members if pod.controller is not None and pod.controller.workload == POD]
    roles = {role.name for role in group.roles} if made and group is not None else set()
    for pod in made:
        is_counted = pod.group is not None or pod.min_member is not None or pod.role in roles
        asks = dict(pod.all_labels).get(LABEL_GANG, "false") != "false"
        if pod.is_waiting and not is_counted and asks:
            yield _uncounted(f"pod {pod.name} was made by a pod, and no workload says", _BY_LABEL)
            return


def _uncounted(why: str, next_step: str) -> Objection:
    message = f"label {LABEL_GANG}: {why} how many pods start together"
    return Objection(Reason.INCONSISTENT_GANG, message, next_step)
