"""S8, S9: only the leader writes, and each write names its exact object."""

from phalanx.limits import LEASE_RENEW_DEADLINE_S

from phalanx_simulator.embedded.store import Change
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.truth import Truth

LEASES = "leases.coordination.k8s.io"


class Fencing(Check):
    """S8: a host writes only within the deadline of its last renewal, by its own clock.

    The deadline counts from the sending of that renewal. And nobody sends anything once another process has
    taken the Lease, however the clocks run, unless somebody else has edited the Lease.
    """

    name = "S8"

    def __init__(self, scene: CheckContext, truth: Truth) -> None:
        super().__init__(scene, truth)
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
                self.saw("lease-taken" if self._holder else "lease-given-back")

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
        if call.plural == "pods" and not call.uid:
            self.violated(call.key.path, f"{call.verb} {call.resource} without the pod's UID")
        elif call.plural in _VERSIONED and not _version_of(call):
            self.violated(call.key.path, f"{call.verb} {call.resource} without a resourceVersion")


_VERSIONED = ("podgroups", "queues", "topologies", "leases")


def _version_of(call: Call) -> str:
    if call.verb == "delete":
        return call.uid
    return str((call.body.get("metadata") or {}).get("resourceVersion") or "")
