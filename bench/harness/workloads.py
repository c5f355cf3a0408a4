"""A workload: one small YAML file under bench/workloads, read strictly.

`Workload` documents the fields of a file, which are in camelCase there.
"""

import enum
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import yaml
from msgspec import Meta, Struct
from phalanx.model.resources import CPU, GPU, MEMORY, InvalidQuantity, request_amount

from bench.harness.gangs import Gang, Role
from bench.harness.rules import Rule

FOLDER: Final = Path(__file__).parent.parent / "workloads"
_SPINES_PER_ZONE: Final = 4
_ROLE_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?")

Count = Annotated[int, Meta(ge=1, le=100_000)]
Seconds = Annotated[float, Meta(ge=0, le=3600)]


class BadWorkload(Exception):
    """A workload file is invalid; the message names the file and the field."""


class Clock(enum.StrEnum):
    """When the clock of a run starts."""

    BACKLOG = "backlog"
    """All pods wait; the clock starts with the scheduler's process."""
    LIVE = "live"
    """The scheduler runs and has placed a pod; the clock starts with the first creation."""


class Until(enum.StrEnum):
    """When a run is over."""

    BOUND = "bound"
    """Every pod was bound."""
    ANSWERED = "answered"
    """Every pod is bound or refused, and no bind came for some seconds."""


class _Strict(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Unknown fields are errors."""


class Nodes(_Strict, frozen=True):
    """`count` nodes that differ only in some memory. `rack` and `spine`: the number of nodes in each."""

    count: Count
    cores: Count = 32
    memory_gib: Count = 256
    gpus: Annotated[int, Meta(ge=0, le=64)] = 0
    rack: Count = 16
    spine: Count = 128

    @property
    def zone(self) -> int:
        """The number of nodes in each zone."""
        return _SPINES_PER_ZONE * self.spine

    @property
    def allocatable(self) -> dict[str, int]:
        """The allocatable resources of every node: millicores, bytes, devices."""
        return {CPU: 1000 * self.cores, MEMORY: (self.memory_gib << 30) - (1 << 20), GPU: self.gpus}


class Gangs(_Strict, frozen=True):
    """`count` equal gangs.

    `existing` gangs run before the clock starts. `priority` becomes a PriorityClass; `queue` is
    "lender" or "owner", two queues of equal weight, for schedulers that know queues. `rule` is what each pod
    asks for beside its requests.
    """

    count: Count
    roles: Annotated[tuple[Role, ...], Meta(min_length=1)]
    level: Literal["", "rack", "spine"] = ""
    existing: bool = False
    priority: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    queue: Literal["", "lender", "owner"] = ""
    rule: Rule = Rule.NONE


class Arrival(_Strict, frozen=True):
    """Pods arrive gang by gang, or with `interleaved` one of each gang in turn; `per_second` 0: all at once.

    At a rate, the pods of a gang arrive together, and the interval to the next gang is proportional to their
    number.
    """

    per_second: Annotated[float, Meta(ge=0, le=10_000)] = 0
    interleaved: bool = False


class Workload(_Strict, frozen=True):
    """`run_seconds`: run time of the pods, 0 for no end. `limit_seconds`: limit of the whole run."""

    about: str
    nodes: Nodes
    gangs: Annotated[tuple[Gangs, ...], Meta(min_length=1)]
    arrival: Arrival = Arrival()
    clock: Clock = Clock.BACKLOG
    until: Until = Until.BOUND
    run_seconds: Seconds = 0
    limit_seconds: Annotated[float, Meta(ge=1, le=3600)] = 300
    name: str = ""

    @property
    def pods(self) -> int:
        """The number of pods to place."""
        return sum(gang.size for gang in self.arriving())

    def arriving(self) -> list[Gang]:
        """The gangs to place in order of arrival; several kinds are interleaved in proportion."""
        return _mixed(self.gangs, existing=False, prefix="gang")

    def existing(self) -> list[Gang]:
        """The gangs that run before the clock starts."""
        return _mixed(self.gangs, existing=True, prefix="existing")


def _mixed(kinds: tuple[Gangs, ...], *, existing: bool, prefix: str) -> list[Gang]:
    places = sorted(
        (Fraction(2 * index + 1, 2 * kind.count), number)
        for number, kind in enumerate(kinds)
        if kind.existing is existing
        for index in range(kind.count)
    )
    return [_gang(kinds[number], f"{prefix}-{index:05d}") for index, (_, number) in enumerate(places)]


def _gang(kind: Gangs, name: str) -> Gang:
    return Gang(name, kind.roles, kind.level, priority=kind.priority, queue=kind.queue, rule=kind.rule)


def names() -> list[str]:
    """The names of the shipped workloads."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Workload:
    """Load a workload by its name under bench/workloads, or a path that ends in .yaml. Raises BadWorkload."""
    path = Path(name) if name.endswith(".yaml") else FOLDER / f"{name}.yaml"
    try:
        text = path.read_text()
    except OSError as error:
        raise BadWorkload(
            f"no workload {name!r}: {error.strerror}; known workloads: {', '.join(names())}"
        ) from None
    return read(text, name=path.stem)


def read(text: str, *, name: str) -> Workload:
    """A workload from the text of its file. Raises BadWorkload."""
    try:
        found = msgspec.convert(yaml.safe_load(text), Workload)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise BadWorkload(f"workload {name}: {error}") from None
    wrong = "; ".join(_wrong(found))
    if wrong:
        raise BadWorkload(f"workload {name}: {wrong}")
    return msgspec.structs.replace(found, name=name)


def _wrong(workload: Workload) -> Iterator[str]:
    nodes = workload.nodes
    if workload.name:
        yield "name: must not be set, it is the name of the file"
    if nodes.spine % nodes.rack:
        yield f"nodes.spine: {nodes.spine} is no multiple of nodes.rack, {nodes.rack}"
    if all(kind.existing for kind in workload.gangs):
        yield "gangs: all of them are existing, there is nothing to place"
    if workload.clock is Clock.BACKLOG and workload.arrival.per_second:
        yield "arrival.perSecond: with the clock backlog all pods exist at the start"
    for number, kind in enumerate(workload.gangs):
        yield from _wrong_gangs(kind, nodes, f"gangs[{number}]")


def _wrong_gangs(kind: Gangs, nodes: Nodes, path: str) -> Iterator[str]:
    if len({role.name for role in kind.roles}) < len(kind.roles):
        yield f"{path}.roles: two have the same name"
    for number, role in enumerate(kind.roles):
        at = f"{path}.roles[{number}]"
        if not _ROLE_NAME.fullmatch(role.name):
            yield f"{at}.name: {role.name!r} is not a short lower-case name"
        if role.count < 1:
            yield f"{at}.count: {role.count} is less than 1"
        for resource, written in role.requests.items():
            yield from _wrong_request(resource, written, nodes, f"{at}.requests.{resource}")


def _wrong_request(resource: str, written: str, nodes: Nodes, path: str) -> Iterator[str]:
    try:
        amount = request_amount(resource, written)
    except InvalidQuantity as error:
        yield f"{path}: {error}"
        return
    offered = nodes.allocatable.get(resource)
    if offered is None:
        yield f"{path}: nodes offer only {', '.join(nodes.allocatable)}"
    elif amount > offered:
        yield f"{path}: {written} is more than a whole node offers"
