"""docs/plugins.md contains the tested examples, every hook, and the docstring of each built-in plugin."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest
from phalanx.framework.eviction_policy import QUESTIONS
from phalanx.framework.plugin import HOOKS, EvictionPolicy, Plugin
from phalanx.framework.profile import DEFAULT_PROFILE
from phalanx.framework.registry import plugin_class

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "plugins.md").read_text()
FOREIGN = ROOT / "tests" / "plugins" / "foreign"


@pytest.mark.parametrize("name", DEFAULT_PROFILE)
def test_a_built_in_plugin_is_listed_with_its_docstring(name: str) -> None:
    documentation = import_module(plugin_class(name).__module__).__doc__ or ""
    assert f"| `{name}` | {documentation.strip().splitlines()[0]} |" in TEXT


def test_built_in_plugins_are_listed_in_the_order_of_the_profile() -> None:
    places = [TEXT.index(f"| `{name}` |") for name in DEFAULT_PROFILE]
    assert places == sorted(places)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_listed_with_its_parameters_and_docstring(hook: str) -> None:
    function = getattr(Plugin, hook)
    parameters = ", ".join([*inspect.signature(function).parameters][1:])
    documentation = inspect.getdoc(function) or ""
    assert f"| `{hook}({parameters})` | {documentation.splitlines()[0]} |" in TEXT


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_about_evictions_is_listed_with_its_parameters_and_docstring(question: str) -> None:
    function = getattr(EvictionPolicy, question)
    parameters = ", ".join([*inspect.signature(function).parameters][1:])
    documentation = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    assert f"| `{question}({parameters})` | {documentation} |" in TEXT


@pytest.mark.parametrize("path", sorted(FOREIGN.glob("*.*")), ids=lambda path: path.name)
def test_an_example_is_the_tested_one(path: Path) -> None:
    assert f"\n{path.read_text().rstrip()}\n```\n" in TEXT
