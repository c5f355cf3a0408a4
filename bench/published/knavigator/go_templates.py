"""The part of Go templates that Knavigator uses: fields, `if`, `else`, `end`, trimmed space."""

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_ACTION: Final = re.compile(r"\{\{(-\s)?\s*(.*?)\s*(\s-)?\}\}", re.DOTALL)
_FIELD: Final = re.compile(r"(\.\w+)+")
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
}


class BadTemplate(Exception):
    """A template uses something that is not known here, or a parameter that is not given."""


def render(template: str, parameters: Mapping[str, Any]) -> str:
    """Fill in a template. Raises BadTemplate."""
    written: list[str] = []
    shown = [True]  # whether the text is shown, for each open `if`
    tried = [True]  # whether an `else` is shown
    position = 0
    trims = False
    for action in _ACTION.finditer(template):
        _write(written, template[position : action.start()], shown, left=trims, right=bool(action[1]))
        position, trims = action.end(), bool(action[3])
        _act(action[2], parameters, written, shown, tried)
    if len(shown) > 1:
        raise BadTemplate("an `if` has no `end`")
    _write(written, template[position:], shown, left=trims, right=False)
    return "".join(written)


def integer(expression: str) -> int:
    """The value of an integer or a sum, difference or product of integers. Raises BadTemplate."""
    try:
        return _value(ast.parse(expression.strip().strip('"'), mode="eval").body)
    except (SyntaxError, BadTemplate):
        raise BadTemplate(f"{expression!r} is no number") from None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise BadTemplate("not a sum, difference or product")


def _write(written: list[str], text: str, shown: list[bool], *, left: bool, right: bool) -> None:
    text = text.lstrip() if left else text
    text = text.rstrip() if right else text
    if all(shown):
        written.append(text)


def _act(
    action: str, parameters: Mapping[str, Any], written: list[str], shown: list[bool], tried: list[bool]
) -> None:
    word, _, rest = action.partition(" ")
    if _FIELD.fullmatch(action):
        if all(shown):
            written.append(_text(_field(action, parameters)))
    elif word == "if" and _FIELD.fullmatch(rest.strip()):
        is_set = bool(_field(rest.strip(), parameters, missing=None))
        shown.append(is_set)
        tried.append(not is_set)
    elif action == "else" and len(shown) > 1:
        shown[-1] = tried[-1]
    elif action == "end" and len(shown) > 1:
        shown.pop()
        tried.pop()
    elif not action.startswith("/*"):
        raise BadTemplate(f"{{{{{action}}}}} is not supported")


_REQUIRED: Final = object()


def _field(path: str, parameters: Mapping[str, Any], *, missing: object = _REQUIRED) -> Any:
    found: Any = parameters
    for name in path[1:].split("."):
        if not isinstance(found, Mapping) or name not in found:
            if missing is _REQUIRED:
                raise BadTemplate(f"the parameter {path} is not given")
            return missing
        found = found[name]
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
