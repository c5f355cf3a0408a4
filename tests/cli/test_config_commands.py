"""`phalanx config`: errors with their lines, the configuration in effect, documentation, and the schema."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from msgspec import Struct
from phalanx.cli.config_file.docstrings import field_docs
from phalanx.cli.config_file.keys import Key, all_keys
from phalanx.framework.profile import DEFAULT_PROFILE
from phalanx.framework.registry import load_plugins

from tests.cli.conftest import Phalanx
from tests.cli.test_configuration_page import EXAMPLE, known_keys, tables
from tests.parsed_config import parse_config

SCHEMA_FILE = Path(__file__).resolve().parents[2] / "docs" / "configuration.schema.json"
SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text())

WRONG = """\
schedulerNam: gpu
seed: many
retry:
  nominationMinutes: 0
  nominationTries: 2
plugins:
  - name: drf
    arguments:
      ignore: [pods]
  - name: priority
    arguments: {ageing: {everySeconds: 60, step: 0, upTo: 5}}
  - {name: fifo, arguments: {a: 1}}
"""

UNKNOWN = "Object contains unknown field `{}`; similar is `{}`"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_a_valid_file(phalanx: Phalanx, file: Path) -> None:
    file.write_text(EXAMPLE)
    done = phalanx("config", "check", file)
    assert (done.code, done.out, done.err) == (0, f"{file}: valid\n", "")


def test_every_error_is_found_with_its_line_and_its_key(phalanx: Phalanx, file: Path) -> None:
    file.write_text(WRONG)
    done = phalanx("config", "check", file)
    assert done.code == 2
    assert sorted(done.err.replace(f"{file}: ", "").splitlines()) == sorted(
        [
            "line 1, column 1: schedulerNam: " + UNKNOWN.format("schedulerNam", "schedulerName"),
            "line 2, column 1: seed: Expected `int`, got `str`",
            "line 4, column 3: retry.nominationMinutes: Expected `int` >= 1",
            "line 5, column 3: retry.nominationTries: "
            + UNKNOWN.format("nominationTries", "nominationMinutes"),
            "line 9, column 7: plugins[drf].arguments.ignore: " + UNKNOWN.format("ignore", "ignored"),
            "line 11, column 44: plugins[priority].arguments.ageing.step: Expected `int` >= 1",
            "line 12, column 18: plugins[fifo].arguments: this plugin takes none",
        ]
    )


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("seed: [", ["not YAML: line 1, column 8: expected the node content, but found '<stream end>'"]),
        ("[]", ["Expected `object`, got `array`"]),
        ("retry: 5", ["line 1, column 1: retry: Expected `object`, got `int`"]),
        (
            "plugins:\n- enabled: no\n",
            ["line 2, column 3: plugins[0]: Object missing required field `name`"],
        ),
        ("plugins:\n- name: 5\n", ["line 2, column 3: plugins[0].name: Expected `str`, got `int`"]),
        (
            "seed: 1\nactions:\n- release\n- dance",
            ["line 4, column 3: actions[1]: Invalid enum value 'dance'"],
        ),
        (
            "actions: [consolidate, consolidate]",
            [
                "line 1, column 24: actions[1]: consolidate is listed twice",
                "line 1, column 1: actions: consolidate needs preempt, which reserves the capacity",
            ],
        ),
        (
            "plugins: [{name: a}, {name: fifo}]",
            ["line 1, column 11: plugins[a]: there is no plugin a; known"],
        ),
        ("# nothing\nfairness: {1: 2}", ["line 2, column 1: fairness: Expected `str`"]),
    ],
)
def test_the_place_of_an_error(text: str, lines: list[str], phalanx: Phalanx, file: Path) -> None:
    file.write_text(text)
    for command in (("config", "check", file), ("config", "show", file)):
        done = phalanx(*command)
        assert done.code == 2
        found = [line.removeprefix(f"{file}: ") for line in done.err.splitlines()]
        assert [line[: len(start)] for line, start in zip(found, lines, strict=True)] == lines


def test_a_file_that_cannot_be_read(phalanx: Phalanx, file: Path) -> None:
    assert phalanx("config", "check", file).err == (
        f"{file}: expected a readable file, found: No such file or directory\n"
    )
    file.write_bytes(b"seed: \xff")
    assert phalanx("config", "check", file).code == 2


@pytest.mark.parametrize("output", ["yaml", "json"])
@pytest.mark.parametrize("text", ["", EXAMPLE, "plugins: [{name: fifo}, {name: drf, enabled: false}]"])
def test_the_shown_configuration_has_every_key_and_the_same_effect(
    text: str, output: str, phalanx: Phalanx, file: Path
) -> None:
    file.write_text(text)
    done = phalanx("config", "show", file, "-o", output)
    assert done.code == 0
    shown = yaml.safe_load(done.out) if output == "yaml" else json.loads(done.out)
    given, effect = parse_config(text), parse_config(done.out)
    assert {key.partition(".")[0] for key in known_keys() if "[" not in key} == shown.keys()
    assert [type(plugin) for plugin in load_plugins(effect)] == [
        type(plugin) for plugin in load_plugins(given)
    ]
    assert len(shown["plugins"]) == len(DEFAULT_PROFILE)
    for section in ("retry", "tolerance", "consolidation", "workloads", "scheduler_name", "seed"):
        assert getattr(effect, section) == getattr(given, section)
    disabled = {plugin["name"] for plugin in shown["plugins"] if not plugin["enabled"]}
    assert disabled == {plugin.name for plugin in given.plugins if not plugin.enabled}


def test_defaults_of_arguments_are_shown(phalanx: Phalanx, file: Path) -> None:
    file.write_text("plugins: [{name: priority, arguments: {ageing: {everySeconds: 60, step: 1, upTo: 5}}}]")
    plugins = yaml.safe_load(phalanx("config", "show", file).out)["plugins"]
    assert plugins[0]["arguments"] == {"ageing": {"everySeconds": 60, "step": 1, "upTo": 5}}
    assert {"name": "drf", "enabled": True, "arguments": {"ignored": ["pods"]}} in plugins


@pytest.fixture(scope="module")
def explanations() -> dict[str, Key]:
    return {each.path: each for each in all_keys(DEFAULT_PROFILE)}


@pytest.fixture(scope="module")
def rows() -> dict[str, list[str]]:
    return {cells[0].strip("`"): cells for cells in tables("key | type | default | meaning")}


@pytest.mark.parametrize("key", sorted(known_keys()))
def test_every_key_is_explained_as_on_the_page(
    key: str, explanations: dict[str, Key], rows: dict[str, list[str]]
) -> None:
    """The docstrings of the structs are the source; the page may add links."""
    explained, page = explanations[key], rows[key]
    without_links = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r" \(\[[^\]]*\]\([^)]*\)\)", "", page[3]))
    assert explained.meaning == without_links
    assert explained.type == page[1].replace("`", "")
    default = re.match("`(.*?)`", page[2])
    assert explained.default == (default[1] if default else None)
    assert explained.is_required == (page[2] == "required")


def test_a_key_is_explained(phalanx: Phalanx) -> None:
    assert phalanx("config", "explain", "retry.nominationAttempts").out == (
        "KEY:      retry.nominationAttempts\n"
        "TYPE:     integer, 1 to 1,000,000,000\n"
        "DEFAULT:  3\n\n"
        "Evictions in a row for one gang that come to nothing before it rests.\n"
    )
    assert "DEFAULT:  15 minutes\n" in phalanx("config", "explain", "retry.nominationMinutes").out
    assert "this key is required\n" in phalanx("config", "explain", "workloads[].kind").out


def test_a_section_and_a_plugin_list_their_keys(phalanx: Phalanx) -> None:
    section = phalanx("config", "explain", "tolerance").out
    assert section.count("\ntolerance.") == 5
    plugin = phalanx("config", "explain", "plugins.priority").out
    assert plugin.startswith(
        "KEY:      plugins[priority]\nTYPE:     plugin\n\nServes gangs of higher priority"
    )
    assert "plugins[priority].arguments.ageing.upTo  <integer" in plugin
    assert "\nretry  <section>\n" in phalanx("config", "explain").out


def test_an_unknown_key_names_similar_ones(phalanx: Phalanx) -> None:
    done = phalanx("config", "explain", "retry.nominationMinuts")
    assert done.code == 2
    assert "similar are retry.nominationMinutes," in done.err


class Documented(Struct):
    first: int = 0
    """Text over
    two lines."""
    second: int = 0
    third: int = 0
    """The last one."""


class Derived(Documented):
    second: int = 1
    """Added."""


def test_docstrings_of_fields_are_read_from_the_source() -> None:
    assert field_docs(Documented) == {"first": "Text over two lines.", "third": "The last one."}
    assert field_docs(Derived) == {**field_docs(Documented), "second": "Added."}


def test_the_committed_schema_is_the_printed_one(phalanx: Phalanx) -> None:
    """If not: `phalanx config schema > docs/configuration.schema.json`."""
    assert SCHEMA_FILE.read_text() == phalanx("config", "schema").out


def test_the_schema_describes_every_key() -> None:
    described = {
        (name, key)
        for name, definition in SCHEMA["$defs"].items()
        for key, value in definition.get("properties", {}).items()
        if value.get("description") or "$ref" in value
    }
    all_of_them = {
        (name, key)
        for name, definition in SCHEMA["$defs"].items()
        for key in definition.get("properties", {})
    }
    assert described == all_of_them


@pytest.mark.parametrize(
    "text",
    [
        *("", EXAMPLE, "plugins: [{name: of-another-package, arguments: {a: [1]}}]"),
        *("seed: 7", "fairness: {usageHalfLifeMinutes: null}", "actions: []"),
    ],
)
def test_the_schema_accepts_valid_files(text: str) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert list(Draft202012Validator(SCHEMA).iter_errors(yaml.safe_load(text))) == []


@pytest.mark.parametrize(
    "text",
    [
        *("schedulerNam: x", "seed: many", "[]", "retry: {nominationMinutes: 0}", "actions: [dance]"),
        *("plugins: [{enabled: true}]", "plugins: [{name: drf, enabled: 3}]", "workloads: [{kind: Job}]"),
        *("plugins: [{name: drf, arguments: {ignore: []}}]", "plugins: [{name: fifo, arguments: {a: 1}}]"),
        "plugins: [{name: node-health, arguments: {conditions: {Ready: Maybe}}}]",
    ],
)
def test_the_schema_refuses_what_the_check_refuses(text: str, phalanx: Phalanx, file: Path) -> None:
    file.write_text(text)
    assert phalanx("config", "check", file).code == 2
    assert list(Draft202012Validator(SCHEMA).iter_errors(yaml.safe_load(text))) != []
