"""Faults of nodes as the scheduler finds them, by the plugin for the health of nodes."""

from typing import Any

from phalanx.cli.verbs.views.nodes import FaultOf
from phalanx.framework.config import PluginConfig
from phalanx.framework.registry import plugin_arguments, plugin_class

_PLUGIN = "node-health"


def fault_finder() -> FaultOf:
    """The check of the plugin with its default arguments."""
    make: Any = plugin_class(_PLUGIN)  # its constructor takes what its Arguments declare
    find: FaultOf = make(plugin_arguments(PluginConfig(name=_PLUGIN))).node_fault
    return find
