"""S8, S9, S20: only the leader writes, writes have preconditions, and the roles allow each request."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from phalanx.framework.strict_yaml import FAST_LOADER
from phalanx.limits import LEASE_RENEW_DEADLINE_S
from phalanx.model.api.kinds import KINDS

from phalanx_simulator.embedded.store import Change
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.coverage_points import ACCESS_POINT_PREFIX
from phalanx_simulator.invariants.truth import Truth

LEASES = "leases.coordination.k8s.io"


class Fencing(Check):
    """S8: a host writes only within the deadline of its last renewal, by its own clock.

    The deadline starts at the sending of that renewal. Independently of clocks, no process writes once
    another process has taken the Lease, unless the Lease was edited by other clients.
    """

    name = "S8"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._deadlines: dict[str, float] = {}
        self._holder = ""
        self._written_by_holder = True

    def on_change(self, change: Change) -> None:
        if change.entry.key.resource == LEASES:
            self._written_by_holder = False

    def on_call(self, call: Call) -> None:
        if call.is_lease:
            self._lease(call)
        elif call.is_write and call.stage is Stage.SENT:
            self._write(call)

    def _lease(self, call: Call) -> None:
        if not call.is_write:
            return
        spec = call.body.get("spec") or {}
        is_release = "holderIdentity" in spec and not spec["holderIdentity"]
        if call.stage is Stage.SENT and is_release:
            self._deadlines.pop(call.host, None)
        elif call.stage is Stage.ANSWERED and call.answered_ok and not is_release:
            self._deadlines[call.host] = call.own_sent + LEASE_RENEW_DEADLINE_S
        elif call.stage is Stage.LANDED and call.succeeded:
            self._written_by_holder = True
            if "holderIdentity" in spec:
                self._holder = str(spec["holderIdentity"] or "")
                self.reached("lease-taken" if self._holder else "lease-given-back")

    def _write(self, call: Call) -> None:
        what = f"{call.verb} {call.resource} {call.key.path}"
        deadline = self._deadlines.get(call.host)
        if deadline is None:
            self.violated(call.host, f"{what} sent without holding the Lease")
        elif call.own_sent > deadline:
            self.violated(call.host, f"{what} sent {call.own_sent - deadline:.2f} s after its deadline")
        if self._holder not in ("", call.host) and self._written_by_holder:
            self.violated(call.host, f"{what} sent although {self._holder} had taken the Lease")


class Preconditions(Check):
    """S9: binds and deletes carry the object's UID, status writes that or its resourceVersion."""

    name = "S9"

    def on_call(self, call: Call) -> None:
        if not call.is_write or call.stage is not Stage.SENT or not call.key.name:
            return
        if call.key.resource in _BY_UID and not call.uid:
            self.violated(call.key.path, f"{call.verb} {call.resource} without the object's UID")
        elif call.key.resource in _VERSIONED and not _version_of(call):
            self.violated(call.key.path, f"{call.verb} {call.resource} without a resourceVersion")


_BY_UID: Final = ("pods", KINDS["NativePodGroup"].resource)
_VERSIONED: Final = tuple(
    KINDS[kind].resource
    for kind in ("PodGroup", "VolcanoPodGroup", "Queue", "Topology", "Lease", "ConfigMap")
)


def _version_of(call: Call) -> str:
    if call.verb == "delete":
        return call.uid
    return str((call.body.get("metadata") or {}).get("resourceVersion") or "")


Access = tuple[str, str, str]
"""Verb, API group, resource."""

_ROLES: Final = ("scheduler-role.yaml", "lease-role.yaml")
_FOLDER: Final = Path(__file__).resolve().parents[3] / "deploy" / "base"
_PERIOD_S: Final = 60.0
_KINDS: Final = {kind.resource: kind for kind in KINDS.values()}


@cache
def shipped_access() -> frozenset[Access]:
    """Permissions of the roles in deploy/base; empty without a checkout."""
    found: set[Access] = set()
    for name in _ROLES:
        path = _FOLDER / name
        if path.is_file():
            for document in yaml.load_all(path.read_text(), FAST_LOADER):
                found.update(_accesses(document.get("rules") or ()))
    return frozenset(found)


def _accesses(rules: Iterable[Any]) -> Iterable[Access]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield verb, group, resource


class LeastPrivilege(Check):
    """S20: the roles of deploy/base allow every requested (verb, resource).

    Each requested pair is a coverage point; `unused_access` lists the permissions that no run has used.
    """

    name = "S20"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._seen: set[Access] = set()
        self._allowed = shipped_access()
        self._next = 0.0

    def on_call(self, call: Call) -> None:
        if call.stage is Stage.SENT:
            self._record((call.verb, call.group, call.resource))

    def on_tick(self) -> None:
        """Record watches, which are not single requests: a host that has received a kind has watched it."""
        if self.now < self._next:
            return
        self._next = self.now + _PERIOD_S
        for replica in self.context.replicas:
            if replica.process is not None:
                for name in sorted(replica.process.network.received.versions.keys() & _KINDS.keys()):
                    self._record(("watch", _KINDS[name].group, _KINDS[name].plural))

    def _record(self, access: Access) -> None:
        if access in self._seen:
            return
        self._seen.add(access)
        self.reached(_point_of(access))
        if self._allowed and access not in self._allowed:
            verb, group, resource = access
            self.violated(f"{resource}.{group}" if group else resource, f"{verb}: no shipped role allows it")


def unused_access(coverage: Mapping[str, int]) -> list[Access]:
    """Permissions that no run with these coverage counts has used."""
    return sorted(access for access in shipped_access() if _point_of(access) not in coverage)


def _point_of(access: Access) -> str:
    verb, group, resource = access
    return (
        f"{ACCESS_POINT_PREFIX}{verb} {resource}.{group}"
        if group
        else f"{ACCESS_POINT_PREFIX}{verb} {resource}"
    )
