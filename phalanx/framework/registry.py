"""Finds plugins by name: built-in ones by import path, foreign ones by the entry point `phalanx.plugins`."""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Final

import msgspec

from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig
from phalanx.framework.plugin import Plugin

ENTRY_POINT: Final = "phalanx.plugins"

BUILT_IN: Final = MappingProxyType(
    {
        "objects": "phalanx.plugins.objects:Objects",
        "queues": "phalanx.plugins.queues:Queues",
        "queue-state": "phalanx.plugins.queue_state:States",
        "failed-binds": "phalanx.plugins.failed_binds:FailedBinds",
        "scheduling-gates": "phalanx.plugins.scheduling_gates:SchedulingGates",
        "volumes": "phalanx.plugins.volumes:Volumes",
        "node-health": "phalanx.plugins.node_health:NodeHealth",
        "unschedulable-nodes": "phalanx.plugins.unschedulable_nodes:UnschedulableNodes",
        "gpu-sharing": "phalanx.plugins.gpu_sharing:GpuSharing",
        "numa-zones": "phalanx.plugins.numa_zones:NumaZones",
        "taints": "phalanx.plugins.taints:Taints",
        "node-affinity": "phalanx.plugins.node_affinity:NodeAffinity",
        "pod-affinity": "phalanx.plugins.pod_affinity:PodAffinity",
        "lemons": "phalanx.plugins.lemons:Lemons",
        "topology": "phalanx.plugins.topology:TopologyLevels",
        "queue-limits": "phalanx.plugins.queue_limits:QueueLimits",
        "not-preemptible": "phalanx.plugins.not_preemptible:NotPreemptible",
        "cells": "phalanx.plugins.cells:CellsOfQueues",
        "queue-priority": "phalanx.plugins.queue_priority:QueuePriority",
        "drf": "phalanx.plugins.drf:DominantShare",
        "priority-preemption": "phalanx.plugins.priority_preemption:PriorityPreemption",
        "reclaim": "phalanx.plugins.reclaim:Reclaim",
        "disruption": "phalanx.plugins.disruption:DisruptionWishes",
        "disruption-budgets": "phalanx.plugins.disruption_budgets:DisruptionBudgets",
        "run-time-lost": "phalanx.plugins.run_time_lost:RunTimeLost",
        "spread-evictions": "phalanx.plugins.spread_evictions:SpreadEvictions",
        "priority": "phalanx.plugins.priority:Priority",
        "start-by": "phalanx.plugins.start_by:StartBy",
        "fifo": "phalanx.plugins.fifo:Fifo",
    }
)
"""In the order in which they are asked, so the first one's objection to a gang is what is told."""


def load_plugins(config: SchedulerConfig) -> tuple[Plugin, ...]:
    """New plugin objects for one cycle. Raises ConfigError for a name or an argument that is unknown."""
    listed = {entry.name for entry in config.plugins}
    entries = [*config.plugins, *(PluginConfig(name=name) for name in BUILT_IN if name not in listed)]
    loaded = [(entry, _find(entry.name)) for entry in entries]
    return tuple(_make(entry, plugin) for entry, plugin in loaded if entry.enabled)


@cache
def _find(name: str) -> type[Any]:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found: type[Any] = getattr(import_module(module), attribute)
        return found
    foreign = entry_points(group=ENTRY_POINT)
    if name not in foreign.names:
        known = ", ".join(sorted({*BUILT_IN, *foreign.names}))
        raise ConfigError(f"plugins: there is no plugin {name}; known are {known}")
    loaded: type[Any] = foreign[name].load()
    return loaded


def _make(entry: PluginConfig, plugin: type[Any]) -> Plugin:
    declared = getattr(plugin, "Arguments", None)
    if declared is None and entry.arguments:
        raise ConfigError(f"plugins[{entry.name}].arguments: this plugin takes none")
    try:
        made: Plugin = plugin(msgspec.convert(entry.arguments, declared)) if declared else plugin()
    except msgspec.ValidationError as error:
        raise ConfigError(f"plugins[{entry.name}].arguments: {error}") from error
    return made
