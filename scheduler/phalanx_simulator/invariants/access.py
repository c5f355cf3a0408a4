"""S20: requests use only permissions of the shipped roles, and no role is wider than that."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from phalanx.model.api.kinds import KINDS

from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.coverage_points import ACCESS_POINT_PREFIX
from phalanx_simulator.invariants.truth import Truth

Access = tuple[str, str, str]
"""Verb, API group, resource."""

_ROLES: Final = ("scheduler-role.yaml", "lease-role.yaml")
_FOLDER: Final = Path(__file__).resolve().parents[3] / "deploy" / "base"
_LOOK_S: Final = 60.0
_GROUPS: Final = {kind.plural: kind.group for kind in KINDS.values()}


@cache
def shipped_access() -> frozenset[Access]:
    """Permissions of the roles in deploy/base; empty without a checkout."""
    found: set[Access] = set()
    for name in _ROLES:
        path = _FOLDER / name
        if path.is_file():
            for document in yaml.safe_load_all(path.read_text()):
                found.update(_accesses(document.get("rules") or ()))
    return frozenset(found)


def _accesses(rules: Iterable[Any]) -> Iterable[Access]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield verb, group, resource


class LeastPrivilege(Check):
    """S20: every (verb, resource) that is seen is in the roles of deploy/base.

    What is seen becomes a mark; `unused_access` tells after a campaign what the roles allow for nothing.
    """

    name = "S20"

    def __init__(self, scene: CheckContext, truth: Truth) -> None:
        super().__init__(scene, truth)
        self._seen: set[Access] = set()
        self._allowed = shipped_access()
        self._next = 0.0

    def on_call(self, call: Call) -> None:
        if call.stage is Stage.SENT:
            self._see((call.verb, call.group, call.resource))

    def on_tick(self) -> None:
        """Watches are no single requests: a host that has received a kind has watched it."""
        if self.now < self._next:
            return
        self._next = self.now + _LOOK_S
        for replica in self.scene.replicas:
            if replica.process is not None:
                for plural in sorted(replica.process.network.hearing.versions.keys() & _GROUPS.keys()):
                    self._see(("watch", _GROUPS[plural], plural))

    def _see(self, access: Access) -> None:
        if access in self._seen:
            return
        self._seen.add(access)
        self.saw(_mark_of(access))
        if self._allowed and access not in self._allowed:
            verb, group, resource = access
            self.violated(f"{resource}.{group}" if group else resource, f"{verb}: no shipped role allows it")


def unused_access(marks: Mapping[str, int]) -> list[Access]:
    """Permissions that no run with these coverage counts has used."""
    return sorted(access for access in shipped_access() if _mark_of(access) not in marks)


def _mark_of(access: Access) -> str:
    verb, group, resource = access
    return (
        f"{ACCESS_POINT_PREFIX}{verb} {resource}.{group}"
        if group
        else f"{ACCESS_POINT_PREFIX}{verb} {resource}"
    )
