"""Workloads: from an object and the paths of its kind to its roles and a PodGroup."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from phalanx.limits import PLACEHOLDERS_MAX
from phalanx.model.api import core
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.pod_groups import RESERVED, PodGroupSpec
from phalanx.model.api.values import seconds
from phalanx.model.api.workloads import WorkloadObject
from phalanx.model.conversion.metadata import (
    controller_of,
    identity,
    lost_controller,
    read_checkpoint,
)
from phalanx.model.conversion.partial_admission import PartialAdmission, read_partial_admission
from phalanx.model.conversion.pod_groups import PodGroup
from phalanx.model.conversion.spark import completed_application
from phalanx.model.conversion.template_shapes import Find, shape_of_paths, shape_of_template
from phalanx.model.conversion.workload_members import (
    NUMBER_MAX,
    Workload,
    WorkloadRole,
    at_most,
    needed,
    no_owner,
)
from phalanx.model.dialects.known import named_groups
from phalanx.model.names import (
    ANNOTATION_SUSPENSION,
    KUBERNETES_SCHEDULER,
    LABEL_MIN_MEMBER,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
)
from phalanx.model.pods import PodShape
from phalanx.model.reasons import Objection, Reason
from phalanx.model.workloads.job import JOB
from phalanx.model.workloads.kind import PathValue, RolePaths, WorkloadKind, value_at
from phalanx.model.workloads.known import KNOWN, LABEL_OF_JOB, WorkloadKinds
from phalanx.model.workloads.spark import SPARK_APPLICATION

_SHOWN_MAX: Final = 64
"""Characters of a wrong value in a message: objects hold up to a megabyte."""
_DEFAULTED: Final = frozenset({"batch", "apps"})
"""API groups of Kubernetes itself."""


def read_workload(
    kind: WorkloadKind, scheduler_name: str, written: WorkloadObject, *, kinds: WorkloadKinds = KNOWN
) -> Workload:
    """Convert one object; `kinds` are those that may own it."""
    meta = written.metadata
    spec = completed_application(written.spec) if kind.name == SPARK_APPLICATION.name else written.spec
    fields = {"spec": spec, "status": written.status}
    checkpointed, ignored = read_checkpoint(meta.annotations)
    roles = _roles(kind, {**fields, "annotations": meta.annotations}, scheduler_name)
    has_run = any(_number(fields, path) for path in kind.has_run)
    owner = controller_of(meta.owner_references, kinds=kinds)
    partial = _partial(kind, meta, fields, roles, has_run=has_run) if owner is None else None
    problems = [*_problems(kind, meta, fields), *_wrong_values(kind, meta, fields)]
    if not has_run and not meta.owner_references:
        labels = {key: value for key, value in meta.labels.items() if key != LABEL_OF_JOB}
        problems += lost_controller(labels, kinds)
    problems += _paths_to_nothing(kind, meta, fields) if kind.name not in KNOWN.by_name else ()
    if isinstance(partial, Objection):
        problems.append(partial)
        partial = None
    if partial is not None:
        roles = tuple(replace(role, least=partial.minimum) for role in roles)
    minimum = next((number for path in kind.minimum if (number := _number(fields, path))), None)
    counted = [role for role in roles if role.ours and not role.in_group]
    least = max(sum(at_most(minimum, [needed(role, {}, no_owner) for role in counted])), 1)
    group = PodGroup(
        uid=identity(kind.kind, meta),
        namespace=meta.namespace,
        name=meta.name,
        created=seconds(meta.creation_timestamp),
        spec=PodGroupSpec(
            min_member=least,
            queue=meta.labels.get(LABEL_QUEUE) or _text(fields, kind.queue),
            priority_class_name=_text(fields, kind.priority_class),
            start_when=RESERVED if any(role.shape is not None for role in roles) else None,
        ),
        min_member=least,
        started_at=max(seconds(meta.creation_timestamp), 1) if has_run else 0,
        checkpointed=checkpointed,
        ignored=ignored,
        problems=tuple(problems),
    )
    succeeded = _number(fields, kind.succeeded) or 0
    return Workload(
        kind=kind.name,
        group=group,
        roles=roles,
        owner=owner,
        succeeded=succeeded,
        ended_role=_ended_role(meta, roles, succeeded, kinds),
        failed_indexes=_count_of_indexes(value_at(fields, kind.failed_indexes)),
        minimum=minimum,
        eviction=_suspension(kind, meta, fields) if _may_await_pods(meta) else None,
        has_parts=bool(kind.part_label),
        partial=partial,
    )


def _ended_role(
    meta: ObjectMeta, roles: Sequence[WorkloadRole], succeeded: int, kinds: WorkloadKinds
) -> str | None:
    """The role of a Job in the workload above it, if it has succeeded. One that is deleted is made again."""
    completions = roles[0].completions if len(roles) == 1 else None
    if completions is None or succeeded < completions or meta.deletion_timestamp is not None:
        return None
    return next((meta.labels[label] for label in kinds.role_labels if label in meta.labels), None)


def _partial(
    kind: WorkloadKind,
    meta: ObjectMeta,
    fields: Mapping[str, Any],
    roles: tuple[WorkloadRole, ...],
    *,
    has_run: bool,
) -> PartialAdmission | Objection | None:
    """Only Jobs can be made smaller. Those with an owner are a part of its gang."""
    if kind.name != JOB.name:
        return None
    (role,) = roles
    is_suspended = value_at(fields, kind.suspended) is True
    return read_partial_admission(
        meta, parallelism=role.pods, pods=role.whole, suspended=is_suspended, has_run=has_run
    )


def _problems(kind: WorkloadKind, meta: ObjectMeta, fields: Mapping[str, Any]) -> Iterator[Objection]:
    """Pods that their controller is about to delete must not start."""
    name = f"{kind.kind} {meta.namespace}/{meta.name}"
    if meta.deletion_timestamp is not None:
        yield Objection(Reason.MEMBERS_MISSING, f"{name} is being deleted", f"Create another {kind.kind}")
    if _has_ended(kind, fields):
        yield Objection(Reason.MEMBERS_MISSING, f"{name} has ended", f"Create another {kind.kind}")
    suspension = _suspension(kind, meta, fields)
    if suspension is not None and not _may_await_pods(meta):
        yield suspension


def _suspension(kind: WorkloadKind, meta: ObjectMeta, fields: Mapping[str, Any]) -> Objection | None:
    if value_at(fields, kind.suspended) is not True:
        return None
    name, reason = f"{kind.kind} {meta.namespace}/{meta.name}", Reason.MEMBERS_MISSING
    if ANNOTATION_SUSPENSION in meta.annotations:
        message = f"{name} was suspended to evict its pods"
        return Objection(reason, message, "Wait: it is resumed when there is capacity for it")
    message = f"{name} is suspended: its controller deletes the pods"
    return Objection(reason, message, f"Resume it: set {kind.suspended} to false")


def _may_await_pods(meta: ObjectMeta) -> bool:
    """Whether the scheduler may have suspended it, or what is above it, to evict its pods."""
    return ANNOTATION_SUSPENSION in meta.annotations or any(each.controller for each in meta.owner_references)


def _paths_to_nothing(kind: WorkloadKind, meta: ObjectMeta, fields: Mapping[str, Any]) -> Iterator[Objection]:
    """Paths of a configured kind that lead to nothing: its gang may be larger than it seems."""
    name = f"{kind.kind} {meta.namespace}/{meta.name}"
    for paths in kind.roles:
        roles = _described(paths, fields)
        if paths.missing is not None:
            continue
        if not all(isinstance(role, Mapping) for role in roles):
            yield _nothing_at(name, f"role at {paths.at}", kind)
            continue
        numbers = (paths.pods, paths.owners, paths.hosts)
        for path in (*numbers, paths.least if value_at(fields, kind.elastic) is True else ""):
            if path and any(_whole(_find(role, fields, path)) is None for role in roles):
                where = "" if path.startswith("/") or not paths.at else f" of a role at {paths.at}"
                yield _nothing_at(name, f"number at {path.removeprefix('/')}{where}", kind)


def _wrong_values(kind: WorkloadKind, meta: ObjectMeta, fields: Mapping[str, Any]) -> Iterator[Objection]:
    """Roles that are no objects, and numbers of pods that are none: the gang may be larger than it seems."""
    name = f"{kind.kind} {meta.namespace}/{meta.name}"
    for paths in kind.roles:
        numbers = (paths.pods, paths.owners, paths.hosts, paths.least, paths.most, paths.completions)
        for role in _described(paths, fields):
            if role is None:
                continue
            if not isinstance(role, Mapping):
                yield _wrong(name, paths.at, role, "an object")
                continue
            for path in filter(None, numbers):
                value = _find(role, fields, path)
                if value is not None and _whole(value) is None:
                    is_own = bool(paths.at) and not path.startswith("/")
                    where = f"{paths.at}.{path}" if is_own else path.removeprefix("/")
                    yield _wrong(name, where, value, f"a whole number from 0 to {NUMBER_MAX}")


def _wrong(name: str, path: str, value: object, expected: str) -> Objection:
    text = f"{name}: {path} is {repr(value)[:_SHOWN_MAX]}, expected {expected}"
    return Objection(Reason.INVALID_OBJECT, text, "Correct this field")


def _nothing_at(name: str, what: str, kind: WorkloadKind) -> Objection:
    return Objection(
        Reason.INVALID_OBJECT,
        f"{name} has no {what}, which the configuration of {kind.kind} names",
        f"Write it, or correct the path, or configure missing if a {kind.kind} may leave it out",
    )


def _has_ended(kind: WorkloadKind, fields: Mapping[str, Any]) -> bool:
    conditions = value_at(fields, "status.conditions") if kind.ended_conditions else None
    found = conditions if isinstance(conditions, list) else ()
    types = [value_at(each, "type") for each in found if value_at(each, "status") == "True"]
    ended = value_at(fields, kind.ended)
    is_end = ended in kind.ended_values if kind.ended_values else bool(ended)
    return is_end or any(each in types for each in kind.ended_conditions)


def _roles(kind: WorkloadKind, fields: Mapping[str, Any], scheduler_name: str) -> tuple[WorkloadRole, ...]:
    is_elastic = value_at(fields, kind.elastic) is True
    annotations = fields.get("annotations")
    is_first = _is_annotated(annotations, kind.one_pod_first)
    is_unknown = _is_annotated(annotations, kind.in_order_annotation)
    ordered = is_unknown or _has_value(fields, kind.in_order)
    reserves = kind.reserves and not is_unknown
    found: list[WorkloadRole] = []
    for paths in kind.roles:
        for each in _described(paths, fields):
            if isinstance(each, Mapping):
                find = partial(_find, each, fields)
                is_later = paths.later or bool(find(paths.depends_on)) or (ordered and bool(found))
                one_first = is_first or _is_annotated(find(paths.annotations), kind.one_pod_first)
                role = _role(paths, find, one_first=one_first)
                ours = _names_us(kind, _scheduler(paths, find), scheduler_name)
                role = replace(role, exists=not is_later, ours=ours)
                role = role if is_elastic else replace(role, least=None)
                if reserves and ours is not False and (is_later or _has_value(fields, kind.one_by_one)):
                    role = replace(role, shape=_shape(paths, find))
                found.append(role)
    is_small = sum(role.owners * role.whole for role in found) <= PLACEHOLDERS_MAX
    return tuple(found) if is_small else tuple(replace(role, shape=None) for role in found)


def _described(paths: RolePaths, fields: Mapping[str, Any]) -> list[Any]:
    """What describes the roles at these paths: an object each, or something else where one is wrong."""
    described = _role_at(fields, paths.at) if paths.at else fields
    return described if isinstance(described, list) else [described]


def _role_at(fields: Mapping[str, Any], path: str) -> Any:
    """What stands at the path of a role. Operators accept the last name in any case, as in `worker`."""
    above, _, name = path.rpartition(".")
    around = value_at(fields, above)
    if not isinstance(around, Mapping) or name in around:
        return value_at(fields, path)
    return next((around[each] for each in around if str(each).lower() == name.lower()), None)


def _is_annotated(annotations: object, name: str) -> bool:
    return isinstance(annotations, Mapping) and name in annotations


def _has_value(fields: Mapping[str, Any], expected: PathValue | None) -> bool:
    if expected is None:
        return False
    found = value_at(fields, expected.path)
    return found == expected.value or (expected.is_default and found in (None, ""))


def _find(described: Mapping[str, Any], fields: Mapping[str, Any], path: str) -> Any:
    """The value at a path of a role."""
    return value_at(fields, path[1:]) if path.startswith("/") else value_at(described, path)


def _role(paths: RolePaths, find: Find, *, one_first: bool) -> WorkloadRole:
    hosts = _or_one(_whole(find(paths.hosts)))
    least = _whole(find(paths.least)) or 0
    written = _whole(find(paths.pods))
    pods = max((paths.pods_if_missing if written is None else written) - paths.including, least)
    most = 0 if find(paths.suspended) is True else _whole(find(paths.most))
    if most is not None:
        pods, least = min(pods, most), min(least, most)
    return WorkloadRole(
        name=str(find(paths.name) or paths.called),
        owners=_or_one(_whole(find(paths.owners))),
        pods=pods * hosts,
        least=least * hosts if paths.least else pods,
        unit=max(hosts, 1),
        unit_label=paths.hosts_label,
        completions=_whole(find(paths.completions)),
        one_first=one_first,
        in_group=_names_group(value_at(_around(paths, find), "metadata")),
    )


def _template(paths: RolePaths, find: Find) -> Any:
    found = find(paths.template)
    return found if found is not None else find(paths.other_template)


def _around(paths: RolePaths, find: Find) -> Any:
    """The template whose spec `_template` returns."""
    path = paths.template if find(paths.template) is not None else paths.other_template
    return find(path.removesuffix(".spec")) if path.endswith(".spec") else None


def _names_group(metadata: object) -> bool:
    """Whether pods with these labels and annotations name a PodGroup."""
    try:
        meta = msgspec.convert(metadata or {}, ObjectMeta)
    except msgspec.ValidationError:
        return False
    is_counted = LABEL_MIN_MEMBER in meta.labels and LABEL_POD_GROUP not in meta.labels
    return not is_counted and bool(named_groups(core.Pod(meta)))


def _scheduler(paths: RolePaths, find: Find) -> Any:
    places = (paths.scheduler,) if isinstance(paths.scheduler, str) else paths.scheduler
    found = next((name for place in places if (name := find(place))), None)
    return found if found is not None else value_at(_template(paths, find), "schedulerName")


def _names_us(kind: WorkloadKind, named: object, scheduler_name: str) -> bool | None:
    """Whether a template names this scheduler; None if it names none. The API server writes
    `default-scheduler` into the templates of its own kinds if they name none."""
    if named == scheduler_name:
        return True
    is_default = named == KUBERNETES_SCHEDULER and kind.group in _DEFAULTED
    return None if not named or is_default else False


def _shape(paths: RolePaths, find: Find) -> PodShape | None:
    if paths.requests is not None:
        return shape_of_paths(paths.requests, find)
    return shape_of_template(_template(paths, find))


def _number(described: object, path: str) -> int | None:
    """The whole number at a path; None without one."""
    return _whole(value_at(described, path))


def _whole(value: object) -> int | None:
    """A whole number; None if it is missing or none that Kubernetes could have accepted."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBER_MAX:
        return None
    return value


def _text(described: object, path: str) -> str | None:
    """The text at a path; None without one."""
    value = value_at(described, path)
    return value if isinstance(value, str) and value else None


def _or_one(number: int | None) -> int:
    return 1 if number is None else number


def _count_of_indexes(written: object) -> int:
    """How many indexes a text such as "1,3-5" names."""
    count = 0
    for part in written.split(",") if isinstance(written, str) else ():
        first, _, last = part.partition("-")
        if first.isascii() and first.isdigit() and (last or first).isascii() and (last or first).isdigit():
            count += max(int(last or first) - int(first) + 1, 0)
    return count
