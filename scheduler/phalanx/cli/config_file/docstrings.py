"""The docstrings below the fields of a struct, which Python does not keep: they are read from the source."""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise

from msgspec import Struct


def field_docs(struct: type[Struct]) -> Mapping[str, str]:
    """The documentation of each field by its name; fields without one, or without source, are left out."""
    docs: dict[str, str] = {}
    for each in reversed(struct.__mro__):
        docs.update(_docs_of(each))
    return docs


def _docs_of(struct: type) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[struct.__module__]))
    except (KeyError, OSError, TypeError):  # a built-in class, or a package without sources
        return
    body = _body(tree, struct.__qualname__)
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match after:
                case ast.Expr(value=ast.Constant(value=str() as text)):
                    yield field.target.id, " ".join(text.split())


def _body(tree: ast.Module, qualified: str) -> list[ast.stmt]:
    """The statements of a class by its qualified name; none for a class inside a function."""
    body = tree.body
    for name in qualified.split("."):
        classes = [each for each in body if isinstance(each, ast.ClassDef) and each.name == name]
        if not classes:
            return []
        body = classes[-1].body
    return body
