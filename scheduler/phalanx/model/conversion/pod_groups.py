"""PodGroups: what a gang's object asks for, and what is wrong with it in itself."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.api import not_implemented
from phalanx.model.api import phalanx as wire
from phalanx.model.api.objects import PodGroup as WirePodGroup
from phalanx.model.api.phalanx import PodGroupSpec, Role, SubGroup
from phalanx.model.conversion.checkpoints import read_checkpoint
from phalanx.model.conversion.durations import milliseconds
from phalanx.model.conversion.metadata import controller_of, identity, seconds, seconds_at
from phalanx.model.conversion.requests import read_amounts, too_many
from phalanx.model.conversion.shapes import shape_of_requests
from phalanx.model.gangs import (
    Disruption,
    DisruptionMode,
    Recovery,
    RecoveryMode,
    RoleSpec,
    Runtime,
    SubgroupSpec,
    TopologyRequest,
    ancestor_chains,
)
from phalanx.model.gpu_shares import requests_share
from phalanx.model.pods import Controller
from phalanx.model.reasons import Objection, Reason

_MODES: Final = {mode.value: mode for mode in RecoveryMode}
_DISRUPTIONS: Final = {mode.value: mode for mode in DisruptionMode}
_RESERVED: Final = "Reserved"
_STARTS: Final = ("Arrived", _RESERVED)


class PodGroup(Struct, frozen=True, gc=False):
    """A PodGroup without its members. `started`: its status says that minMember was reached once.

    `checkpointed` and `ignored`: see Pod.
    """

    uid: str
    namespace: str
    name: str
    created: int
    min_member: int
    queue: str | None = None
    priority_class: str = ""
    preemption_policy: str | None = None
    roles: tuple[RoleSpec, ...] = ()
    subgroups: tuple[SubgroupSpec, ...] = ()
    min_subgroups: int = 0
    reserves: bool = False
    topology: TopologyRequest = TopologyRequest()
    controller: Controller | None = None
    started: bool = False
    recovery: Recovery = Recovery()
    disruption: Disruption = Disruption()
    runtime: Runtime = Runtime()
    start_by: int | None = None
    resource_version: str = ""
    checkpointed: int = 0
    ignored: str = ""
    problems: tuple[Objection, ...] = ()


def read_pod_group(written: WirePodGroup) -> PodGroup:
    """One PodGroup."""
    meta, spec = written.metadata, written.spec
    wish = spec.topology
    checkpointed, ignored = read_checkpoint(meta.annotations)
    return PodGroup(
        uid=identity("PodGroup", meta),
        namespace=meta.namespace,
        name=meta.name,
        created=seconds(meta.creation_timestamp),
        min_member=max(spec.min_member, 1),
        queue=spec.queue or None,
        priority_class=spec.priority_class_name or "",
        preemption_policy=spec.preemption_policy,
        roles=tuple(_role(role) for role in spec.roles),
        subgroups=tuple(_subgroup(part) for part in spec.sub_groups),
        min_subgroups=max(spec.min_sub_groups or 0, 0),
        reserves=spec.start_when == _RESERVED,
        topology=TopologyRequest(wish.name or "", wish.required, wish.preferred)
        if wish
        else TopologyRequest(),
        controller=controller_of(meta.owner_references),
        started=written.status.started_at is not None,
        recovery=_recovery(spec.recovery),
        disruption=_disruption(spec.disruption),
        runtime=_runtime(spec.runtime),
        start_by=_moment(spec.start_by),
        resource_version=meta.resource_version,
        checkpointed=checkpointed,
        ignored=ignored,
        problems=tuple(_problems(spec)),
    )


def _recovery(written: wire.Recovery | None) -> Recovery:
    """What makes no sense counts as unset, and is a problem of its own."""
    if written is None:
        return Recovery()
    return Recovery(
        on_member_failure=_MODES.get(written.on_member_failure or "", RecoveryMode.WAIT),
        on_node_loss=_MODES.get(written.on_node_loss or "", RecoveryMode.WAIT),
        grace_ms=milliseconds(written.grace_period) if written.grace_period is not None else None,
    )


def _recovery_faults(written: wire.Recovery | None) -> Iterator[str]:
    if written is None:
        return
    modes = (("onMemberFailure", written.on_member_failure), ("onNodeLoss", written.on_node_loss))
    for name, mode in modes:
        if mode is not None and mode not in _MODES:
            yield f"spec.recovery.{name}: expected one of {', '.join(_MODES)}"
    if written.grace_period is not None and milliseconds(written.grace_period) is None:
        yield "spec.recovery.gracePeriod: expected a duration such as 1m30s"


def _disruption(written: wire.Disruption | None) -> Disruption:
    """What makes no sense counts as unset, and is a problem of its own."""
    if written is None:
        return Disruption()
    return Disruption(
        mode=_DISRUPTIONS.get(written.mode or "", DisruptionMode.ALL),
        preemptible=written.preemptible is not False,
        min_runtime_ms=milliseconds(written.min_runtime or "") or 0,
    )


def _disruption_faults(written: wire.Disruption | None) -> Iterator[str]:
    if written is None:
        return
    if written.mode is not None and written.mode not in _DISRUPTIONS:
        yield f"spec.disruption.mode: expected one of {', '.join(_DISRUPTIONS)}"
    if written.min_runtime is not None and milliseconds(written.min_runtime) is None:
        yield "spec.disruption.minRuntime: expected a duration such as 1h30m"


def _runtime(written: wire.Runtime | None) -> Runtime:
    """What makes no sense counts as unset, and is a problem of its own."""
    if written is None:
        return Runtime()
    return Runtime(
        estimate_ms=(milliseconds(written.estimate) or None) if written.estimate is not None else None,
        max_ms=(milliseconds(written.max) or None) if written.max is not None else None,
    )


def _runtime_faults(written: wire.Runtime | None) -> Iterator[str]:
    if written is None:
        return
    for name, text in (("estimate", written.estimate), ("max", written.max)):
        if text is not None and not milliseconds(text):
            yield f"spec.runtime.{name}: expected a duration of more than 0s, such as 1h30m"
    read = _runtime(written)
    if read.estimate_ms and read.max_ms and read.estimate_ms > read.max_ms:
        yield f"spec.runtime.estimate: {written.estimate} is longer than spec.runtime.max, {written.max}"


def _moment(written: str | None) -> int | None:
    """In milliseconds since the epoch."""
    at = seconds_at(written) if written is not None else None
    return None if at is None else at * 1000


def _start_faults(written: str | None) -> Iterator[str]:
    """One that is no time counts as unset, and is a problem of its own."""
    if written is not None and seconds_at(written) is None:
        yield "spec.startBy: expected a time such as 2026-12-24T18:00:00Z"


def _role(role: Role) -> RoleSpec:
    """Requests that make no sense are a problem of their own."""
    return RoleSpec(
        name=role.name,
        count=max(role.count, 0),
        min_member=max(role.count if role.min_member is None else role.min_member, 0),
        shape=shape_of_requests(read_amounts(role.requests, "", [])) if role.requests else None,
    )


def _reservation_faults(spec: PodGroupSpec) -> Iterator[str]:
    """Amounts that cannot be read, and a reservation of which nobody knows what it is for."""
    if spec.start_when is not None and spec.start_when not in _STARTS:
        yield f"spec.startWhen: expected one of {', '.join(_STARTS)}"
    if spec.start_when == _RESERVED and not any(role.requests for role in spec.roles):
        yield "spec.startWhen: Reserved needs spec.roles with requests, to know for what room is reserved"
    if spec.start_when == _RESERVED and spec.min_member > PLACEHOLDERS_MAX:
        yield f"spec.startWhen: room cannot be reserved in gangs of more than {PLACEHOLDERS_MAX} members"
    for role in spec.roles:
        path, wrong = f"spec.roles[{role.name}].requests", list[str]()
        amounts = read_amounts(role.requests, path, wrong)
        yield from [*wrong, *too_many(amounts, path)]
        if requests_share(amounts):
            yield f"{path}: a share of a GPU cannot be reserved, only whole ones"


def _subgroup(part: SubGroup) -> SubgroupSpec:
    return SubgroupSpec(
        name=part.name,
        min_member=max(part.min_member, 1),
        parent=part.parent or "",
        required=part.topology.required if part.topology is not None else None,
        segment=max(part.segment_size or 0, 0),
        preferred=part.topology.preferred if part.topology is not None else None,
    )


def _problems(spec: PodGroupSpec) -> Iterator[Objection]:
    for path in not_implemented.of_pod_group(spec):
        yield Objection(
            Reason.UNSUPPORTED_FIELD, f"PodGroup field {path} is not supported yet", "Remove the field"
        )
    own = (
        *_recovery_faults(spec.recovery),
        *_disruption_faults(spec.disruption),
        *_runtime_faults(spec.runtime),
        *_start_faults(spec.start_by),
        *_reservation_faults(spec),
    )
    for message in own:
        yield Objection(Reason.INVALID_OBJECT, f"PodGroup field {message}")
    faults = (*_number_faults(spec), *_role_faults(spec.roles), *_subgroup_faults(spec))
    for message in faults:
        yield Objection(Reason.INCONSISTENT_GANG, f"PodGroup field {message}")


def _number_faults(spec: PodGroupSpec) -> Iterator[str]:
    if spec.min_member < 1:
        yield f"spec.minMember: {spec.min_member} is not at least 1"
    if not spec.roles:
        return
    roles = [_role(role) for role in spec.roles]
    members = sum(role.count for role in roles)
    needed = sum(role.min_member for role in roles)
    if spec.min_member > members:
        yield f"spec.minMember: {spec.min_member} is more than the {members} members of all spec.roles"
    if spec.min_member < needed:
        yield f"spec.minMember: {spec.min_member} is less than the {needed} that the roles need at least"


def _role_faults(roles: tuple[Role, ...]) -> Iterator[str]:
    seen: set[str] = set()
    for index, role in enumerate(roles):
        if role.name in seen:
            yield f"spec.roles[{index}].name: {role.name!r} is there twice"
        seen.add(role.name)
        if role.count < 1:
            yield f"spec.roles[{index}].count: {role.count} is not at least 1"
        if role.min_member is not None and not 0 <= role.min_member <= role.count:
            yield f"spec.roles[{index}].minMember: {role.min_member} is not between 0 and {role.count}"


def _subgroup_faults(spec: PodGroupSpec) -> Iterator[str]:
    """Names that are there twice, parents that are not there or form a circle, numbers that contradict."""
    seen: set[str] = set()
    parts = [_subgroup(part) for part in spec.sub_groups]
    around = ancestor_chains(parts)
    for index, part in enumerate(parts):
        path = f"spec.subGroups[{index}]"
        if part.name in seen:
            yield f"{path}.name: {part.name!r} is there twice"
        seen.add(part.name)
        if part.parent and part.parent not in around:
            yield f"{path}.parent: there is no subgroup {part.parent!r}"
        elif part.parent and part.name in around[part.parent]:
            yield f"{path}.parent: {part.name!r} lies inside itself"
        if part.segment and part.required is None:
            yield f"{path}.segmentSize: {part.segment} without topology.required, the level that it is about"
        elif part.segment and part.min_member % part.segment:
            yield f"{path}.minMember: {part.min_member} is no multiple of segmentSize {part.segment}"
    outer = sorted(part.min_member for part in parts if not part.parent)
    some = spec.min_sub_groups
    if some is not None and not 1 <= some <= len(outer):
        yield f"spec.minSubGroups: {some} is not between 1 and the {len(outer)} subgroups without a parent"
        return
    needed = sum(outer[:some])
    if spec.min_member < needed:
        yield f"spec.minMember: {spec.min_member} is less than the {needed} that the subgroups need at least"
