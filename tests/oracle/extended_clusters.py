"""Random small clusters in which a pod requests extended resources that devices or nodes may offer."""

from typing import Any, Final

from hypothesis import strategies as st

from tests.oracle.clusters import POD, READY, Case
from tests.oracle.containers import rarely
from tests.oracle.device_clusters import document

__all__ = ["POD", "cases_with_extended_resources"]

Document = dict[str, Any]
Draw = st.DrawFn

DRIVER: Final = "one.example.com"
GPU, NIC, OTHER = "example.com/gpu", "example.com/nic", "example.com/other"
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/gpus"
SHARED: Final = "shared gpu"
_IN_SHARES: Final = {
    "allowMultipleAllocations": True,
    "capacity": {"memory": {"value": "5", "requestPolicy": {"default": "2"}}},
}
_KIND: Final = f'device.attributes["{DRIVER}"].kind'
_AMOUNTS: Final = st.fixed_dictionaries(
    {},
    optional={
        GPU: st.sampled_from(("1", "1", "2", "3", "0")),
        NIC: st.sampled_from(("1", "2")),
        IMPLICIT: st.sampled_from(("1", "2")),
        "cpu": st.sampled_from(("1", "3")),
    },
)


@st.composite
def cases_with_extended_resources(draw: Draw) -> Case:
    """At most three nodes. Few pods request a resource that nothing offers."""
    nodes = [f"n{index}" for index in range(draw(st.integers(1, 3)))]
    kinds = {
        name: draw(st.lists(st.sampled_from(("gpu", "gpu", "nic", SHARED)), max_size=5)) for name in nodes
    }
    taken = [(name, f"d{index}") for name in nodes for index in range(len(kinds[name])) if rarely(draw, 5)]
    objects = (
        document("Namespace", "default", api="v1"),
        *(draw(_node(name)) for name in nodes),
        *draw(_classes()),
        *(_slice(name, kinds[name]) for name in nodes),
        *draw(_network(nodes)),
        *(_used_claim(index, *device) for index, device in enumerate(taken)),
        *draw(_claims()),
        draw(_pod()),
    )
    pod, claims = objects[-1], [each for each in objects if each["metadata"]["name"] == "own"]
    if claims:
        pod["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": "template"}]
        pod["status"] = {"resourceClaimStatuses": [{"name": "own", "resourceClaimName": "own"}]}
    return Case(objects=objects, hard_weight=1)


@st.composite
def _node(draw: Draw, name: str) -> Document:
    own = {GPU: st.sampled_from(("0", "1", "2")), NIC: st.sampled_from(("0", "1"))}
    offered = {key: draw(amount) for key, amount in own.items() if rarely(draw, 3)}
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", **offered}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": READY}
    labels = {"kubernetes.io/hostname": name}
    return document("Node", name, api="v1", metadata={"labels": labels}, spec={}, status=status)


@st.composite
def _classes(draw: Draw) -> list[Document]:
    """A class of GPUs; perhaps a newer one of nothing for the same resource; mostly one of NICs."""
    found = [_class("gpus", "gpu", GPU, 1)]
    if rarely(draw, 6):
        found.append(_class("a-newer", "none", GPU, draw(st.integers(0, 2))))
    if not rarely(draw, 4):
        found.append(_class("nics", "nic", NIC if not rarely(draw, 6) else None, 1))
    return found


def _class(name: str, kind: str, resource: str | None, second: int) -> Document:
    spec: Document = {"selectors": [{"cel": {"expression": f'{_KIND} == "{kind}"'}}]}
    if resource is not None:
        spec["extendedResourceName"] = resource
    created = {"creationTimestamp": f"2026-01-01T00:00:0{second}Z"}
    return document("DeviceClass", name, metadata=created, spec=spec)


@st.composite
def _network(draw: Draw, nodes: list[str]) -> list[Document]:
    """Sometimes a pool that all nodes can use, or those of one hostname."""
    if not rarely(draw, 3):
        return []
    kinds = draw(st.lists(st.sampled_from(("gpu", "nic")), min_size=1, max_size=3))
    named = {
        "key": "kubernetes.io/hostname",
        "operator": "In",
        "values": draw(st.lists(st.sampled_from(nodes), min_size=1)),
    }
    some = {"nodeSelectorTerms": [{"matchExpressions": [named]}]}
    where = draw(st.sampled_from(({"allNodes": True}, {"nodeSelector": some})))
    return [_slice("network", kinds, where)]


def _slice(name: str, kinds: list[str], where: Document | None = None) -> Document:
    """A slice of the node with its name, unless something else is said of its nodes."""
    devices = [
        {"name": f"d{index}", "attributes": {"kind": {"string": "gpu" if kind == SHARED else kind}}}
        | (_IN_SHARES if kind == SHARED else {})
        for index, kind in enumerate(kinds)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "devices": devices, **(where or {"nodeName": name})}
    return document("ResourceSlice", name, spec=spec)


def _used_claim(number: int, pool: str, device: str) -> Document:
    """A claim whose devices are in use by something that is no pod: nobody gives them back."""
    result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [
            {"apiGroup": "example.com", "resource": "users", "name": "x", "uid": f"uid-x{number}"}
        ],
    }
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpus", "count": 1}}]}}
    return document("ResourceClaim", f"used{number}", namespaced=True, spec=spec, status=status)


@st.composite
def _claims(draw: Draw) -> list[Document]:
    """Perhaps a claim that was made for the pod from a template."""
    if not rarely(draw, 4):
        return []
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpus", "count": 1}}]}}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "asker", "uid": "Pod-asker", "controller": True}
    about = {"ownerReferences": [owner]}
    return [document("ResourceClaim", "own", namespaced=True, metadata=about, spec=spec)]


@st.composite
def _pod(draw: Draw) -> Document:
    containers = [draw(_container(f"c{index}")) for index in range(draw(st.integers(1, 2)))]
    spec: Document = {"schedulerName": "phalanx", "containers": containers}
    if rarely(draw, 3):
        init = [draw(_container(f"i{index}")) for index in range(draw(st.integers(1, 3)))]
        spec["initContainers"] = [
            {**each, "restartPolicy": "Always"} if rarely(draw, 3) else each for each in init
        ]
    return document("Pod", "asker", api="v1", namespaced=True, spec=spec)


@st.composite
def _container(draw: Draw, name: str) -> Document:
    amounts = draw(_AMOUNTS)
    if rarely(draw, 15):
        amounts = {**amounts, OTHER: "1"}
    resources = {"requests": amounts, "limits": {key: amounts[key] for key in amounts if key != "cpu"}}
    if rarely(draw, 4):
        del resources["requests"]
    return {"name": name, "image": "example.com/image", "resources": resources}
