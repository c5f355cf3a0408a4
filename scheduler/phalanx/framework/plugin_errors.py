"""Errors that the hooks of plugins raised in one session, and the order of what has none."""

from typing import Final

from phalanx.framework.pod_view import Declarations, PluginError
from phalanx.limits import PLUGIN_ERROR_CHARACTERS_MAX, PLUGIN_ERRORS_MAX


class Last:
    """Compares greater than every other value, whatever its type."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return self is not other

    def __le__(self, other: object) -> bool:
        return self is other

    def __ge__(self, other: object) -> bool:
        return True


LAST: Final = Last()
"""The key of a gang or queue whose plugin failed to give one."""


class PluginErrors:
    """The first error of each plugin, hook and type, in the order in which they appeared."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str, type[Exception]], str] = {}

    @property
    def messages(self) -> tuple[str, ...]:
        """At most PLUGIN_ERRORS_MAX of them."""
        return tuple(self._messages.values())

    def record(self, plugin: Declarations, hook: str, error: Exception) -> str:
        """Return the message of the first error of this plugin, hook and type.

        Raises the error if it is a PluginError: a plugin that breaks the protocol must be changed.
        """
        if isinstance(error, PluginError):
            raise error
        key = (plugin.name, hook, type(error))
        known = self._messages.get(key)
        if known is None:
            known = f"plugin {plugin.name} failed in {hook}: {_text_of(error)}"
            if len(self._messages) < PLUGIN_ERRORS_MAX:
                self._messages[key] = known
        return known


def _text_of(error: Exception) -> str:
    try:
        text = repr(error)
    except Exception:
        text = type(error).__name__
    return text[:PLUGIN_ERROR_CHARACTERS_MAX]
