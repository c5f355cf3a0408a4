"""What the allocation of devices says about the nodes for a pod, and whether that agrees."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from phalanx.kube.devices.claim_documents import reservation
from phalanx.model.api import core
from phalanx.model.conversion.nodes import read_node
from phalanx.model.conversion.pods import read_pod_claims
from phalanx.model.supplies.devices.api import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from phalanx.model.supplies.devices.claims import Claim
from phalanx.model.supplies.devices.cluster import ClusterDevices, DeviceState, grants
from phalanx.model.supplies.devices.matching import Matcher
from phalanx.model.supplies.devices.pod_claims import Unresolved
from phalanx.model.supplies.devices.read import (
    read_device_class,
    read_resource_claim,
    read_slice,
    read_taint_rule,
)

from tests.oracle.plugins import Answer, Document, Plugins

T = TypeVar("T")


class Opinion(Struct, frozen=True):
    """The nodes on which the claims can be allocated. `error`: why the pod is placed on no node."""

    feasible: tuple[str, ...]
    error: str = ""
    undecided: bool = False
    reasons: dict[str, str] = {}


class Comparison(Struct, frozen=True):
    """Both answers; `problem` is empty if they agree. `left_out`: why they are not compared."""

    answer: Answer
    said: Opinion
    problem: str = ""
    left_out: str = ""


def compare(plugins: Plugins, objects: Sequence[Document], pod: str, matcher: Matcher) -> Comparison:
    """Compare the nodes for a pod whose claims are all that matters."""
    answer = plugins.ask(objects, pod)
    said = opinion(objects, pod, matcher)
    if _is_elsewhere(answer.error, said):
        return Comparison(answer, said, left_out="an error on a node that an allocated claim excludes")
    if bool(answer.error) != bool(said.error) and not (said.error and not answer.feasible):
        problem = f"Phalanx: error {said.error!r}; kube-scheduler: error {answer.error!r}, {answer.feasible}"
    elif not said.error and said.feasible != answer.feasible:
        refused = {name: answer.refused[name] for name in said.feasible if name in answer.refused}
        problem = f"Phalanx: {said.feasible}; kube-scheduler: {answer.feasible}, refuses {refused}"
    else:
        problem = ""
    return Comparison(answer, said, problem)


def opinion(objects: Sequence[Document], pod: str, matcher: Matcher) -> Opinion:
    """The nodes on which the claims of the pod can be allocated."""
    state, own = _state_and_claims(objects, pod, matcher)
    if isinstance(own, Unresolved):
        return Opinion(feasible=(), error=own.text)
    feasible, reasons, errors, undecided = [], {}, [], False
    for written in _of(objects, "Node", core.Node):
        node = read_node(written)
        found = state.allocate(own, state.on(node))
        reasons[node.name] = found.reason
        undecided |= found.is_undecided
        if found.is_error:
            errors.append(found.reason)
        if found.claims is not None:
            feasible.append(node.name)
    return Opinion(tuple(sorted(feasible)), next(iter(errors), ""), undecided, reasons)


def allocations(
    objects: Sequence[Document], pod: str, node: str, matcher: Matcher
) -> dict[str, Document | None]:
    """By name, the allocation that is written to each claim of the pod that has none, if it is bound to the
    node."""
    state, own = _state_and_claims(objects, pod, matcher)
    assert not isinstance(own, Unresolved)
    (there,) = [each for each in map(read_node, _of(objects, "Node", core.Node)) if each.name == node]
    documents = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ResourceClaim"}
    classes = {each["metadata"]["name"]: each for each in objects if each["kind"] == "DeviceClass"}
    written = {}
    for grant in grants(own, state.allocate(own, state.on(there)), there):
        status = reservation(
            documents[grant.name], grant, pods=[{"uid": "asker"}], classes=classes, now="now"
        )
        if grant.allocation is not None:
            written[grant.name] = (status or {}).get("allocation")
    return written


def _state_and_claims(
    objects: Sequence[Document], pod: str, matcher: Matcher
) -> tuple[DeviceState, tuple[Claim, ...] | Unresolved]:
    """All devices, and the claims of the pod."""
    by_name = {
        each.metadata.name: read_device_class(each) for each in _of(objects, "DeviceClass", DeviceClass)
    }
    devices = ClusterDevices(
        slices=tuple(read_slice(each) for each in _of(objects, "ResourceSlice", ResourceSlice)),
        classes=by_name,
        taint_rules=tuple(
            rule
            for each in _of(objects, "DeviceTaintRule", DeviceTaintRule)
            if (rule := read_taint_rule(each)) is not None
        ),
        claims=tuple(read_resource_claim(each) for each in _of(objects, "ResourceClaim", ResourceClaim)),
    )
    state = DeviceState(devices, matcher)
    pods = _of(objects, "Pod", core.Pod)
    asker = next(each for each in pods if f"{each.metadata.namespace}/{each.metadata.name}" == pod)
    namespace, uid = asker.metadata.namespace, asker.metadata.uid
    return state, state.claims_of(read_pod_claims(asker), namespace=namespace, pod_uid=uid)


def _is_elsewhere(error: str, said: Opinion) -> bool:
    """Whether kube-scheduler found an error on a node that Phalanx does not look at: another claim of the pod
    is allocated, for other nodes."""
    node = error.removeprefix("node ").partition(":")[0] if error.startswith("node ") else ""
    return said.reasons.get(node, "").endswith("is allocated for other nodes")


def _of(objects: Sequence[Document], kind: str, struct: type[T]) -> list[T]:
    return [msgspec.convert(each, struct) for each in objects if each["kind"] == kind]


def shown(found: Comparison) -> dict[str, Any]:
    """The answers in a form that a failed test prints."""
    return {"problem": found.problem, "kube-scheduler": found.answer, "Phalanx": found.said}
