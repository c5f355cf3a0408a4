"""Gangs of Volcano's PodGroups: what users of the plain workload write for Volcano."""

from copy import deepcopy

from phalanx.model.names import LABEL_POD_GROUP, LABEL_SUBGROUP

from phalanx_simulator.embedded.apiserver.kinds import VOLCANO_POD_GROUPS
from phalanx_simulator.embedded.store import Object


def for_volcano(made: tuple[Object, ...]) -> tuple[Object, ...]:
    """A PodGroup and its Job with a PodGroup of Volcano; a Job without a PodGroup is left as it is.

    What a PodGroup of Volcano cannot express is left out.
    """
    if len(made) == 1:
        return made
    group, job = made[0], deepcopy(made[1])
    metadata = job["spec"]["template"]["metadata"]
    for label in (LABEL_POD_GROUP, LABEL_SUBGROUP):
        metadata["labels"].pop(label, None)
    named = {"scheduling.k8s.io/group-name": group["metadata"]["name"]}
    metadata["annotations"] = {**metadata.get("annotations", {}), **named}
    kept = {
        key: group["spec"][key] for key in ("minMember", "queue", "priorityClassName") if key in group["spec"]
    }
    version, kind = VOLCANO_POD_GROUPS.api_version, VOLCANO_POD_GROUPS.kind
    return {"apiVersion": version, "kind": kind, "metadata": group["metadata"], "spec": kept}, job
