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
        "objects": "phalanx_plugins.objects:Objects",
        "queues": "phalanx_plugins.queues:Queues",
        "queue-state": "phalanx_plugins.queue_state:States",
        "failed-binds": "phalanx_plugins.failed_binds:FailedBinds",
        "scheduling-gates": "phalanx_plugins.scheduling_gates:SchedulingGates",
        "volumes": "phalanx_plugins.volumes:Volumes",
        "node-health": "phalanx_plugins.node_health:NodeHealth",
        "unschedulable-nodes": "phalanx_plugins.unschedulable_nodes:UnschedulableNodes",
        "gpu-sharing": "phalanx_plugins.gpu_sharing:GpuSharing",
        "numa-zones": "phalanx_plugins.numa_zones:NumaZones",
        "taints": "phalanx_plugins.taints:Taints",
        "node-affinity": "phalanx_plugins.node_affinity:NodeAffinity",
        "pod-affinity": "phalanx_plugins.pod_affinity:PodAffinity",
        "node-failure-history": "phalanx_plugins.node_failure_history:NodeFailureHistory",
        "topology": "phalanx_plugins.topology:TopologyLevels",
        "queue-limits": "phalanx_plugins.queue_limits:QueueLimits",
        "not-preemptible": "phalanx_plugins.not_preemptible:NotPreemptible",
        "cells": "phalanx_plugins.cells:CellsOfQueues",
        "queue-priority": "phalanx_plugins.queue_priority:QueuePriority",
        "drf": "phalanx_plugins.drf:DominantShare",
        "priority-preemption": "phalanx_plugins.priority_preemption:PriorityPreemption",
        "reclaim": "phalanx_plugins.reclaim:Reclaim",
        "disruption": "phalanx_plugins.disruption:DisruptionWishes",
        "disruption-budgets": "phalanx_plugins.disruption_budgets:DisruptionBudgets",
        "run-time-lost": "phalanx_plugins.run_time_lost:RunTimeLost",
        "spread-evictions": "phalanx_plugins.spread_evictions:SpreadEvictions",
        "priority": "phalanx_plugins.priority:Priority",
        "start-by": "phalanx_plugins.start_by:StartBy",
        "fifo": "phalanx_plugins.fifo:Fifo",
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
