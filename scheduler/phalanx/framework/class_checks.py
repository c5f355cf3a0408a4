"""Refuse a class that breaks the protocol of its base: a misspelt method, other parameters, a coroutine."""

import inspect
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from phalanx.framework.pod_view import PluginError
from phalanx.model.overridden_methods import methods_of, overrides


def check_methods(kind: type, protocol: type, *, noun: str, declarations: Sequence[str] = ()) -> None:
    """Raise PluginError for a public name that is none of the protocol's, or has other parameters.

    `noun`: what a method of the protocol is called. `declarations`: other names that the class may define.
    """
    methods = methods_of(protocol)
    for base in kind.__mro__:
        for name, value in vars(base).items() if base not in protocol.__mro__ else ():
            subject = f"class {kind.__qualname__}: {name}"
            if name in methods:
                _check_parameters(subject, getattr(protocol, name), value)
                if not overrides(kind, name, protocol):
                    raise PluginError(
                        f"{subject} of {base.__qualname__} has no effect; name {base.__qualname__} before"
                        f" {protocol.__name__}"
                    )
            elif not name.startswith("_") and name not in declarations:
                raise PluginError(f"{subject} is no {noun}{_guess(name, (*methods, *declarations))}")


def _check_parameters(subject: str, method: Any, value: object) -> None:
    expected = list(inspect.signature(method).parameters)
    found = list(inspect.signature(value).parameters) if callable(value) else []
    if found != expected:
        raise PluginError(f"{subject} must have the parameters ({', '.join(expected)})")
    if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value):
        raise PluginError(f"{subject} must not be async")


def _guess(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]}?" if near else "; other names start with an underscore"
