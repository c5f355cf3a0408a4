"""docs/configuration.md has all keys with types and defaults, all retry rules, and an example that loads."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec import NODEFAULT, Struct, inspect
from phalanx.actions.consolidate import CONSOLIDATIONS_TRIED_MAX
from phalanx.actions.preemption.search_turns import (
    PREEMPTORS_PER_CYCLE_MAX,
    VICTIMS_WEIGHED_LEAST,
    VICTIMS_WEIGHED_MAX,
)
from phalanx.cli.configuration import read_config
from phalanx.framework import retry
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.profile import DEFAULT_PROFILE
from phalanx.framework.registry import plugin_class

from tests.parsed_config import parse_config

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text()
EXAMPLE = re.findall(r"<!-- example: every key -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)[0]

UNIT_OF_KEY = {"Milliseconds": "ms", "Seconds": "s", "Minutes": "min", "Percent": "%"}
UNIT_OF_CONSTANT = {"_MS": "ms", "_S": "s"}

Row = tuple[str, str]
"""The type and the default of a key, as the page writes them."""


def tables(header: str) -> Iterator[list[str]]:
    """The cells of all rows of the tables with this header."""
    for table in re.findall(rf"^\| {re.escape(header)} \|\n\| --- .*\n((?:\|.*\n)+)", PAGE, re.MULTILINE):
        yield from ([cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines())


def keys_of(struct: type[Struct], path: str = "") -> Iterator[tuple[str, Row]]:
    """Each key below a struct, by its path in the file. A section has no row of its own."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        key = path + field.encode_name
        if isinstance(field.type, inspect.StructType):
            yield from keys_of(field.type.cls, f"{key}.")
            continue
        yield key, (type_text(field.type), default_text(field))
        match field.type:
            case inspect.VarTupleType(item_type=inspect.StructType(cls=item)):
                yield from keys_of(item, f"{key}[].")
            case inspect.UnionType(types=types):
                for each in types:
                    if isinstance(each, inspect.StructType):
                        yield from keys_of(each.cls, f"{key}.")


def type_text(kind: inspect.Type) -> str:
    """The type as the page names it; unknown types fail, so that somebody chooses their name."""
    match kind:
        case inspect.BoolType():
            return "boolean"
        case inspect.StrType():
            return "string"
        case inspect.IntType(ge=None, le=None):
            return "integer"
        case inspect.IntType(ge=int() as least, le=int() as most):
            return f"integer, {least:,} to {most:,}"
        case inspect.EnumType() | inspect.LiteralType():
            return f"one of {choices(kind)}"
        case inspect.StructType():
            return "object"
        case inspect.VarTupleType(item_type=item):
            return f"list of {plural(item)}"
        case inspect.DictType(value_type=inspect.AnyType()):
            return "map"
        case inspect.DictType(key_type=key, value_type=value):
            return f"map of {plural(key)} to {plural(value)}"
        case inspect.UnionType(types=(one, inspect.NoneType())):
            return f"{type_text(one)} or null"
        case inspect.UnionType(types=(inspect.StrType() as one, inspect.VarTupleType() as several)):
            return f"{type_text(one)} or {type_text(several)}"
    raise AssertionError(f"no name for the type {kind}")


def plural(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.EnumType | inspect.LiteralType):
        return choices(kind)
    return f"{type_text(kind)}s"


def choices(kind: inspect.EnumType | inspect.LiteralType) -> str:
    values = [each.value for each in kind.cls] if isinstance(kind, inspect.EnumType) else kind.values
    return ", ".join(f"`{value}`" for value in values)


def default_text(field: inspect.Field) -> str:
    """The default as in YAML, a number with the unit that the end of its key names."""
    if field.required:
        return "required"
    value = field.default if field.default is not NODEFAULT else field.default_factory()
    written = yaml.safe_dump(msgspec.to_builtins(value), default_flow_style=True).partition("\n")[0]
    return with_unit(written, field.encode_name, UNIT_OF_KEY) if isinstance(value, int) else f"`{written}`"


def with_unit(value: object, name: str, units: dict[str, str]) -> str:
    unit = next((unit for suffix, unit in units.items() if name.endswith(suffix)), "")
    return f"`{value}` {unit}".rstrip()


