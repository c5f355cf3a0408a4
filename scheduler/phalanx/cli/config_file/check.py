"""Find all errors of a configuration file, each with its line and its key."""

import copy
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

import yaml
from msgspec import Struct

from phalanx.cli.config_file.keys import all_keys
from phalanx.framework.config import (
    ConfigError,
    KeyPath,
    SchedulerConfig,
    config_errors,
    convert,
    field_name,
    load_settings,
)
from phalanx.framework.registry import plugin_errors
from phalanx.limits import BAD_INPUT_LINES_MAX


class Checked(Struct, frozen=True):
    """A configuration without errors, or its errors."""

    config: SchedulerConfig | None
    errors: tuple[str, ...]
    """Each as `line 3, column 5: retry.nominationMinutes: what is wrong`."""


def check(text: str) -> Checked:
    """Check all of a configuration file, the plugins and their arguments included."""
    try:
        settings = load_settings(text)
    except ConfigError as error:
        return Checked(None, (str(error),))
    config, errors = _converted(settings)
    if config is not None:
        errors += config_errors(config) if not errors else ()
        errors += plugin_errors(config)
    return Checked(None if errors else config, tuple([_line(error, text) for error in errors]))


def _converted(settings: Any) -> tuple[SchedulerConfig | None, list[ConfigError]]:
    """Convert again and again without the values that are wrong, so that all errors are found.

    None where nothing is left that can be converted.
    """
    settings = copy.deepcopy(settings)
    errors: list[ConfigError] = []
    dropped: set[KeyPath] = set()
    for _ in range(BAD_INPUT_LINES_MAX):
        try:
            return convert(settings), errors
        except ConfigError as error:
            if not _is_consequence(error, dropped):
                errors.append(error)
            if not _drop(settings, error.path, dropped):
                break
    return None, errors


def _is_consequence(error: ConfigError, dropped: set[KeyPath]) -> bool:
    """Whether the missing field is one that was wrong and is therefore left out."""
    return any(
        path[:-1] == error.path and error.problem == f"Object missing required field `{path[-1]}`"
        for path in dropped
    )


def _drop(settings: Any, path: KeyPath, dropped: set[KeyPath]) -> bool:
    """Leave out the key that is wrong; for an entry of a list, the whole list."""
    while path and not isinstance(path[-1], str):
        path = path[:-1]
    if not path:
        return False
    for step in path[:-1]:
        settings = settings[step]
    del settings[path[-1]]
    dropped.add(path)
    return True


def _line(error: ConfigError, text: str) -> str:
    position = position_of(text, error.path)
    at = "line {}, column {}: ".format(*position) if position else ""
    return f"{at}{error}{_suggestion(error)}"


def _suggestion(error: ConfigError) -> str:
    """The known key that an unknown one resembles."""
    if not error.problem.startswith("Object contains unknown field"):
        return ""
    siblings = {key.rpartition(".")[2] for key in _known_below(error.path[:-1])}
    similar = get_close_matches(str(error.path[-1]), sorted(siblings), n=1)
    return f"; similar is `{similar[0]}`" if similar else ""


def _known_below(path: KeyPath) -> Iterator[str]:
    """The paths of the known keys directly below this path."""
    plugin = path[1] if len(path) > 2 and path[0] == "plugins" and isinstance(path[1], str) else None
    place = field_name(tuple(step for step in path if isinstance(step, str)))
    for key in all_keys([plugin] if plugin else []):
        if key.path.replace("[]", "").rpartition(".")[0] == place:
            yield key.path


# --- the line of a key --------------------------------------------------------------------------------------


_NAMED: Final = "name"


def position_of(text: str, path: KeyPath) -> tuple[int, int] | None:
    """Line and column of the value at this path, or of what is there of the path; None without a mark.

    The text must be YAML that `load_settings` accepts.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None or not path:
        return None
    mark = node.start_mark
    for step in path:
        key, value = _below(node, step)
        if key is None or value is None:
            break
        node, mark = value, key.start_mark
    return mark.line + 1, mark.column + 1


def _below(node: yaml.Node, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """The node that shows the step, and the node of its value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == step:
                return key, value
    if isinstance(node, yaml.SequenceNode):
        items: list[yaml.Node] = node.value
        for position, item in enumerate(items):
            if step == position or (isinstance(step, str) and _name(item) == step):
                return item, item
    return None, None


def _name(item: yaml.Node) -> str | None:
    """The name of a plugin in the list of them."""
    if isinstance(item, yaml.MappingNode):
        for key, value in item.value:
            if isinstance(value, yaml.ScalarNode) and key.value == _NAMED:
                return str(value.value)
    return None
