"""Random small clusters in which nearly all devices are allocated in shares, and little is left of them."""

from typing import Any, Final

from hypothesis import strategies as st

from tests.oracle.clusters import POD, Case
from tests.oracle.containers import rarely
from tests.oracle.device_clusters import DRIVERS, cluster, document

__all__ = ["POD", "cases_with_shares"]

Document = dict[str, Any]
Draw = st.DrawFn

_POLICY: Final = st.sampled_from(
    (
        None,
        {"default": "2"},
        {"default": "0"},
        {"default": "2", "validValues": ["2", "3", "5"]},
        {"default": "1", "validRange": {"min": "1", "max": "5"}},
        {"default": "3", "validRange": {"min": "1", "step": "2"}},
    )
)
_AMOUNTS: Final = st.dictionaries(
    st.sampled_from(("a", "a", "b")), st.integers(0, 5).map(str), min_size=1, max_size=2
)
_REQUEST: Final = st.fixed_dictionaries(
    {"deviceClassName": st.just("any")},
    optional={
        "capacity": _AMOUNTS.map(lambda amounts: {"requests": amounts}),
        "count": st.integers(1, 2),
    },
)


@st.composite
def cases_with_shares(draw: Draw) -> Case:
    """At most two nodes with up to three devices, and a pod with up to three claims."""
    nodes = [f"n{index}" for index in range(draw(st.integers(1, 2)))]
    objects: list[Document] = []
    for name in nodes:
        objects += draw(_pool(name))
    claims = [draw(_claim(f"c{index}")) for index in range(draw(st.integers(1, 3)))]
    return Case(objects=cluster(nodes, objects, claims), hard_weight=1)


@st.composite
def _pool(draw: Draw, node: str) -> list[Document]:
    """The devices of a node, perhaps with counters that they share, and claims that have some of them."""
    devices = [draw(_device(f"d{index}")) for index in range(draw(st.integers(1, 3)))]
    about = {"driver": DRIVERS[0], "nodeName": node}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    made: list[Document] = []
    if rarely(draw, 3):
        pool["resourceSliceCount"] = 2
        for device in devices:
            used = {"parts": {"value": str(draw(st.integers(1, 2)))}}
            device["consumesCounters"] = [{"counterSet": "set", "counters": used}]
        sets = [{"name": "set", "counters": {"parts": {"value": str(draw(st.integers(1, 3)))}}}]
        made.append(
            document("ResourceSlice", f"{node}-sets", spec={**about, "pool": pool, "sharedCounters": sets})
        )
    made.append(document("ResourceSlice", node, spec={**about, "pool": pool, "devices": devices}))
    for index, device in enumerate(devices):
        if draw(st.booleans()):
            made.append(draw(_used_claim(f"used-{node}-{index}", node, device)))
    return made


@st.composite
def _device(draw: Draw, name: str) -> Document:
    capacity = {each: draw(_capacity()) for each in ("a", "b") if each == "a" or draw(st.booleans())}
    if rarely(draw, 5):
        whole = {each: {"value": amount["value"]} for each, amount in capacity.items()}
        return {"name": name, "capacity": whole}
    return {"name": name, "allowMultipleAllocations": True, "capacity": capacity}


@st.composite
def _capacity(draw: Draw) -> Document:
    policy = draw(_POLICY)
    return {"value": str(draw(st.integers(5, 9))), **({"requestPolicy": policy} if policy else {})}


@st.composite
def _used_claim(draw: Draw, name: str, node: str, device: Document) -> Document:
    result: Document = {"request": "r", "driver": DRIVERS[0], "pool": node, "device": device["name"]}
    if "allowMultipleAllocations" in device:
        number = draw(st.integers(0, 9))
        result["shareID"] = f"00000000-0000-4000-8000-00000000000{number}"
        result["consumedCapacity"] = draw(_AMOUNTS)
    if rarely(draw, 6):
        result["adminAccess"] = True
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any"}}]}}
    status = {"allocation": {"devices": {"results": [result]}}}
    return document("ResourceClaim", name, namespaced=True, spec=spec, status=status)


@st.composite
def _claim(draw: Draw, name: str) -> Document:
    requests = []
    for index in range(draw(st.integers(1, 3))):
        wanted = draw(_REQUEST)
        if rarely(draw, 5):
            wanted = {**wanted, "allocationMode": "All"}
            wanted.pop("count", None)
        if rarely(draw, 6):
            alternatives = [{"name": "s0", **wanted}, {"name": "s1", **draw(_REQUEST)}]
            requests.append({"name": f"r{index}", "firstAvailable": alternatives})
        else:
            admin = {"adminAccess": True} if rarely(draw, 8) else {}
            requests.append({"name": f"r{index}", "exactly": {**wanted, **admin}})
    return document("ResourceClaim", name, namespaced=True, spec={"devices": {"requests": requests}})
