"""Random small clusters with a gang: spread, affinity, anti-affinity, ports, taints, selectors.

Few names and values, so that rules meet, and enough capacity that most gangs fit somewhere.
"""

from typing import Any, Final

from hypothesis import strategies as st
from msgspec import Struct

Document = dict[str, Any]
Draw = st.DrawFn

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GROUP: Final = "default/gang"
_READY: Final = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
_KEYS: Final = (ZONE, ZONE, HOST)
_APPS: Final = ("x", "y")
_TAINT: Final = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class GangCase(Struct, frozen=True):
    """The objects of a cluster, with one PodGroup."""

    objects: tuple[Document, ...]
    members: tuple[str, ...]
    """The names of the pods of the gang."""


@st.composite
def gang_cases(draw: Draw) -> GangCase:
    """Two to five nodes, up to three pods that run, and a gang of one to five pods of one or two roles."""
    nodes = [draw(_node(f"n{index}")) for index in range(draw(st.integers(2, 5)))]
    names = [node["metadata"]["name"] for node in nodes]
    placed = [draw(_placed(index, names)) for index in range(draw(st.integers(0, 3)))]
    members = []
    for role in ("a", "b")[: draw(st.integers(1, 2))]:
        template = draw(_pod(often=True))
        count = draw(st.integers(1, 2) if role == "b" else st.integers(1, 3))
        members += [_member(template, f"{role}{index}") for index in range(count)]
    group = {
        "apiVersion": "scheduling.phalanx.dev/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "default"},
        "spec": {"minMember": len(members)},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    return GangCase(
        objects=(namespace, *nodes, *placed, group, *members),
        members=tuple(each["metadata"]["name"] for each in members),
    )


def _member(template: Document, name: str) -> Document:
    metadata = template["metadata"]
    labels = {**metadata["labels"], "scheduling.phalanx.dev/pod-group": "gang"}
    spec = {**template["spec"], "schedulerName": "phalanx"}
    return {**template, "metadata": {**metadata, "name": name, "labels": labels}, "spec": spec}


@st.composite
def _node(draw: Draw, name: str) -> Document:
    labels = {HOST: name}
    if draw(st.integers(0, 5)):
        labels[ZONE] = draw(st.sampled_from("ab"))
    allocatable = {"cpu": draw(st.sampled_from(("2", "4", "8"))), "memory": "16Gi", "pods": "20"}
    taints = [] if draw(st.integers(0, 4)) else [_TAINT]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": allocatable, "allocatable": allocatable, "conditions": _READY},
    }


@st.composite
def _placed(draw: Draw, index: int, nodes: list[str]) -> Document:
    pod = draw(_pod(often=False))
    pod["metadata"]["name"] = f"old{index}"
    pod["spec"] |= {"nodeName": draw(st.sampled_from(nodes)), "schedulerName": "default-scheduler"}
    return {**pod, "status": {"phase": "Running"}}


@st.composite
def _pod(draw: Draw, *, often: bool) -> Document:
    """`often`: with more rules; those of pods that run are rare."""
    chance = 2 if often else 5
    container: Document = {"name": "main", "image": "example.com/image"}
    container["resources"] = {"requests": {"cpu": draw(st.sampled_from(("1", "1", "2")))}}
    if not draw(st.integers(0, chance)):
        container["ports"] = [draw(_PORT)]
    spec: Document = {"containers": [container], "tolerations": []}
    if not draw(st.integers(0, 2)):
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if often and not draw(st.integers(0, 5)):
        spec["nodeSelector"] = {ZONE: draw(st.sampled_from("ab"))}
    affinity = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if not draw(st.integers(0, chance)):
            affinity[kind] = {_REQUIRED: [draw(_TERM)]}
    if affinity:
        spec["affinity"] = affinity
    if often and draw(st.booleans()):
        spec["topologySpreadConstraints"] = draw(_SPREADS)
    labels = {"app": draw(st.sampled_from(_APPS))}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "template",
            "namespace": "default",
            "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
    }


_SELECTOR: Final = st.sampled_from(_APPS).map(lambda app: {"matchLabels": {"app": app}})
_TERM: Final = st.fixed_dictionaries({"topologyKey": st.sampled_from(_KEYS), "labelSelector": _SELECTOR})
_PORT: Final = st.fixed_dictionaries(
    {"containerPort": st.just(80), "hostPort": st.sampled_from((8080, 9090))},
    optional={
        "protocol": st.sampled_from(("TCP", "UDP")),
        "hostIP": st.sampled_from(("10.0.0.1", "10.0.0.2")),
    },
)
_SPREAD: Final = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from((ZONE, HOST)),
        "maxSkew": st.integers(1, 2),
        "whenUnsatisfiable": st.just("DoNotSchedule"),
        "labelSelector": _SELECTOR,
    },
    optional={
        "minDomains": st.integers(1, 3),
        "nodeAffinityPolicy": st.sampled_from(("Honor", "Ignore")),
        "nodeTaintsPolicy": st.sampled_from(("Honor", "Ignore")),
    },
)
_SPREADS: Final = st.lists(_SPREAD, min_size=1, max_size=2, unique_by=lambda each: each["topologyKey"])
