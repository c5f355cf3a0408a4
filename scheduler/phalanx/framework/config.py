"""The scheduler's configuration file: YAML, strict, checked whole before anything starts."""

from collections.abc import Hashable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta, Struct

from phalanx.framework.retry import RetryConfig
from phalanx.model.names import DEFAULT_SCHEDULER_NAME


class ConfigError(ValueError):
    """The configuration is wrong; the message names the field and what was expected there."""


class ActionName(StrEnum):
    """A step of a cycle that may evict. All other steps always run."""

    RELEASE = "release"
    """Evict the members of gangs that never started and stay incomplete."""
    RECOVER = "recover"
    """Replace lost members of started gangs, or restart the gangs."""
    CONSOLIDATE = "consolidate"
    """Move gangs so that others fit into capacity that is free but scattered."""
    PREEMPT = "preempt"
    """Evict gangs so that others fit."""


class PluginConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One plugin that is switched off, given arguments, moved forward or, if it is foreign, switched on."""

    name: str
    enabled: bool = True
    arguments: Mapping[str, Any] = {}


Positive = Annotated[int, Meta(ge=1, le=10**9)]
Percent = Annotated[int, Meta(ge=1, le=100)]


class ToleranceConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How faults of nodes are taken.

    The breaker opens when more than `breaker_percent` of at least `breaker_nodes_min` nodes turned bad within
    the window. Failures of a node count half as much after each half-life.
    """

    breaker_percent: Percent = 50
    breaker_nodes_min: Positive = 10
    breaker_window_seconds: Positive = 300
    failure_half_life_minutes: Positive = 24 * 60

    @property
    def breaker_window_ms(self) -> int:
        """The window in milliseconds."""
        return self.breaker_window_seconds * 1000

    @property
    def failure_half_life_ms(self) -> int:
        """The half-life in milliseconds."""
        return self.failure_half_life_minutes * 60_000


class FairnessConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How queues are compared. Use counts half as much after each half-life; without one only that of now."""

    usage_half_life_minutes: Positive | None = None

    @property
    def usage_half_life_ms(self) -> int:
        """The half-life in milliseconds, 0 without one."""
        return (self.usage_half_life_minutes or 0) * 60_000


class BackfillConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How starts are promised in queues with backfill.

    A gang of which nobody knows how long it runs is planned with so many minutes; with null it never ends,
    and nobody who waits for it is promised anything.
    """

    assumed_runtime_minutes: Positive | None = 24 * 60

    @property
    def assumed_runtime_ms(self) -> int | None:
        """The same in milliseconds."""
        return self.assumed_runtime_minutes * 60_000 if self.assumed_runtime_minutes is not None else None


class ConsolidationConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How the action `consolidate` moves gangs so that others find room.

    `dry_run`: plans are told, and nobody is moved. At most `moves_max` gangs are on their way at once. A gang
    is moved only after it has run for `rest_minutes`, since it started or was moved last. Moves for one gang
    are looked for once in `interval_seconds`.
    """

    dry_run: bool = False
    moves_max: Positive = 8
    rest_minutes: Positive = 60
    interval_seconds: Positive = 60

    @property
    def rest_ms(self) -> int:
        """The rest in milliseconds."""
        return self.rest_minutes * 60_000

    @property
    def interval_ms(self) -> int:
        """The interval in milliseconds."""
        return self.interval_seconds * 1000


class SchedulerConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """All settings. Plugins listed here come first, in this order; every built-in one not listed follows.

    `actions` run in this order. `default_topology` names the Topology of
    gangs that name none. `seed` goes into every snapshot.
    """

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    plugins: tuple[PluginConfig, ...] = ()
    actions: tuple[ActionName, ...] = (ActionName.RELEASE, ActionName.RECOVER, ActionName.PREEMPT)
    default_topology: str | None = None
    tolerance: ToleranceConfig = ToleranceConfig()
    fairness: FairnessConfig = FairnessConfig()
    backfill: BackfillConfig = BackfillConfig()
    consolidation: ConsolidationConfig = ConsolidationConfig()
    retry: RetryConfig = RetryConfig()
    seed: int = 0


def parse_config(text: str) -> SchedulerConfig:
    """Read YAML text; an empty one means all defaults. Raises ConfigError.

    Whether plugins of these names exist is for the registry to say.
    """
    try:
        settings = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}") from error
    try:
        config = msgspec.convert({} if settings is None else settings, SchedulerConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error).replace("`$.", "`")) from error
    _refuse_repeated("plugins", [plugin.name for plugin in config.plugins])
    _refuse_repeated("actions", list(config.actions))
    if ActionName.CONSOLIDATE in config.actions and ActionName.PREEMPT not in config.actions:
        raise ConfigError("actions: consolidate needs preempt, which keeps the room that is made")
    return config


def _refuse_repeated(field: str, names: list[str]) -> None:
    for position, name in enumerate(names):
        if name in names[:position]:
            raise ConfigError(f"{field}[{position}]: {name} is listed twice")


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice instead of keeping the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value} is given twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)
