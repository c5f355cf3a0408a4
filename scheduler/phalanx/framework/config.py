"""The configuration file of the scheduler: strict YAML that is checked in full when it is read.

The docstring below a field is its documentation for users: `phalanx config explain` and the JSON schema print
it. A new field needs a row with the same text in `docs/configuration.md`, and a line in its example.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
import yaml
from msgspec import Meta, Struct

from phalanx.framework.evictable_pods import ENTRIES_MAX, EvictablePods, positions_of_errors
from phalanx.framework.retry import BIND_REFUSALS_PER_MINUTE_MAX, RetryConfig
from phalanx.framework.strict_yaml import StrictConstructor, describe
from phalanx.model.dialects.queues import QueueDialectName
from phalanx.model.names import DEFAULT_SCHEDULER_NAME
from phalanx.model.workloads.kind import WorkloadKind
from phalanx.model.workloads.known import KNOWN

STATE_TAINTS_MAX: Final = 64
"""Maximum of `stateTaints`: each key of each taint is compared with all of them when its node changes."""

_TaintKey = Annotated[str, Meta(min_length=2, max_length=317)]
"""A prefix of 253 characters, `/` and a name of 63, as in Kubernetes. `*` alone would match all."""

_KIND: Final = re.compile("[A-Z][A-Za-z0-9]{0,62}")
_PLURAL: Final = re.compile("[a-z0-9]{1,63}")


_AT: Final = re.compile(r"(?s)(.*?)(?: - at (?:`key` in )?`\$([^`]*)`)?")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_UNKNOWN_FIELD: Final = re.compile("Object contains unknown field `(.*)`")

KeyPath = tuple[str | int, ...]
"""The place of a value in the file: keys, positions in lists, and names of plugins in the list of them."""


class ConfigError(ValueError):
    """The configuration is wrong. The message names the field and what was expected."""

    def __init__(self, problem: str, *, path: KeyPath = ()) -> None:
        field = field_name(path)
        super().__init__(f"{field}: {problem}" if field else problem)
        self.problem = problem
        self.path = path


def field_name(path: KeyPath) -> str:
    """The path as in messages, such as `plugins[drf].arguments`."""
    field = ""
    for step in path:
        is_item = isinstance(step, int) or field == "plugins"
        field += f"[{step}]" if is_item else f".{step}" if field else str(step)
    return field


def error_of(error: msgspec.ValidationError, *, below: KeyPath = ()) -> ConfigError:
    """The error of a value below this path; msgspec writes the rest of the path into its message."""
    found = _AT.fullmatch(str(error))
    assert found is not None  # every text matches
    problem, rest = found[1], found[2] or ""
    steps: KeyPath = tuple(key or int(position) for key, position in _STEP.findall(rest))
    unknown = _UNKNOWN_FIELD.fullmatch(problem)
    return ConfigError(problem, path=(*below, *steps, *([unknown[1]] if unknown else [])))


class ActionName(StrEnum):
    """A step of a cycle that may evict. All other steps always run."""

    RELEASE = "release"
    """Evict the members of gangs that never started and stay incomplete."""
    RECOVER = "recover"
    """Replace lost members of started gangs, or restart the gangs."""
    CONSOLIDATE = "consolidate"
    """Move gangs so that others fit into capacity that is free but fragmented."""
    PREEMPT = "preempt"
    """Evict gangs so that others fit."""


class PluginConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Enables or disables a plugin, sets its arguments, or moves it forward in the order."""

    name: str
    """The name of the plugin. Each plugin may be listed once."""
    enabled: bool = True
    """`false` disables the plugin, which is then not imported."""
    arguments: Mapping[str, Any] = {}
    """The arguments of the plugin: `phalanx config explain 'plugins[NAME]'` lists them."""


Positive = Annotated[int, Meta(ge=1, le=10**9)]
Percent = Annotated[int, Meta(ge=1, le=100)]


class ToleranceConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The circuit breaker for faults of nodes, and the decay of failure scores."""

    breaker_percent: Percent = 50
    """The breaker opens when more than this part of the nodes became faulty within the window."""
    breaker_nodes_min: Positive = 10
    """In a cluster with fewer nodes the breaker never opens."""
    breaker_window_seconds: Positive = 300
    """The time in which nodes that became faulty count."""
    failure_half_life_minutes: Positive = 24 * 60
    """A failure of a node counts half as much in its failure score after each such time."""
    preflight_containers: tuple[str, ...] = ()
    """Names of init containers that check the node: if one fails, the failure counts for all workloads."""

    @property
    def breaker_window_ms(self) -> int:
        return self.breaker_window_seconds * 1000

    @property
    def failure_half_life_ms(self) -> int:
        return self.failure_half_life_minutes * 60_000


class FairnessConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The comparison of queues by their usage."""

    usage_half_life_minutes: Positive | None = None
    """Past usage of a queue counts half as much after each such time. With `null` only the current usage
    counts."""

    @property
    def usage_half_life_ms(self) -> int:
        """The half-life in milliseconds, 0 without one."""
        return (self.usage_half_life_minutes or 0) * 60_000


class BackfillConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Reserved starts in queues with backfill."""

    assumed_runtime_minutes: Positive | None = 24 * 60
    """The assumed run time of a running gang of which nothing is known, for the reserved starts in queues
    with backfill. With `null` such a gang is assumed never to end."""

    @property
    def assumed_runtime_ms(self) -> int | None:
        """The assumed run time in milliseconds."""
        return self.assumed_runtime_minutes * 60_000 if self.assumed_runtime_minutes is not None else None


class ConsolidationConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Moves of gangs so that others fit: the action `consolidate`, and moves for guarantees."""

    dry_run: bool = False
    """`true` reports plans and moves nothing."""
    moves_max: Positive = 8
    """Gangs that are being moved at the same time, at most."""
    rest_minutes: Positive = 60
    """A gang is moved only after it has run this long since its start or its last move."""
    interval_seconds: Positive = 60
    """The time between two searches for moves for the same waiting gang."""
    for_guarantees: bool = True
    """Whether `preempt` also moves gangs for a gang inside a guarantee for which no evictions are enough."""

    @property
    def rest_ms(self) -> int:
        return self.rest_minutes * 60_000

    @property
    def interval_ms(self) -> int:
        return self.interval_seconds * 1000


class PrivacyConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What the objects of a tenant show of other tenants."""

    show_other_tenants: bool = False
    """`true` writes the names of gangs, pods and nodes of other tenants into the conditions, events and
    statuses of a tenant's objects."""


class ConditionsConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The conditions of waiting pods."""

    compatible: bool = False
    """`true` writes the reason `Unschedulable` for every pod that waits, as kube-scheduler does. A cluster
    autoscaler then adds nodes also for gangs that no node helps."""


class TracingConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Traces of the starts of gangs, by OpenTelemetry."""

    endpoint: Annotated[str, Meta(pattern="^https?://[^ ]+$", max_length=2048)] | None = None
    """The URL of a collector that takes traces by OTLP over HTTP, such as `http://collector:4318/v1/traces`.
    With `null` there are no traces. It needs the extra `otel`."""


class SchedulerConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """All settings."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    """Phalanx schedules the pods with this `spec.schedulerName`."""
    plugins: tuple[PluginConfig, ...] = ()
    """Plugins to move to the front, to disable, or to give arguments."""
    actions: tuple[ActionName, ...] = (ActionName.RELEASE, ActionName.RECOVER, ActionName.PREEMPT)
    """The steps of a cycle that may evict, in the order in which they run. A step that is not listed does not
    run. `consolidate` needs `preempt`."""
    default_topology: str | None = None
    """The Topology of gangs that name none. With `null` it is the Topology `default`, else the first one by
    name, else the levels whose well-known labels the nodes carry."""
    nominating_schedulers: tuple[str, ...] | None = None
    """The schedulers whose pods may withhold capacity by `status.nominatedNodeName` before they are bound.
    With `null` all but Phalanx, with `[]` none."""
    evictable_pods: Annotated[tuple[EvictablePods, ...], Meta(max_length=ENTRIES_MAX)] = (EvictablePods(),)
    """The pods of other schedulers that gangs of higher priority may evict: those that one of the entries
    selects. With `[]` none."""
    queue_dialects: tuple[QueueDialectName, ...] = ()
    """The API groups of other projects whose Queues are read, beside those of Phalanx: of Volcano and of
    KAI."""
    workloads: tuple[WorkloadKind, ...] = ()
    """Kinds of workloads, in addition to those that Phalanx knows."""
    state_taints: Annotated[tuple[_TaintKey, ...], Meta(max_length=STATE_TAINTS_MAX)] = ()
    """Keys of taints that only say that a node takes no pods yet, or is about to go, in addition to those
    that Phalanx knows. `/` at the end stands for all keys with this prefix, `*` at the start for all with
    this suffix."""
    suspend_evicted_workloads: bool = True
    """Whether a workload whose whole gang is evicted is suspended, where its kind can be suspended: its
    controller then counts no failures. With `false` the pods are deleted."""
    suspended_minutes: Annotated[int, Meta(ge=0, le=10_080)] | None = 5
    """Minutes after which a workload that was suspended for others is resumed although there is no capacity
    for it, so that a cluster autoscaler sees its pods. With `0` it is resumed as soon as its pods are being
    deleted, with `null` only when there is capacity."""
    tolerance: ToleranceConfig = ToleranceConfig()
    fairness: FairnessConfig = FairnessConfig()
    backfill: BackfillConfig = BackfillConfig()
    consolidation: ConsolidationConfig = ConsolidationConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    conditions: ConditionsConfig = ConditionsConfig()
    retry: RetryConfig = RetryConfig()
    tracing: TracingConfig = TracingConfig()
    seed: int = 0
    """Seed of the solver. Equal clusters and equal seeds give equal decisions."""


def load_settings(text: str) -> Any:
    """The values of YAML text, not checked yet. Raises ConfigError."""
    try:
        settings = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError("not YAML: {}{}".format(*describe(error))) from error
    return {} if settings is None else settings


def convert(settings: Any) -> SchedulerConfig:
    """The configuration with these values. Raises ConfigError for the first key or type that is wrong."""
    try:
        return msgspec.convert(settings, SchedulerConfig)
    except msgspec.ValidationError as error:
        raise error_of(error) from error


def config_errors(config: SchedulerConfig) -> Iterator[ConfigError]:
    """What the types of the fields do not say."""
    yield from _repeated("plugins", [plugin.name for plugin in config.plugins])
    yield from _repeated("actions", list(config.actions))
    yield from _repeated("queueDialects", list(config.queue_dialects))
    if ActionName.CONSOLIDATE in config.actions and ActionName.PREEMPT not in config.actions:
        yield ConfigError(
            "consolidate needs preempt, which reserves the capacity that it frees", path=("actions",)
        )
    yield from _frequent_binds(config.retry)
    for position in positions_of_errors(config.evictable_pods):
        path = ("evictablePods", position, "namespaces")
        yield ConfigError("pods of kube-system are never evicted", path=path)
    yield from _repeated("workloads", [kind.name for kind in config.workloads])
    for position, kind in enumerate(config.workloads):
        yield from _kind_errors(("workloads", position), kind)


def _kind_errors(path: KeyPath, kind: WorkloadKind) -> Iterator[ConfigError]:
    """Refuse a kind that is read already, and one without what is needed to read it."""
    if kind.api_version.count("/") != 1 or not all(kind.api_version.split("/")):
        yield ConfigError(f"expected group/version, found {kind.api_version!r}", path=(*path, "apiVersion"))
    if not _KIND.fullmatch(kind.kind):
        yield ConfigError(f"expected a kind such as Job, found {kind.kind!r}", path=(*path, "kind"))
    if not _PLURAL.fullmatch(kind.plural):
        yield ConfigError(f"expected a resource such as jobs, found {kind.plural!r}", path=(*path, "plural"))
    if KNOWN.above_owner(kind.api_version, kind.kind):
        yield ConfigError(f"Phalanx reads {kind.kind} of {kind.group} already", path=path)
    if not kind.roles and not kind.suspended:
        text = "expected at least one role, or suspended for a kind that makes other workloads"
        yield ConfigError(text, path=(*path, "roles"))


def _frequent_binds(retry: RetryConfig) -> Iterator[ConfigError]:
    """Refuse a bind back-off so short that a bind which always fails would load the API server."""
    if not retry.keeps_bind_refusals_bounded:
        yield ConfigError(
            f"expected at least {retry.bind_backoff_max_seconds_min} with"
            f" bindBackoffFirstMilliseconds {retry.bind_backoff_first_milliseconds}, found"
            f" {retry.bind_backoff_max_seconds}: a refused bind would be sent again more than"
            f" {BIND_REFUSALS_PER_MINUTE_MAX} times a minute",
            path=("retry", "bindBackoffMaxSeconds"),
        )


def _repeated(field: str, names: list[str]) -> Iterator[ConfigError]:
    for position, name in enumerate(names):
        if name in names[:position]:
            yield ConfigError(f"{name} is listed twice", path=(field, position))


class _Loader(StrictConstructor, yaml.SafeLoader):
    """Loads YAML without custom types."""
