"""An import-linter contract: who may import whom, as an explicit list that `pyproject.toml` holds.

`rooms` has one line for each room of `phalanx/` (`solver: framework model`), `only` one for each package from
outside that not everybody may use (`ortools: solver`). A room that is listed need not exist yet.
"""

from collections.abc import Iterator
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ROOT = "phalanx"


class RoomsContract(Contract):
    """Broken by an import that its room's line does not allow, and by a room without a line."""

    type_name = "rooms"
    rooms: Any = fields.ListField(subfield=fields.StringField())
    only: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Look at every direct import; indirect ones then follow."""
        allowed, users = _parse(self.rooms), _parse(self.only)
        found = sorted(
            f"{importer} must not import {imported}"
            if room in allowed
            else f"{importer} is in no listed room"
            for importer, room in _members(graph)
            for imported in graph.find_modules_directly_imported_by(importer)
            if not _may_import(imported, room=room, allowed=allowed.get(room, []), users=users)
        )
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """One line for each offence."""
        for line in check.metadata["found"]:
            output.print_error(line)


def _parse(lines: list[str]) -> dict[str, list[str]]:
    """`a: b c` as a name and its list."""
    pairs = (line.split(":") for line in lines)
    return {name.strip(): names.split() for name, names in pairs}


def _members(graph: ImportGraph) -> Iterator[tuple[str, str]]:
    """Our modules, each with its room."""
    for module in sorted(graph.modules):
        if module.startswith(f"{ROOT}."):
            yield module, module.split(".")[1]


def _may_import(imported: str, *, room: str, allowed: list[str], users: dict[str, list[str]]) -> bool:
    package, _, rest = imported.partition(".")
    if imported == ROOT:  # holds nothing but a docstring
        return True
    if package != ROOT:
        return room in users.get(package, [room])
    return any(f"{rest}.".startswith(f"{name}.") for name in (room, *allowed))
