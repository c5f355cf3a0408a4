"""Random small clusters with devices: slices, classes and claims as the API server accepts them.

Also slices that contradict each other: missing ones, old generations, devices of one name, unknown counters.
"""

from typing import Any, Final

from hypothesis import strategies as st

from tests.oracle.clusters import POD, READY, ZONE, Case
from tests.oracle.containers import rarely
from tests.oracle.shared_devices import asked_capacity, share_in_use, shared_capacity

__all__ = ["POD", "cases_with_devices"]

Document = dict[str, Any]
Draw = st.DrawFn
Name = tuple[str, str, str]
"""Driver, pool and device."""

API: Final = "resource.k8s.io/v1"
DRIVERS: Final = ("one.example.com", "two.example.com")
CLASSES: Final = ("any", "one", "big", "model")
_ONE: Final = 'device.attributes["one.example.com"]'
_CAPACITIES: Final = 'device.capacity["one.example.com"]'
_SHARED: Final = 'device.attributes["example.com"]'

_SELECTORS: Final = (
    "true",
    'device.driver == "one.example.com"',
    f'{_ONE}.?model.orValue("none") == "a"',
    f'has({_ONE}.model) && {_ONE}.model in ["a", "c"]',
    f'"numa" in {_SHARED} && {_SHARED}.numa == 0',
    f"{_SHARED}.?numa.orValue(7) < 1",
    f'has({_ONE}.version) && {_ONE}.version.isGreaterThan(semver("1.2.0"))',
    f'cel.bind(own, {_ONE}, has(own.version) && own.version.compareTo(semver("v1.2", true)) >= 0)',
    f'has({_CAPACITIES}.memory) && {_CAPACITIES}.memory.compareTo(quantity("40Gi")) >= 0',
    'device.capacity[device.driver].?memory.orValue(quantity("0")).isLessThan(quantity("50G"))',
    '!("example.com" in device.attributes)',
    "device.allowMultipleAllocations == false",
    f'{_ONE}.exists(name, name == "fast")',
    f"{_ONE}.fast",
)
"""The last one has no value for some devices."""

_NO_VALUE: Final = _SELECTORS[-1]
_ATTRIBUTES: Final = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(("a", "a", "b", "c")).map(lambda text: {"string": text}),
        "version": st.sampled_from(("1.2.0", "1.2.0-rc.1", "1.10.3", "0.9.0+b")).map(
            lambda text: {"version": text}
        ),
        "fast": st.booleans().map(lambda value: {"bool": value}),
        "example.com/numa": st.integers(0, 1).map(lambda number: {"int": number}),
        "example.com/root": st.sampled_from(("r0", "r1", "r2")).map(lambda text: {"string": text}),
    },
)
_CAPACITY: Final = st.sampled_from(
    ({}, {"memory": {"value": "40Gi"}}, {"memory": {"value": "80000M"}}, {"memory": {"value": "0.5"}})
)
_TAINT: Final = st.fixed_dictionaries(
    {
        "key": st.sampled_from(("broken", "busy")),
        "value": st.sampled_from(("", "x")),
        "effect": st.sampled_from(("NoSchedule", "NoExecute", "None")),
    }
)
_TOLERATION: Final = st.one_of(
    st.fixed_dictionaries({"operator": st.just("Exists")}, optional={"key": st.just("broken")}),
    st.fixed_dictionaries(
        {"key": st.sampled_from(("broken", "busy")), "value": st.sampled_from(("", "x"))},
        optional={"operator": st.just("Equal"), "effect": st.just("NoSchedule")},
    ),
)
_CONSTRAINT_ATTRIBUTES: Final = ("example.com/numa", "example.com/root", "one.example.com/model")


def _is_shared(device: Document) -> bool:
    return bool(device.get("allowMultipleAllocations"))


def document(kind: str, name: str, *, api: str = API, namespaced: bool = False, **parts: Any) -> Document:
    namespace = {"namespace": "default"} if namespaced else {}
    metadata = {"name": name, "uid": f"{kind}-{name}", **namespace, **parts.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **parts}


@st.composite
def cases_with_devices(draw: Draw) -> Case:
    """A cluster of at most four nodes, and a pod with at most three claims."""
    nodes = [f"n{index}" for index in range(draw(st.integers(1, 4)))]
    slices = [each for name in nodes for each in draw(_pool_of_node(name))]
    for number in range(draw(st.sampled_from((0, 0, 1, 2)))):
        slices += draw(_network_pool(f"net{number}", nodes))
    published = [(each["spec"], device) for each in slices for device in each["spec"].get("devices", ())]
    devices = [(spec["driver"], spec["pool"]["name"], device["name"]) for spec, device in published]
    shared = [name for name, (_, device) in zip(devices, published, strict=True) if _is_shared(device)]
    rules = [draw(_taint_rule("rule", nodes))] if rarely(draw, 4) else []
    busy = [draw(_used_claim(index, nodes, devices, shared)) for index in range(draw(st.integers(0, 3)))]
    claims = [draw(_claim(f"c{index}")) for index in range(draw(st.sampled_from((1, 1, 1, 2, 3))))]
    for claim in claims:
        if rarely(draw, 6) and devices:
            claim["status"] = draw(_status(nodes, devices, shared, [f"pod-{claim['metadata']['name']}"]))
    return Case(objects=cluster(nodes, [*slices, *rules, *busy], claims), hard_weight=1)


