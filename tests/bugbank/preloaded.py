"""Imports the product once, and removes only the modules that depend on a module that is to be edited.

A child that is forked from a process with everything imported only has to import some modules again: the
edited one, and all that import it, directly or not.
"""

import builtins
import importlib
import pkgutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.bugbank.bank import Played
from tests.bugbank.mutants import MUTANTS

_LIBRARIES: Final = (
    "aiohttp.web",
    "jsonschema",
    "numpy",
    "ortools.sat.python.cp_model",
    "prometheus_client",
    "yaml",
)
_PACKAGES: Final = ("phalanx_plugins", "phalanx_simulator.drills", "phalanx_simulator.invariants")
"""Imported with all their modules: they are looked up by name at run time."""

_PRODUCT: Final = ("phalanx", "phalanx_plugins", "phalanx_simulator", "tests")

_importers: defaultdict[str, set[str]] = defaultdict(set)
"""By module of ours: the modules that import it or something of it."""


def preload() -> None:
    """Import everything that a catcher may use, and record which module imports which."""
    original = builtins.__import__

    def noting(
        name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] = (), level: int = 0
    ) -> Any:
        if globals is not None and name.partition(".")[0] in _PRODUCT:
            for imported in (name, *(f"{name}.{part}" for part in fromlist or ())):
                _importers[imported].add(globals["__name__"])
        return original(name, globals, locals, fromlist, level)

    builtins.__import__ = noting
    try:
        for name in _modules():
            importlib.import_module(name)
    finally:
        builtins.__import__ = original


def _modules() -> Iterator[str]:
    yield from _LIBRARIES
    for package in _PACKAGES:
        found = pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
        yield from (module.name for module in found)
    yield from sorted({f"tests.bugbank.{play}" for play in plays()})


def plays() -> set[str]:
    """Return the modules of this folder that hold plays."""
    catchers = (mutant.caught_by for mutant in MUTANTS)
    return {catcher.play.partition(":")[0] for catcher in catchers if isinstance(catcher, Played)}


def forget(module: str) -> None:
    """Remove a module and everything that imports it, so that the next import reads it again."""
    gone, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name not in gone:
            gone.add(name)
            waiting += _importers[name]
    for name in gone & sys.modules.keys():
        package, _, last = name.rpartition(".")
        vars(sys.modules.get(package)).pop(last, None)
        del sys.modules[name]
    _refuse_leftovers(gone)


def _refuse_leftovers(gone: set[str]) -> None:
    """Raise AssertionError if a remaining module holds a class or function of a removed one."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _PRODUCT and name not in (__name__, "__main__"):
            held = {getattr(value, "__module__", None) for value in vars(module).values()}
            assert not held & gone, f"{name} holds what is of {sorted(str(one) for one in held & gone)}"
