"""Task groups of YuniKorn: the annotations of a pod that define the gang of its application.

docs/dialects/yunikorn.md states what becomes of each field.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from phalanx.limits import CAPACITY_HOLD_MS
from phalanx.model.conversion.requests import read_amounts, too_many
from phalanx.model.conversion.template_shapes import shape_of_template
from phalanx.model.conversion.workload_members import NUMBER_MAX
from phalanx.model.dialects.dialect import unsupported_field
from phalanx.model.pods import PodShape
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import PODS
from phalanx.model.supplies.known import requests_parts

_TASK_GROUPS_MAX: Final = 32
"""Task groups of one application of YuniKorn: as many as the API allows roles of a PodGroup."""


DOMAIN: Final = "yunikorn.apache.org"
TASK_GROUPS: Final = f"{DOMAIN}/task-groups"
PARAMETERS: Final = f"{DOMAIN}/schedulingPolicyParameters"

_GROUPS_PATH: Final = f"metadata.annotations[{TASK_GROUPS}]"
_PARAMETERS_PATH: Final = f"metadata.annotations[{PARAMETERS}]"

_OF_PODS: Final = {"nodeselector": "nodeSelector", "tolerations": "tolerations", "affinity": "affinity"}
"""Fields of a task group that are fields of its pods, by their names in lower case."""

_OF_PLACEHOLDERS: Final = ("labels", "annotations")
"""Fields that only describe placeholder pods, which do not exist."""

_SPREAD: Final = "topologyspreadconstraints"
_KNOWN: Final = ("name", "minmember", "minresource", _SPREAD, *_OF_PODS, *_OF_PLACEHOLDERS)

_TIMEOUT: Final = "placeholderTimeoutInSeconds"
_STYLE: Final = "gangSchedulingStyle"
_HOLD_S: Final = CAPACITY_HOLD_MS // 1000


class TaskGroup(Struct, frozen=True):
    """Pods of one kind."""

    name: str
    min_member: int
    requests: Mapping[str, Any]
    """Of each of its pods, as written."""

    shape: PodShape | None
    """Of its pods; None if no capacity can be reserved for them."""


class Definition(Struct, frozen=True):
    """What the annotations of a pod say about the gang of its application."""

    groups: tuple[TaskGroup, ...]
    problems: tuple[Objection, ...] = ()
    ignored: str = ""
    """A parameter that counts for another value."""


def read_definition(task_groups: str, parameters: str) -> Definition:
    """Read both annotations. Errors and fields without a counterpart become problems that name them."""
    wrong: list[str] = []
    refused: list[str] = []
    groups = tuple(_groups(task_groups, wrong, refused))
    ignored = _read_parameters(parameters, wrong, refused)
    return Definition(
        groups=groups,
        problems=(
            *[_refused(path) for path in refused],
            *[Objection(Reason.INVALID_OBJECT, error) for error in wrong],
        ),
        ignored=ignored if groups else "",
    )


def _refused(path: str) -> Objection:
    found = unsupported_field(path)
    return Objection(found.reason, f"field {path} of pods is not supported yet", f"Remove {path}")


# --- task groups --------------------------------------------------------------------------------------------


def _groups(text: str, wrong: list[str], refused: list[str]) -> Iterator[TaskGroup]:
    try:
        written = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        wrong.append(f"{_GROUPS_PATH}: expected a list in JSON: {error}")
        return
    if not isinstance(written, list):
        wrong.append(f"{_GROUPS_PATH}: expected a list in JSON")
        return
    if len(written) > _TASK_GROUPS_MAX:
        wrong.append(f"{_GROUPS_PATH}: expected at most {_TASK_GROUPS_MAX} task groups")
        return
    seen: set[str] = set()
    for index, each in enumerate(written):
        path = f"{_GROUPS_PATH}[{index}]"
        if not isinstance(each, dict):
            wrong.append(f"{path}: expected an object")
            continue
        group = _group(each, path, wrong, refused)
        if group is not None and group.name in seen:
            wrong.append(f"{path}.name: {group.name!r} is not unique")
        elif group is not None:
            seen.add(group.name)
            yield group


def _group(written: dict[str, Any], path: str, wrong: list[str], refused: list[str]) -> TaskGroup | None:
    """One task group; None after an error. Go reads names of fields in any case."""
    fields = {key.lower(): value for key, value in written.items() if value is not None}
    refused.extend(f"{path}.{key}" for key in written if key.lower() not in _KNOWN)
    if fields.get(_SPREAD):
        refused.append(f"{path}.topologySpreadConstraints")
    name, least, requests = fields.get("name"), fields.get("minmember"), fields.get("minresource")
    if not isinstance(name, str) or not name:
        wrong.append(f"{path}.name: expected a name")
    elif not isinstance(least, int) or isinstance(least, bool) or not 1 <= least <= NUMBER_MAX:
        wrong.append(f"{path}.minMember: expected a whole number from 1 to {NUMBER_MAX}")
    elif not isinstance(requests, dict):
        wrong.append(f"{path}.minResource: expected amounts of resources")
    elif not _amount_errors(requests, f"{path}.minResource", wrong):
        return TaskGroup(name, least, requests, _shape(fields, requests, path, wrong))
    return None


def _amount_errors(requests: Mapping[str, Any], path: str, wrong: list[str]) -> bool:
    """Whether amounts are invalid. Their errors are appended to `wrong`."""
    found: list[str] = []
    texts = {key: value for key, value in requests.items() if isinstance(value, str | int | float)}
    found += [f"{path}[{key}]: expected an amount" for key in requests if key not in texts]
    found += [f"{path}[{PODS}]: is 1 for each pod" for key in texts if key == PODS]
    amounts = read_amounts(texts, path, found)
    wrong.extend([*found, *too_many(amounts, path)])
    return bool(found)


def _shape(
    fields: Mapping[str, Any], requests: Mapping[str, Any], path: str, wrong: list[str]
) -> PodShape | None:
    """The shape of pods with these fields; None with an error, and for shares of a GPU."""
    spec = {name: fields[key] for key, name in _OF_PODS.items() if fields.get(key)}
    container = {"name": "placeholder", "resources": {"requests": requests}}
    shape = shape_of_template({**spec, "containers": [container]})
    if shape is None and not requests_parts(read_amounts(requests, path, [])):
        wrong.append(f"{path}: expected {', '.join(spec) or 'minResource'} as of a pod")
    return shape


# --- parameters ---------------------------------------------------------------------------------------------


def _read_parameters(text: str, wrong: list[str], refused: list[str]) -> str:
    """A parameter that counts for another value; empty for none."""
    ignored = ""
    for part in text.split():
        name, is_set, value = part.partition("=")
        if not is_set or "=" in value:
            wrong.append(f"{_PARAMETERS_PATH}: expected NAME=VALUE, not {part!r}")
        elif name == _STYLE and value == "Hard":
            continue
        elif name == _TIMEOUT:
            if not value.isascii() or not value.isdigit():
                wrong.append(f"{_PARAMETERS_PATH}: {_TIMEOUT}: expected a number of seconds")
            elif int(value[:12]) not in (0, _HOLD_S):
                ignored = (
                    f"{_TIMEOUT} {value[:12]} counts as {_HOLD_S}: so long capacity is reserved for pods "
                    "that do not exist yet, from the first start"
                )
        else:
            refused.append(f"{_PARAMETERS_PATH}: {part}")
    return ignored
