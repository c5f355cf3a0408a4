"""Strategies of what pods request in containers, init containers, sidecars and as a whole, and of ports."""

from typing import Any, Final

from hypothesis import strategies as st

Document = dict[str, Any]
Draw = st.DrawFn

_CPU: Final = ("500m", "1", "1.5", "2", "0", "100m", "1e0", "3")
_MEMORY: Final = ("1Gi", "512Mi", "1000M", "1e9", "2000000k", "0", "2Gi", "1500m")

# Made once: hypothesis examines each new strategy, which takes longer than drawing from it.
_AMOUNTS: Final = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(_CPU), "memory": st.sampled_from(_MEMORY)}
)
_REPORTED: Final = st.fixed_dictionaries(
    {},
    optional={
        "resources": st.fixed_dictionaries({"requests": _AMOUNTS}),
        "allocatedResources": _AMOUNTS,
    },
)
_LARGE: Final = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(("3", "5500m")), "memory": st.sampled_from(("3Gi", "6G"))}
)
_POD_LEVEL: Final = st.fixed_dictionaries({}, optional={"requests": _LARGE, "limits": _LARGE})
"""Often large enough for the containers of the pod; smaller amounts are not valid."""


def rarely(draw: Draw, one_in: int) -> bool:
    """True in one of so many cases; hypothesis shrinks towards False."""
    return draw(st.integers(0, one_in - 1)) == one_in - 1


@st.composite
def pod_resources(draw: Draw) -> Document:
    """The part of a pod's spec that says what it requests."""
    containers = [draw(_container(f"c{index}")) for index in range(draw(st.integers(1, 2)))]
    spec: Document = {"containers": containers}
    if rarely(draw, 4):
        count = draw(st.integers(1, 3))
        spec["initContainers"] = [draw(_init_container(f"i{index}")) for index in range(count)]
    if rarely(draw, 6):
        spec["overhead"] = draw(_AMOUNTS)
    if rarely(draw, 5):
        spec["resources"] = draw(_POD_LEVEL)
    return spec


_PORTS: Final = st.lists(
    st.fixed_dictionaries(
        {"containerPort": st.sampled_from((80, 81))},
        optional={
            "hostPort": st.sampled_from((80, 80, 81)),
            "protocol": st.sampled_from(("TCP", "TCP", "UDP")),
            "hostIP": st.sampled_from(("", "0.0.0.0", "10.0.0.1", "10.0.0.2")),
        },
    ),
    min_size=1,
    max_size=2,
)


@st.composite
def with_ports(draw: Draw, spec: Document) -> Document:
    """The spec with ports in some containers, some of them ports of the node, or with the host network."""
    parts = {
        field: [
            {**container, "ports": draw(_PORTS) if not rarely(draw, 3) else []}
            for container in spec.get(field, ())
        ]
        for field in ("containers", "initContainers")
    }
    return {**spec, **parts, "hostNetwork": rarely(draw, 4)}


@st.composite
def reported_resources(draw: Draw, spec: Document) -> Document:
    """A status in which the kubelet reports other resources than the spec: a resize is in progress."""
    statuses = [
        {
            "name": container["name"],
            "image": "example.com/image",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            **draw(_REPORTED),
        }
        for container in spec["containers"]
    ]
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    return {"containerStatuses": statuses, "conditions": [pending] if rarely(draw, 3) else []}


@st.composite
def _container(draw: Draw, name: str) -> Document:
    """Amounts as requests, as limits that become requests, or as both."""
    requests = draw(_AMOUNTS)
    both: Document = {}
    if rarely(draw, 4):
        both["example.com/gpu"] = draw(st.sampled_from(("1", "2", "0", "4")))
    if rarely(draw, 12) and requests:
        both["hugepages-2Mi"] = draw(st.sampled_from(("4Mi", "8Mi")))
    if rarely(draw, 8):
        requests = {**requests, "ephemeral-storage": draw(st.sampled_from(("1Gi", "500Mi")))}
    written = draw(st.sampled_from(("requests", "limits", "both")))
    parts: dict[str, Document] = {"requests": requests, "limits": {}}
    if written != "requests":
        parts["limits"] = dict(requests)
    if written == "limits":
        parts["requests"] = {}
    resources = {"requests": parts["requests"], "limits": {**parts["limits"], **both}}
    return {"name": name, "image": "example.com/image", "resources": resources}


@st.composite
def _init_container(draw: Draw, name: str) -> Document:
    container = draw(_container(name))
    return {**container, "restartPolicy": "Always"} if draw(st.booleans()) else container
