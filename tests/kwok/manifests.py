"""Pods, their controllers and nodes whose every state transition KWOK plays on request."""

from collections.abc import Mapping
from typing import Any

from tests.e2e.pod_history import GROUP_LABEL
from tests.fake_objects import fake_node, fake_pod

Manifest = dict[str, Any]

GPU = "nvidia.com/gpu"
SITE = "site"
RACK = "rack"
RACKS = "racks"
"""The label of nodes, and the Topology with this label as its only level."""

RUNTIME = "pod-complete.stage.kwok.x-k8s.io/delay"


def chaos(stage: str, **settings: str) -> tuple[dict[str, str], dict[str, str]]:
    """Label and annotations for one of KWOK's chaos stages; `exit_code="42"` is `.../exit-code: "42"`.

    By default it applies at once: the jitter is the upper bound of the total delay.
    """
    prefix = f"{stage}.stage.kwok.x-k8s.io"
    given = {"delay": "0s", "jitter_delay": "0s"} | settings
    return {prefix: "true"}, {f"{prefix}/{key.replace('_', '-')}": value for key, value in given.items()}


def node(site: str, name: str, *, gpus: int = 8, rack: str = "", **allocatable: str) -> Manifest:
    """A GPU server of one site."""
    labels = {SITE: site, **({RACK: rack} if rack else {})}
    return fake_node(name, labels=labels, allocatable={GPU: str(gpus), **allocatable})


def pod(
    site: str,
    name: str,
    *,
    gang: str = "",
    gpus: int = 8,
    runtime: str = "",
    init: str = "",
    priority_class: str = "",
) -> Manifest:
    """A pod for the nodes of a site, in its namespace.

    `runtime`: run time; without it the pod runs without end. `init`: the name of an init container.
    """
    requests = {GPU: str(gpus)} if gpus else {"cpu": "1"}
    manifest = fake_pod(name, namespace=site, labels={GROUP_LABEL: gang} if gang else None, requests=requests)
    manifest["metadata"]["annotations"] = {RUNTIME: runtime} if runtime else {}
    manifest["spec"] |= {"nodeSelector": {SITE: site}, "terminationGracePeriodSeconds": 1}
    if priority_class:
        manifest["spec"]["priorityClassName"] = priority_class
    if init:
        manifest["spec"]["initContainers"] = [{"name": init, "image": "fake"}]
    return manifest


def job(
    site: str, name: str, *, size: int, gang: str = "", limit_per_index: int | None = None, **shape: Any
) -> Manifest:
    """A Job that runs all its pods at once and ignores disruptions; Indexed if it has a limit per index."""
    ignore = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    spec = {
        "parallelism": size,
        "completions": size,
        "podFailurePolicy": {"rules": [ignore]},
        "template": _template(site, gang or name, restart="Never", **shape),
    }
    if limit_per_index is not None:
        spec |= {"completionMode": "Indexed", "backoffLimitPerIndex": limit_per_index}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _named(site, name), "spec": spec}


def replicas(site: str, name: str, *, size: int, **shape: Any) -> Manifest:
    """A ReplicaSet: recreates a pod as soon as it is gone, has failed, or is being deleted."""
    template = _template(site, name, restart="Always", **shape)
    template["metadata"]["labels"]["app"] = name
    spec = {"replicas": size, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": _named(site, name), "spec": spec}


def _template(site: str, gang: str, *, restart: str, **shape: Any) -> Manifest:
    made = pod(site, "", gang=gang, **shape)
    made["spec"]["restartPolicy"] = restart
    metadata = {key: made["metadata"][key] for key in ("labels", "annotations")}
    return {"metadata": metadata, "spec": made["spec"]}


def _named(site: str, name: str) -> dict[str, str]:
    return {"name": name, "namespace": site}


def recovery(
    *, node_loss: str = "Wait", member_failure: str = "Wait", grace: str = "0s"
) -> Mapping[str, str]:
    """The `recovery` field of a PodGroup."""
    return {"onNodeLoss": node_loss, "onMemberFailure": member_failure, "gracePeriod": grace}


def topology() -> Manifest:
    """One level: racks."""
    version = "scheduling.phalanx.dev/v1alpha1"
    levels = [{"name": RACK, "nodeLabel": RACK}]
    return {
        "apiVersion": version,
        "kind": "Topology",
        "metadata": {"name": RACKS},
        "spec": {"levels": levels},
    }
