"""The commands `phalanx config check|show|explain|schema`."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, Final, Literal

import msgspec
import yaml
from cyclopts import App, Parameter

from phalanx.cli.config_file.check import check as check_text
from phalanx.cli.config_file.keys import Key, all_keys
from phalanx.cli.configuration import read_config, read_text
from phalanx.cli.exits import BadInput, Exit
from phalanx.framework.config import ConfigError, PluginConfig, SchedulerConfig
from phalanx.framework.registry import configured_plugins, installed_plugins, plugin_arguments, plugin_class

APP = App(name="config", help="Check, show and explain the scheduler's configuration file.")


@APP.command
def check(file: Path) -> int:
    """Check a configuration file: keys, types, ranges, plugins and their arguments.

    Each error is one line with the file, the line and the key. The exit code is 2 if there are errors.

    Parameters
    ----------
    file
        The configuration file, or - for standard input.
    """
    errors = check_text(read_text(file)).errors
    if errors:
        raise BadInput(*(f"{file}: {error}" for error in errors))
    print(f"{file}: valid")
    return Exit.OK


@APP.command
def show(
    file: Path | None = None,
    *,
    output: Annotated[Literal["yaml", "json"], Parameter(name=["--output", "-o"])] = "yaml",
) -> int:
    """Show the configuration that is in effect: all defaults filled in, all plugins in their order.

    The output is a configuration file with the same effect.

    Parameters
    ----------
    file
        The configuration file, or - for standard input; default: all defaults.
    output
        Output format.
    """
    values = _effective(read_config(file))
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(values), indent=2).decode())
    else:
        yaml.safe_dump(values, sys.stdout, sort_keys=False, allow_unicode=True)
    return Exit.OK


@APP.command
def explain(key: str = "") -> int:
    """Explain a key of the configuration file: its type, its default and its meaning.

    Parameters
    ----------
    key
        The key, such as retry.nominationMinutes, plugins[].name or plugins[drf]; default: the keys of the
        top level.
    """

    print(_explanation(key, list(all_keys(_usable_plugins()))))
    return Exit.OK


@APP.command
def schema() -> int:
    """Print the JSON schema of the configuration file, with which editors complete and check its keys."""
    from phalanx.cli.config_file.schema import schema as schema_of

    values = schema_of(_usable_plugins())
    print(msgspec.json.format(msgspec.json.encode(values), indent=2).decode())
    return Exit.OK


def _usable_plugins() -> list[str]:
    """The built-in plugins in their order, then other installed ones; those that cannot be loaded are named
    on standard error."""
    default = [entry.name for entry in configured_plugins(SchedulerConfig())]
    usable = []
    for name in [*default, *sorted(installed_plugins() - set(default))]:
        try:
            plugin_class(name)
        except ConfigError as error:
            print(f"note: {error}", file=sys.stderr)
        else:
            usable.append(name)
    return usable


def _effective(config: SchedulerConfig) -> dict[str, Any]:
    """All keys with their values, as a file with the same effect. The plugins must be valid."""
    values: dict[str, Any] = msgspec.to_builtins(config)
    values["plugins"] = [_plugin(entry) for entry in configured_plugins(config)]
    return values


def _plugin(entry: PluginConfig) -> dict[str, Any]:
    """Arguments of a disabled plugin are as they are in the file: it is not imported."""
    arguments = plugin_arguments(entry) if entry.enabled else entry.arguments
    shown = msgspec.to_builtins(arguments)
    return {"name": entry.name, "enabled": entry.enabled} | ({"arguments": shown} if shown else {})


_WIDTH: Final = 100
_INDENT: Final = "    "
_SIMILAR_MAX: Final = 3
_UNITS: Final = {
    "Milliseconds": "milliseconds",
    "Seconds": "seconds",
    "Minutes": "minutes",
    "Percent": "percent",
}


def _explanation(path: str, keys: Sequence[Key]) -> str:
    """The documentation of a key; of all keys of the top level for an empty path. Raises BadInput."""
    if not path:
        return "\n".join(_list(key for key in keys if re.fullmatch(r"\w+", key.path)))
    wanted = _plain(path)
    found = next((key for key in keys if _plain(key.path) == wanted), None)
    if found is None:
        raise BadInput(f"KEY: expected a key of the configuration file, found {path}{_similar(path, keys)}")
    below = [key for key in keys if key.path.startswith((f"{found.path}.", f"{found.path}["))]
    return "\n".join([*_head(found), "", _paragraphs(found), *_below(below)])


def _head(key: Key) -> Iterator[str]:
    yield f"KEY:      {key.path}"
    yield f"TYPE:     {key.type}"
    if key.is_required:
        yield "DEFAULT:  none, this key is required"
    elif key.default is not None:
        unit = next((unit for end, unit in _UNITS.items() if key.path.endswith(end)), "")
        yield f"DEFAULT:  {key.default} {unit if key.default != 'null' else ''}".rstrip()


def _paragraphs(key: Key) -> str:
    """The meaning: a docstring of a plugin has lines and paragraphs of its own."""
    return key.meaning if "\n" in key.meaning else fill(key.meaning, _WIDTH)


def _below(keys: Iterable[Key]) -> Iterator[str]:
    lines = list(_list(keys))
    if lines:
        yield ""
        yield "KEYS:"
        yield from lines


def _list(keys: Iterable[Key]) -> Iterator[str]:
    for key in keys:
        yield f"{key.path}  <{key.type}>"
        yield fill(_first_paragraph(key), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)


def _first_paragraph(key: Key) -> str:
    return key.meaning.partition("\n\n")[0]


def _plain(path: str) -> str:
    """The path without brackets: `plugins.drf.arguments` is as good as `plugins[drf].arguments`."""
    return re.sub(r"\[([^\]]+)\]", r".\1", path).replace("[]", "").strip(".")


def _similar(path: str, keys: Iterable[Key]) -> str:
    similar = get_close_matches(path, [key.path for key in keys], n=_SIMILAR_MAX)
    return f"; similar are {', '.join(similar)}" if similar else "; `phalanx config explain` lists the keys"