def cluster(nodes: list[str], objects: list[Document], claims: list[Document]) -> tuple[Document, ...]:
    """All objects of a cluster in which POD has these claims."""
    return (
        document("Namespace", "default", api="v1"),
        *(_node(name, index) for index, name in enumerate(nodes)),
        *(document("DeviceClass", name, spec=_class(name)) for name in CLASSES),
        *objects,
        *claims,
        _pod([claim["metadata"]["name"] for claim in claims]),
    )


def _node(name: str, index: int) -> Document:
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    labels = {"kubernetes.io/hostname": name, ZONE: ("east", "west")[index % 2]}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": READY}
    return document("Node", name, api="v1", metadata={"labels": labels}, spec={}, status=status)


def _pod(claims: list[str]) -> Document:
    container = {"name": "main", "image": "example.com/image", "resources": {"requests": {"cpu": "1"}}}
    named = [{"name": name, "resourceClaimName": name} for name in claims]
    spec = {"schedulerName": "phalanx", "containers": [container], "resourceClaims": named}
    return document("Pod", "asker", api="v1", namespaced=True, spec=spec)


def _class(name: str) -> Document:
    fixed = {"any": (), "one": (_SELECTORS[1],), "big": (_SELECTORS[8],), "model": (_SELECTORS[2],)}[name]
    return {"selectors": [{"cel": {"expression": each}} for each in fixed]}


# --- slices -------------------------------------------------------------------------------------------------


@st.composite
def _pool_of_node(draw: Draw, node: str) -> list[Document]:
    if rarely(draw, 6):
        return []
    slices: list[Document] = []
    for driver in DRIVERS[: draw(st.sampled_from((1, 1, 2)))]:
        slices += draw(_pool(driver, node, {"nodeName": node}))
    return slices


@st.composite
def _network_pool(draw: Draw, name: str, nodes: list[str]) -> list[Document]:
    east = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["east"]}]}
    where = draw(
        st.sampled_from(
            (
                {"allNodes": True},
                {"nodeSelector": {"nodeSelectorTerms": [east]}},
                {"perDeviceNodeSelection": True},
            )
        )
    )
    slices: list[Document] = draw(_pool(draw(st.sampled_from(DRIVERS)), name, where))
    if "perDeviceNodeSelection" in where:
        choices = ({"allNodes": True}, {"nodeName": draw(st.sampled_from(nodes))})
        for each in slices:
            for device in each["spec"].get("devices", ()):
                device |= draw(st.sampled_from((*choices, {"nodeSelector": {"nodeSelectorTerms": [east]}})))
    return slices


@st.composite
def _pool(draw: Draw, driver: str, pool: str, where: Document) -> list[Document]:
    """The slices of one pool, complete in most cases."""
    counters = rarely(draw, 3)
    parts = [draw(st.integers(0, 4)) for _ in range(draw(st.sampled_from((1, 1, 2))))]
    wanted = len(parts) + counters + rarely(draw, 8)
    generation = draw(st.integers(1, 2))
    slices, first = [], 0
    for number, count in enumerate(parts):
        of_slice = [draw(_device(f"d{first + index}", counters=counters)) for index in range(count)]
        first += count if not rarely(draw, 12) else 0
        slices.append({"devices": of_slice, **where, "number": number})
    if counters:
        amount = str(draw(st.integers(1, 4)))
        sets = [{"name": "set", "counters": {"slices": {"value": amount}, "memory": {"value": "80Gi"}}}]
        if rarely(draw, 10):
            sets[0]["name"] = "other"
        slices.append({"sharedCounters": sets, **where, "number": 9})
    if rarely(draw, 8):
        slices.append({"devices": [draw(_device("old"))], **where, "number": 8, "older": True})
    return [_slice(each, driver, pool, generation, wanted) for each in slices]


def _slice(spec: Document, driver: str, pool: str, generation: int, wanted: int) -> Document:
    number, older = spec.pop("number"), spec.pop("older", False)
    return document(
        "ResourceSlice",
        f"{pool}-{driver[:3]}-{number}",
        spec={
            "driver": driver,
            "pool": {"name": pool, "generation": generation - older, "resourceSliceCount": wanted},
            **spec,
        },
    )


