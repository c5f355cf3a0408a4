"""An import-linter contract: which package may import which, as an explicit list in `pyproject.toml`.

`packages` has one line for each package (`solver: framework model`). Sub-packages of the first root package
are listed by their short name, the other root packages by their full name. `only` has one line for each
external package that not every package may use (`ortools: solver`). A listed package need not exist yet.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class PackagesContract(Contract):
    """Fails for an import that the line of its package does not allow, and for a package without a line."""

    type_name = "packages"
    packages: Any = fields.ListField(subfield=fields.StringField())
    only: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Check every direct import; indirect imports follow from these."""
        roots = self.session_options["root_packages"]
        allowed = {
            _full(name, roots): [_full(one, roots) for one in names] for name, names in _parse(self.packages)
        }
        users = {name: [_full(one, roots) for one in names] for name, names in _parse(self.only)}
        found = sorted(
            f"{importer} must not import {imported}"
            if package in allowed
            else f"{importer} is in no listed package"
            for importer, package in _members(graph, roots)
            for imported in graph.find_modules_directly_imported_by(importer)
            if not _may_import(
                imported, package, ours=(package, *allowed.get(package, ())), roots=roots, users=users
            )
        )
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each import that is not allowed."""
        for line in check.metadata["found"]:
            output.print_error(line)


def _parse(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Parse `a: b c` into a name and its list."""
    for line in lines:
        name, _, names = line.partition(":")
        yield name.strip(), names.split()


def _full(name: str, roots: Sequence[str]) -> str:
    """Return the full name of a package: a short one is a sub-package of the first root package."""
    return name if name.partition(".")[0] in roots else f"{roots[0]}.{name}"


def _members(graph: ImportGraph, roots: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each module of the root packages with its package."""
    for module in sorted(graph.modules):
        root, *parts = module.split(".")
        if root in roots[1:]:
            yield module, root
        elif root == roots[0] and parts:
            yield module, f"{root}.{parts[0]}"


def _may_import(
    imported: str, package: str, *, ours: Sequence[str], roots: Sequence[str], users: dict[str, list[str]]
) -> bool:
    """Whether a package may import a module; `ours` are the packages of ours that it may import."""
    root = imported.partition(".")[0]
    if root not in roots:
        return package in users.get(root, [package])
    return imported == roots[0] or any(f"{imported}.".startswith(f"{name}.") for name in ours)
