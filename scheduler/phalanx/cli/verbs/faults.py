"""Faults of nodes as the scheduler finds them, by the plugin for the health of nodes."""

from phalanx.cli.verbs.views.nodes import FaultOf
from phalanx.framework.config import PluginConfig
from phalanx.framework.registry import plugin_arguments, plugin_class

_PLUGIN = "node-health"


def fault_finder() -> FaultOf:
    """The check of the plugin with its default arguments."""
    return plugin_class(_PLUGIN)(plugin_arguments(PluginConfig(name=_PLUGIN))).node_fault