@st.composite
def _device(draw: Draw, name: str, *, counters: bool = False) -> Document:
    found: Document = {"name": name, "attributes": draw(_ATTRIBUTES), "capacity": draw(_CAPACITY)}
    if rarely(draw, 3):
        found |= {"allowMultipleAllocations": True, "capacity": draw(shared_capacity())}
    if rarely(draw, 5):
        found["taints"] = [draw(_TAINT)]
    if rarely(draw, 5):
        found |= {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
        found["bindsToNode"] = draw(st.booleans())
    if counters and not rarely(draw, 4):
        used = {"slices": {"value": str(draw(st.integers(1, 2)))}}
        if draw(st.booleans()):
            used["memory"] = {"value": draw(st.sampled_from(("20Gi", "40Gi", "0.5")))}
        found["consumesCounters"] = [{"counterSet": "set", "counters": used}]
    return found


@st.composite
def _taint_rule(draw: Draw, name: str, pools: list[str]) -> Document:
    fields = {"driver": DRIVERS, "pool": pools, "device": ("d0", "d1")}
    selector = {key: draw(st.sampled_from(values)) for key, values in fields.items() if draw(st.booleans())}
    spec: Document = {"taint": draw(_TAINT)}
    if not rarely(draw, 5):
        spec["deviceSelector"] = selector
    return document("DeviceTaintRule", name, spec=spec)


# --- claims -------------------------------------------------------------------------------------------------


@st.composite
def _claim(draw: Draw, name: str) -> Document:
    requests = [draw(_request(f"r{index}")) for index in range(draw(st.sampled_from((1, 1, 2, 3))))]
    constraints = [draw(_constraint(requests)) for _ in range(draw(st.sampled_from((0, 0, 1, 2))))]
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    return document("ResourceClaim", name, namespaced=True, spec=spec)


@st.composite
def _request(draw: Draw, name: str) -> Document:
    if rarely(draw, 4):
        alternatives = [{"name": f"s{index}", **draw(_exactly())} for index in range(draw(st.integers(1, 3)))]
        return {"name": name, "firstAvailable": alternatives}
    exactly = draw(_exactly())
    if rarely(draw, 8):
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


@st.composite
def _exactly(draw: Draw) -> Document:
    selectors = [st.sampled_from(_SELECTORS if rarely(draw, 10) else _SELECTORS[:-1])]
    chosen = [draw(selectors[0]) for _ in range(draw(st.sampled_from((0, 0, 1, 2))))]
    found: Document = {
        "deviceClassName": "gone" if rarely(draw, 30) else draw(st.sampled_from(CLASSES)),
        "selectors": [{"cel": {"expression": each}} for each in chosen],
    }
    if rarely(draw, 6):
        found["allocationMode"] = "All"
    else:
        found["count"] = draw(st.sampled_from((1, 1, 1, 2, 3)))
    if rarely(draw, 4):
        found["tolerations"] = [draw(_TOLERATION)]
    if rarely(draw, 3):
        found["capacity"] = draw(asked_capacity())
    return found


@st.composite
def _constraint(draw: Draw, requests: list[Document]) -> Document:
    names = [each["name"] for each in requests]
    names += [f"{each['name']}/{sub['name']}" for each in requests for sub in each.get("firstAvailable", ())]
    kind = draw(st.sampled_from(("matchAttribute", "matchAttribute", "distinctAttribute")))
    concerned = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    return {kind: draw(st.sampled_from(_CONSTRAINT_ATTRIBUTES)), "requests": concerned}


@st.composite
def _used_claim(
    draw: Draw, index: int, nodes: list[str], devices: list[Name], shared: list[Name]
) -> Document:
    """A claim of another pod."""
    status = draw(_status(nodes, devices, shared, [f"other-{index}"])) if devices else {}
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any"}}]}}
    return document("ResourceClaim", f"used-{index}", namespaced=True, spec=spec, status=status)


@st.composite
def _status(
    draw: Draw, nodes: list[str], devices: list[Name], shared: list[Name], consumers: list[str]
) -> Document:
    chosen = draw(st.lists(st.sampled_from(devices), min_size=1, max_size=2, unique=True))
    results = [
        {"request": "r", "driver": name[0], "pool": name[1], "device": name[2]}
        | ({"adminAccess": True} if rarely(draw, 5) else {})
        | (draw(share_in_use()) if (name in shared) != rarely(draw, 8) else {})
        for name in chosen
    ]
    allocation: Document = {"devices": {"results": results}}
    if not rarely(draw, 4):
        named = [{"key": "metadata.name", "operator": "In", "values": [draw(st.sampled_from(nodes))]}]
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": named}]}
    reserved = [{"resource": "pods", "name": name, "uid": name} for name in consumers]
    return {"allocation": allocation, "reservedFor": reserved}
