"""The configuration file of the scheduler: strict YAML that is checked in full at start.

A new field needs a row in `docs/configuration.md` and a line in its example.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
import yaml
from msgspec import Meta, Struct

from phalanx.framework.retry import BIND_REFUSALS_PER_MINUTE_MAX, RetryConfig
from phalanx.framework.strict_yaml import StrictConstructor, describe
from phalanx.model.dialects.queues import QueueDialectName
from phalanx.model.names import DEFAULT_SCHEDULER_NAME
from phalanx.model.workloads.kind import WorkloadKind
from phalanx.model.workloads.known import KNOWN

_KIND: Final = re.compile("[A-Z][A-Za-z0-9]{0,62}")
_PLURAL: Final = re.compile("[a-z0-9]{1,63}")


class ConfigError(ValueError):
    """The configuration is wrong. The message names the field and what was expected."""


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
    enabled: bool = True
    arguments: Mapping[str, Any] = {}
    """The fields of the plugin's `Arguments`."""


Positive = Annotated[int, Meta(ge=1, le=10**9)]
Percent = Annotated[int, Meta(ge=1, le=100)]


class ToleranceConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The circuit breaker for faults of nodes, and the decay of failure scores."""

    breaker_percent: Percent = 50
    """The breaker opens when more than this part of the nodes became faulty within the window."""
    breaker_nodes_min: Positive = 10
    """Clusters with fewer nodes have no breaker."""
    breaker_window_seconds: Positive = 300
    failure_half_life_minutes: Positive = 24 * 60
    """A failure of a node counts half as much after each half-life."""

    @property
    def breaker_window_ms(self) -> int:
        """The window in milliseconds."""
        return self.breaker_window_seconds * 1000

    @property
    def failure_half_life_ms(self) -> int:
        """The half-life in milliseconds."""
        return self.failure_half_life_minutes * 60_000


class FairnessConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The comparison of queues by their usage."""

    usage_half_life_minutes: Positive | None = None
    """Past usage counts half as much after each half-life; null: only current usage counts."""

    @property
    def usage_half_life_ms(self) -> int:
        """The half-life in milliseconds, 0 without one."""
        return (self.usage_half_life_minutes or 0) * 60_000


class BackfillConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Reserved starts in queues with backfill."""

    assumed_runtime_minutes: Positive | None = 24 * 60
    """The assumed run time of a gang of unknown run time; null: it never ends."""

    @property
    def assumed_runtime_ms(self) -> int | None:
        """The assumed run time in milliseconds."""
        return self.assumed_runtime_minutes * 60_000 if self.assumed_runtime_minutes is not None else None


class ConsolidationConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The action `consolidate`, which moves gangs so that others fit."""

    dry_run: bool = False
    """Report plans without moving gangs."""
    moves_max: Positive = 8
    """Gangs that are moved at the same time."""
    rest_minutes: Positive = 60
    """The run time of a gang, since its start or last move, before it may be moved."""
    interval_seconds: Positive = 60
    """The time between two searches for moves for the same gang."""

    @property
    def rest_ms(self) -> int:
        """The rest in milliseconds."""
        return self.rest_minutes * 60_000

    @property
    def interval_ms(self) -> int:
        """The interval in milliseconds."""
        return self.interval_seconds * 1000


class PrivacyConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What the objects of a tenant show of other tenants."""

    show_other_tenants: bool = False
    """Whether verdicts, conditions and events name the gangs, pods and nodes of other tenants."""


class SchedulerConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """All settings."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    plugins: tuple[PluginConfig, ...] = ()
    """The first plugins, in this order; the other plugins of the default profile follow."""
    actions: tuple[ActionName, ...] = (ActionName.RELEASE, ActionName.RECOVER, ActionName.PREEMPT)
    """The steps that may evict, in the order in which they run."""
    default_topology: str | None = None
    """The Topology of gangs that name none."""
    nominating_schedulers: tuple[str, ...] | None = None
    """The schedulers whose nominations of pods to nodes are respected; null: all other schedulers."""
    queue_dialects: tuple[QueueDialectName, ...] = ()
    """API groups of other projects whose Queues are read, in addition to those of Phalanx."""
    workloads: tuple[WorkloadKind, ...] = ()
    """Kinds whose pods are gangs, in addition to those that Phalanx knows."""
    tolerance: ToleranceConfig = ToleranceConfig()
    fairness: FairnessConfig = FairnessConfig()
    backfill: BackfillConfig = BackfillConfig()
    consolidation: ConsolidationConfig = ConsolidationConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    retry: RetryConfig = RetryConfig()
    seed: int = 0
    """Part of every snapshot: equal seeds give equal decisions."""


def parse_config(text: str) -> SchedulerConfig:
    """Parse YAML text; an empty text means all defaults. Raises ConfigError.

    The registry checks the names of plugins.
    """
    try:
        settings = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError("not YAML: {}{}".format(*describe(error))) from error
    try:
        config = msgspec.convert({} if settings is None else settings, SchedulerConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error).replace("`$.", "`")) from error
    _refuse_repeated("plugins", [plugin.name for plugin in config.plugins])
    _refuse_repeated("actions", list(config.actions))
    _refuse_repeated("queueDialects", list(config.queue_dialects))
    if ActionName.CONSOLIDATE in config.actions and ActionName.PREEMPT not in config.actions:
        raise ConfigError("actions: consolidate needs preempt, which reserves the capacity that it frees")
    _refuse_frequent_binds(config.retry)
    _check_workloads(config.workloads)
    return config


def _check_workloads(kinds: tuple[WorkloadKind, ...]) -> None:
    """Refuse kinds that are read already, and those without what is needed to read them."""
    names = [kind.name for kind in kinds]
    _refuse_repeated("workloads", names)
    for position, kind in enumerate(kinds):
        field = f"workloads[{position}]"
        if kind.api_version.count("/") != 1 or not all(kind.api_version.split("/")):
            raise ConfigError(f"{field}.apiVersion: expected group/version, found {kind.api_version!r}")
        if not _KIND.fullmatch(kind.kind):
            raise ConfigError(f"{field}.kind: expected a kind such as Job, found {kind.kind!r}")
        if not _PLURAL.fullmatch(kind.plural):
            raise ConfigError(f"{field}.plural: expected a resource such as jobs, found {kind.plural!r}")
        if KNOWN.of_owner(kind.api_version, kind.kind):
            raise ConfigError(f"{field}: Phalanx reads {kind.kind} of {kind.group} already")
        if not kind.roles:
            raise ConfigError(f"{field}.roles: expected at least one role")


def _refuse_frequent_binds(retry: RetryConfig) -> None:
    """Refuse a bind back-off so short that a bind which always fails would load the API server."""
    if not retry.keeps_bind_refusals_bounded:
        raise ConfigError(
            f"retry.bindBackoffMaxSeconds: expected at least {retry.bind_backoff_max_seconds_min} with"
            f" bindBackoffFirstMilliseconds {retry.bind_backoff_first_milliseconds}, found"
            f" {retry.bind_backoff_max_seconds}: a refused bind would be sent again more than"
            f" {BIND_REFUSALS_PER_MINUTE_MAX} times a minute"
        )


def _refuse_repeated(field: str, names: list[str]) -> None:
    for position, name in enumerate(names):
        if name in names[:position]:
            raise ConfigError(f"{field}[{position}]: {name} is listed twice")


class _Loader(StrictConstructor, yaml.SafeLoader):
    """Loads YAML without custom types."""
