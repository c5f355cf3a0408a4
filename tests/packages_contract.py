"""An import-linter contract: which package may import which, as an explicit list in `pyproject.toml`.

`packages` has one line for each package (`solver: framework model`). Packages of `phalanx` go by their
short name, the other import packages of the distribution by their own. `only` has one line for each
external package that not every package may use (`ortools: solver`). A listed package need not exist yet.
"""

from collections.abc import Iterator
from typing import Any, Final

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

MAIN: Final = "phalanx"
OTHERS: Final = frozenset({"phalanx_controlplane", "phalanx_plugins", "phalanx_simulator"})


class PackagesContract(Contract):
    """Broken by an import that its package's line does not allow, and by a package without a line."""

    type_name = "packages"
    packages: Any = fields.ListField(subfield=fields.StringField())
    only: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Check every direct import; indirect imports follow from these."""
        allowed, users = _parse(self.packages), _parse(self.only)
        found = sorted(
            f"{importer} must not import {imported}"
            if package in allowed
            else f"{importer} is in no listed package"
            for importer, package in _members(graph)
            for imported in graph.find_modules_directly_imported_by(importer)
            if not _may_import(imported, package=package, allowed=allowed.get(package, []), users=users)
        )
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each import that is not allowed."""
        for line in check.metadata["found"]:
            output.print_error(line)


def _parse(lines: list[str]) -> dict[str, list[str]]:
    """Parse `a: b c` into a name and its list."""
    pairs = (line.split(":") for line in lines)
    return {name.strip(): names.split() for name, names in pairs}


def _members(graph: ImportGraph) -> Iterator[tuple[str, str]]:
    """Yield each module of the distribution with the short name of its package."""
    for module in sorted(graph.modules):
        root = module.partition(".")[0]
        if module.startswith(f"{MAIN}."):
            yield module, module.split(".")[1]
        elif root in OTHERS:
            yield module, root


def _may_import(imported: str, *, package: str, allowed: list[str], users: dict[str, list[str]]) -> bool:
    root, _, rest = imported.partition(".")
    if imported == MAIN:  # holds nothing but a docstring
        return True
    if root in OTHERS:
        return root == package or root in allowed
    if root != MAIN:
        return package in users.get(root, [package])
    return any(f"{rest}.".startswith(f"{name}.") for name in (package, *allowed))
