"""Gangs of native PodGroups: what users of the plain workload write with Kubernetes' own API."""

from copy import deepcopy
from typing import Any, Final

from phalanx.clock import Random
from phalanx.model.names import LABEL_POD_GROUP, LABEL_QUEUE, LABEL_SUBGROUP

from phalanx_simulator.embedded.apiserver.kinds import NATIVE_POD_GROUPS
from phalanx_simulator.embedded.store import Object

_BASIC: Final = 0.2
"""Share of the groups whose pods start one by one."""


def natively(made: tuple[Object, ...], random: Random, levels: dict[str, str]) -> tuple[Object, ...]:
    """A PodGroup and its Job as native ones; a Job without a PodGroup is left as it is.

    `levels`: the node label of each level. What native PodGroups cannot express is left out.
    """
    if len(made) == 1:
        return made
    group, job = made[0], deepcopy(made[1])
    labels = job["spec"]["template"]["metadata"]["labels"]
    for label in (LABEL_POD_GROUP, LABEL_SUBGROUP):
        labels.pop(label, None)
    job["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": group["metadata"]["name"]}
    return _group(group, random, levels), job


def _group(group: Object, random: Random, levels: dict[str, str]) -> Object:
    spec, basic, mode = group["spec"], random.random() < _BASIC, random.choice(("single", "all"))
    policy: dict[str, Any] = {"basic": {}} if basic else {"gang": {"minCount": spec["minMember"]}}
    written: dict[str, Any] = {"schedulingPolicy": policy}
    if not basic:
        written["disruptionMode"] = {mode: {}}
    required = (spec.get("topology") or {}).get("required")
    if required:
        written["schedulingConstraints"] = {"topology": [{"key": levels[required]}]}
    if "priorityClassName" in spec:
        written["priorityClassName"] = spec["priorityClassName"]
    meta = {**group["metadata"], "labels": {LABEL_QUEUE: spec["queue"]}}
    version, kind = NATIVE_POD_GROUPS.api_version, NATIVE_POD_GROUPS.kind
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": written}