def known_keys() -> dict[str, Row]:
    """All keys that the file may have, the arguments of the built-in plugins included."""
    known = dict(keys_of(SchedulerConfig))
    for name in DEFAULT_PROFILE:
        arguments = plugin_class(name).Arguments
        if arguments is not None:
            known |= keys_of(arguments, f"plugins[{name}].arguments.")
    return known


def constants() -> dict[str, str]:
    """The public numbers of framework/retry.py, as the page writes them."""
    return {
        name: with_unit(value, name, UNIT_OF_CONSTANT)
        for name, value in vars(retry).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, int | float)
    }


def test_the_page_has_every_key_with_its_type_and_default() -> None:
    rows = list(tables("key | type | default | meaning"))
    page = {key.strip("`"): (kind, default) for key, kind, default, _ in rows}
    assert page == known_keys()
    assert len(page) == len(rows)
    assert [key for key, *_, meaning in rows if len(meaning) < 10] == []


def test_the_check_sees_every_struct() -> None:
    """It walks sections, lists, unions and maps: a key of each kind."""
    assert {
        "seed",
        "plugins[].name",
        "retry.nominationMinutes",
        "plugins[priority].arguments.ageing.step",
        "plugins[node-health].arguments.conditions",
    } <= known_keys().keys()


def test_the_table_of_actions_is_complete() -> None:
    actions = [action for action, _ in tables("action | what it evicts")]
    assert f"list of {', '.join(actions)}" == known_keys()["actions"][0]


def test_the_example_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(EXAMPLE)
    read_config(file)


def test_the_example_has_the_defaults_except_for_plugins_and_workloads() -> None:
    assert msgspec.structs.replace(parse_config(EXAMPLE), plugins=(), workloads=()) == SchedulerConfig()


def test_the_example_has_every_key() -> None:
    assert set(paths(yaml.safe_load(EXAMPLE))) == set(known_keys())


def paths(settings: dict[str, Any], path: str = "") -> Iterator[str]:
    """The paths of all keys in the example that the tables have."""
    known = known_keys()
    for name, value in settings.items():
        key = path + name
        if key in known:
            yield key
        if isinstance(value, list):
            for each in value:
                if isinstance(each, dict):
                    yield from paths(each, f"{key}[].")
                    yield from paths(each.get("arguments", {}), f"{key}[{each.get('name')}].arguments.")
        elif isinstance(value, dict) and key != "plugins[].arguments":
            yield from paths(value, f"{key}.")


RULES = list(tables("rule | what it delays | key | default | when it ends"))


def test_the_page_has_the_retry_rules_of_the_code() -> None:
    documented = re.findall(r"^    (\w[\w-]*(?: [\w-]+)*) {2,}\S", retry.__doc__ or "", re.MULTILINE)
    assert documented[0] == "rule"
    assert [rule for rule, *_ in RULES] == documented[1:]


@pytest.mark.parametrize(("rule", "keys", "defaults"), [(row[0], row[2], row[3]) for row in RULES])
def test_a_retry_rule_has_the_defaults_of_its_keys(rule: str, keys: str, defaults: str) -> None:
    numbers = constants() | {key.removeprefix("retry."): row[1] for key, row in known_keys().items()}
    named = re.findall(r"`(.*?)`", keys)
    assert named or keys == "none"
    assert defaults == ", ".join(numbers[name] for name in named)


def test_the_retry_rules_name_every_key_and_every_constant() -> None:
    named = {name for row in RULES for name in re.findall(r"`(.*?)`", row[2])}
    keys = {key.removeprefix("retry.") for key in known_keys() if key.startswith("retry.")}
    assert keys | constants().keys() - {"BIND_REFUSALS_PER_MINUTE_MAX"} <= named


def test_the_numbers_in_the_text_are_those_of_the_code() -> None:
    text = " ".join(PAGE.split())
    refused = retry.BIND_REFUSALS_PER_MINUTE_MAX
    least = retry.RetryConfig().bind_backoff_max_seconds_min
    assert f"more than {refused} refused binds in a minute:" in text
    assert f"with the default first back-off, values below {least}." in text
    assert (
        f"victims for {PREEMPTORS_PER_CYCLE_MAX} gangs, has searched victims for"
        f" {VICTIMS_WEIGHED_MAX // VICTIMS_WEIGHED_LEAST}, has weighed {VICTIMS_WEIGHED_MAX} victims in"
        f" searches without result, or has searched moves for {CONSOLIDATIONS_TRIED_MAX}, leaves"
    ) in text
