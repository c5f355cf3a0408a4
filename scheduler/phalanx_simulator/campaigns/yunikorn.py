"""Gangs of YuniKorn's applications: what users of the plain workload write for YuniKorn."""

import json
from copy import deepcopy

from phalanx.model.names import LABEL_POD_GROUP, LABEL_QUEUE, LABEL_SUBGROUP

from phalanx_simulator.embedded.store import Object

_DOMAIN = "yunikorn.apache.org"


def for_yunikorn(made: tuple[Object, ...]) -> tuple[Object, ...]:
    """A PodGroup and its Job as a Job with annotations; a Job without a PodGroup is left as it is.

    What task groups cannot express is left out.
    """
    if len(made) == 1:
        return made
    group, job = made[0], deepcopy(made[1])
    template, spec = job["spec"]["template"], group["spec"]
    metadata = template["metadata"]
    for label in (LABEL_POD_GROUP, LABEL_SUBGROUP, LABEL_QUEUE):
        metadata["labels"].pop(label, None)
    metadata["labels"]["applicationId"] = group["metadata"]["name"]
    resources = template["spec"]["containers"][0]["resources"]
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    task_group = {"name": "member", "minMember": spec["minMember"], "minResource": requests}
    written = {"task-group-name": "member", "task-groups": json.dumps([task_group])}
    if spec.get("queue"):
        written["queue"] = f"root.{spec['queue']}"
    more = {f"{_DOMAIN}/{key}": text for key, text in written.items()}
    metadata["annotations"] = {**metadata.get("annotations", {}), **more}
    return (job,)
