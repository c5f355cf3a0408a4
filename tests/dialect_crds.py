"""CustomResourceDefinitions of the PodGroups of other projects, reduced to what Phalanx reads and writes.

Names, scope, versions and subresources are those of scheduler-plugins 0.34.7, Volcano 1.14.1 and KAI (its API
module of September 2026). So is the schema of the status. Any spec is accepted.
"""

from typing import Any

Schema = dict[str, Any]

_ANY: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_COUNT: Schema = {"type": "integer", "format": "int32"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_TEXT: Schema = {"type": "string"}
_CONDITION: Schema = {
    "lastTransitionTime": _TIME,
    "message": _TEXT,
    "reason": _TEXT,
    "status": _TEXT,
    "transitionID": _TEXT,
    "type": _TEXT,
}


def _list_of(properties: Schema) -> Schema:
    return {"type": "array", "items": {"type": "object", "properties": properties}}


def _crd(
    group: str, version: str, kind: str, plural: str, status: Schema, *, namespaced: bool, subresource: bool
) -> Schema:
    properties = {"spec": _ANY, "status": {"type": "object", "properties": status}}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}} if subresource else {},
    }
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    scope = "Namespaced" if namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": scope, "versions": [served]},
    }


SCHEDULER_PLUGINS = _crd(
    *("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups"),
    {
        "phase": _TEXT,
        "occupiedBy": _TEXT,
        "running": _COUNT,
        "succeeded": _COUNT,
        "failed": _COUNT,
        "scheduleStartTime": _TIME,
    },
    namespaced=True,
    subresource=True,
)
"""PodGroup of scheduler-plugins."""

VOLCANO = _crd(
    *("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
    {
        "phase": {**_TEXT, "enum": ["Pending", "Running", "Unknown", "Inqueue", "Completed"]},
        "conditions": _list_of(_CONDITION),
        "running": {**_COUNT, "minimum": 0},
        "succeeded": {**_COUNT, "minimum": 0},
        "failed": {**_COUNT, "minimum": 0},
    },
    namespaced=True,
    subresource=False,
)
"""PodGroup of Volcano, whose status is no subresource."""

VOLCANO_QUEUES = _crd(
    *("scheduling.volcano.sh", "v1beta1", "Queue", "queues"),
    {"state": {**_TEXT, "enum": ["Open", "Closed", "Closing", "Unknown"]}},
    namespaced=False,
    subresource=True,
)
"""Queue of Volcano."""

VOLCANO_JOBS = _crd(*("batch.volcano.sh", "v1alpha1", "Job", "jobs"), {}, namespaced=True, subresource=True)
"""Job of Volcano."""

JOB_SETS = _crd(*("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"), {}, namespaced=True, subresource=False)

HYPER_NODES = _crd(
    *("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes"), {}, namespaced=False, subresource=True
)
"""HyperNode of Volcano."""

KAI = _crd(
    *("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups"),
    {
        "conditions": {"type": "array", "items": _ANY},
        "schedulingConditions": _list_of(
            {
                **_CONDITION,
                "nodePool": _TEXT,
                "reasons": _list_of({"details": _ANY, "message": _TEXT, "reason": _TEXT}),
            }
        ),
        "resourcesStatus": _ANY,
        "schedulingState": _ANY,
    },
    namespaced=True,
    subresource=True,
)
"""PodGroup of KAI."""

KAI_QUEUES = _crd(
    *("scheduling.run.ai", "v2", "Queue", "queues"),
    {"conditions": {"type": "array", "items": _ANY}, "allocated": _ANY},
    namespaced=False,
    subresource=True,
)
"""Queue of KAI."""

KAI_TOPOLOGIES = _crd(
    *("kai.scheduler", "v1alpha1", "Topology", "topologies"), {}, namespaced=False, subresource=False
)
"""Topology of KAI."""
