"""Errors that the hooks of plugins raised in one session."""

from phalanx.framework.pod_view import Declarations, PluginError
from phalanx.limits import PLUGIN_ERRORS_MAX


class PluginErrors:
    """Each plugin, hook and error once, in the order in which they appeared."""

    def __init__(self) -> None:
        self._messages: dict[str, None] = {}

    @property
    def messages(self) -> tuple[str, ...]:
        """At most PLUGIN_ERRORS_MAX of them."""
        return tuple(self._messages)

    def record(self, plugin: Declarations, hook: str, error: Exception) -> str:
        """Return the message of the error.

        Raises the error if it is a PluginError: a plugin that breaks the protocol must be changed.
        """
        if isinstance(error, PluginError):
            raise error
        message = f"plugin {plugin.name} failed in {hook}: {error!r}"
        if len(self._messages) < PLUGIN_ERRORS_MAX:
            self._messages[message] = None
        return message
