"""What is read of a kind of workload: the names of fields, so that a new kind needs no code.

A path is a list of names that are separated by dots, such as `spec.parallelism`; a name that has dots is
written in brackets, as in `spec.sparkConf.[spark.kubernetes.scheduler.name]`. It starts at the object, or for
the fields of a role at the object that describes the role; with a `/` before it, always at the workload.
A part of the path that is missing means that the value is missing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct


class PathValue(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A path and a value that may stand there."""

    path: str
    """The path of the field."""
    value: str
    """The value of the field."""

    is_default: bool = False
    """Whether a missing field has this value."""


class RequestPaths(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Where the requests of a pod stand, if the object has no template of it: as of Spark."""

    cpu: tuple[str, ...] = ()
    """The first of these amounts that is present."""

    java_memory: str = ""
    """The memory of a Java program, such as 512m or 2g, to which Spark adds an overhead."""

    java_overhead: str = ""
    """This overhead, as of `javaMemory`."""

    java_overhead_factor: str = ""
    """The part of the memory that the overhead is, if it is not written."""

    device_name: str = ""
    """The name of another resource."""

    device_count: str = ""
    """Its amount."""


class RolePaths(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Where the roles of a workload stand: an object, or a list of objects, one for each role.

    A role has `owners` objects, such as Jobs, which make `pods` pods each. Numbers that are missing are 1, or
    as `missing` says.
    """

    at: str = ""
    """The object or the list; empty for the workload itself."""

    name: str = ""
    """The name of the role."""

    called: str = ""
    """The name itself, if the object has none; empty as well if the workload has one role without a name."""

    owners: str = ""
    """How many objects own the pods of the role; empty for the workload itself."""

    pods: str = ""
    """How many pods each of them has at the same time."""

    missing: int | None = None
    """How many, if no number is written at `pods`; `owners` and `hosts` are then 1, and `at` may lead to
    nothing. Without it an object of a configured kind must have them all: a path with an error in it would
    let its gang start in parts."""

    least: str = ""
    """How many it always has, if an autoscaler decides on the others; `pods` counts if it is more."""

    most: str = ""
    """How many it has at most, whatever `pods` says."""

    suspended: str = ""
    """If this is true, the role has no pods."""

    including: int = 0
    """How many pods of other roles `pods` counts too."""

    hosts: str = ""
    """How many pods stand for one in `pods`, `least` and `most`: they start together."""

    hosts_label: str = ""
    """A label that these pods share and no others."""

    completions: str = ""
    """How many pods of each of them succeed in all; missing where nobody counts them."""

    template: str = ""
    """The spec of its pods."""

    other_template: str = ""
    """The same, if there is nothing at `template`."""

    scheduler: str | tuple[str, ...] = ""
    """Where the name of their scheduler may stand: the first that is present counts. Without one, their
    template has it."""

    requests: RequestPaths | None = None
    """Their requests, if the object has no spec of them."""

    later: bool = False
    """Whether pods of other roles make its pods."""

    annotations: str = ""
    """Annotations of the objects that own its pods."""

    depends_on: str = ""
    """If this is present and not empty, the role is created after others."""

    @property
    def pods_if_missing(self) -> int:
        """How many pods each owner has, if no number is written."""
        return 1 if self.missing is None else self.missing


class WorkloadKind(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A kind of objects that own pods, directly or through other owners, and whose pods are one gang."""

    api_version: str
    """As group/version."""

    kind: str
    """The kind, such as Training."""
    plural: str
    """The name of the resource in the API."""

    only_this_version: bool = False
    """Whether other versions of the API are another kind: two projects have one of this group and name."""

    roles: tuple[RolePaths, ...]
    """The roles of the pods. One without a name is enough. Without any, objects of the kind make other
    workloads, whose gangs count: they are read only to suspend them."""
    role_label: str = ""
    """The label of a pod with the name of its role."""

    role_of_label: Mapping[str, str] = {}
    """The role by the value of this label, if the value is not its name; `*` stands for all other values."""

    part_label: str = ""
    """A label of pods. Those with different values are different gangs, each with all roles."""

    through: tuple[str, ...] = ()
    """Other kinds that Phalanx reads and that make its pods for it, such as Job.batch: needed to know of pods
    of other schedulers."""

    only_with_labels: tuple[str, ...] = ()
    """Pods that it controls count for it only with one of these labels, whose value is not "false"."""

    in_order: PathValue | None = None
    """With this value there, each role is created after the one before."""

    in_order_annotation: str = ""
    """An annotation by which each role is created when the one before has nodes, in a place that depends on
    them: nothing is reserved for it."""

    one_by_one: PathValue | None = None
    """With this value there, each pod is created when the one before is ready."""

    reserves: bool = False
    """Whether a gang starts only with capacity for its pods that are created later, which is reserved."""

    minimum: tuple[str, ...] = ()
    """How many pods must start in all, if not all of them: the first of these numbers that is above 0. Pods
    of later roles are left out first."""

    queue: str = ""
    """The name of its queue, if no label names one."""

    priority_class: str = ""
    """The name of the PriorityClass of the gang."""

    elastic: str = ""
    """Whether an autoscaler changes the number of pods: only the least number of each role must start."""

    suspended: str = ""
    """Whether the controller deletes the pods until it is resumed."""

    ended: str = ""
    """If this is present and not empty, no more pods are made."""

    ended_values: tuple[str, ...] = ()
    """Only these values of `ended` say so; empty for all values."""

    ended_conditions: tuple[str, ...] = ()
    """Types of conditions in the status. If one is True, no more pods are made."""

    succeeded: str = ""
    """The number of succeeded pods, of which some may not exist any more."""

    failed_indexes: str = ""
    """Indexes for which no pod is made any more, as in "1,3-5"."""

    has_run: tuple[str, ...] = ()
    """Numbers that are above 0 once pods have run."""

    one_pod_first: str = ""
    """An annotation of the object or of a role. With it, each owner makes its other pods when its first one
    has a node."""

    @property
    def group(self) -> str:
        """The API group."""
        return self.api_version.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name in the registry of kinds, such as Job.batch: other groups may have a kind of this name."""
        version = f"{self.api_version.rpartition('/')[2]}." if self.only_this_version else ""
        return f"{self.kind}.{version}{self.group}"


def value_at(described: object, path: str) -> Any:
    """The value at a path; None without one."""
    if not path:
        return None
    for name in names_on_path(path):
        if not isinstance(described, Mapping):
            return None
        described = described.get(name)
    return described


def names_on_path(path: str) -> Sequence[str]:
    """The names on a path; those with dots are written in brackets."""
    before, opened, rest = path.partition(".[")
    if not opened:
        return path.split(".")
    name, _, after = rest.partition("]")
    return [*before.split("."), name, *after.split(".")[1:]]


def set_suspended(kind: WorkloadKind, value: bool) -> dict[str, object]:
    """A merge patch that suspends or resumes a workload of this kind."""
    patch: object = value
    for name in reversed(names_on_path(kind.suspended)):
        patch = {name: patch}
    assert isinstance(patch, dict)
    return patch
