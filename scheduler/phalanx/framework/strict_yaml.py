"""YAML loading that reports every error with its place, and refuses what PyYAML accepts or crashes on."""

from collections.abc import Hashable
from typing import Any, Final

import yaml

from phalanx.limits import SHOWN_VALUE_CHARACTERS

MERGE_KEY = "<<"

FAST_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader in C, which is several times as fast, if PyYAML was built with it."""


class StrictConstructor:
    """A mixin for loaders of PyYAML, named before them. Each error is a yaml.MarkedYAMLError with a mark.

    It refuses a key that is given twice, of which PyYAML keeps the last one; a key that is a list or a map;
    and a scalar that does not fit its type, such as `2024-99-99`, for which PyYAML raises various exceptions.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct one value."""
        try:
            return super().construct_object(node, deep)  # type: ignore[misc]
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            kind = node.tag.rpartition(":")[2]
            raise _error(f"{_shown(node)} is not a valid {kind}", node) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Construct a map after checking its keys."""
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)  # type: ignore[misc]
        return mapping


def _check_keys(node: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _error("a key that is not a word", key)
        if key.value in seen and key.value != MERGE_KEY:
            raise _error(f"{_shown(key)} is given twice", key)
        seen.add(key.value)


def describe(error: Exception) -> tuple[str, str]:
    """The place of the error, such as "line 1, column 7: " or empty, and the problem on one line."""
    mark = getattr(error, "problem_mark", None)
    at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return at, " ".join(str(getattr(error, "problem", None) or error).split())


def _error(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _shown(node: yaml.Node) -> str:
    text = node.value if isinstance(node, yaml.ScalarNode) else "this value"
    return text[:SHOWN_VALUE_CHARACTERS] or "an empty text"
