"""S6, S13: statuses of queues and PodGroups match the pods, and events are correct."""

from collections.abc import Sequence
from math import inf

from phalanx.model.decisions import CycleResult
from phalanx.model.resources import Resources
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.invariants.bounds import (
    CONVERGED_S,
    DECIDED_S,
    HEALED_S,
    SLOW_WRITES_S,
    STATUS_CHANGES_PER_S,
    STATUS_S,
)
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.claim_facts import device_claims_of, found, volume_claims_of
from phalanx_simulator.invariants.facts import VOLCANO_PREFIX, GangKey, PodFact
from phalanx_simulator.invariants.history import History
from phalanx_simulator.invariants.native_groups import (
    GROUPS,
    NATIVE_GROUPS,
    VOLCANO_GROUPS,
    group_object,
    has_started_in_volcano,
    has_started_natively,
    is_of_dialect,
    key_of,
)
from phalanx_simulator.invariants.oracle import Oracle, amounts_of, path_of
from phalanx_simulator.invariants.truth import PODS, QUEUES, GangFact, Truth


class QueueUsageIsCorrect(Check):
    """S6: no bind exceeds a queue's limit, and at rest its status matches the usage.

    Usage includes devices of claims. The limit is the highest one since the sender's state at the decision,
    since slow writes may delay the bind, and a pod with claims waits for volumes and devices. Pods that have
    got another gang since then are not counted: they may have come from another queue. Binds are ignored if a
    queue has got another parent since then. Limits of flavors are not checked here.
    """

    name = "S6"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._oracle = Oracle(context.store, truth)
        self._specs: dict[str, History[Object]] = {}
        self._decided_with: dict[tuple[str, str], tuple[float, int, int]] = {}
        """When a bind was decided, and the revisions of queues and pods that the sender knew then."""
        for entry in context.store.entries(QUEUES):
            spec = entry.data.get("spec") or {}
            self._specs.setdefault(entry.key.name, History()).add(entry.revision, spec)

    def on_change(self, change: Change) -> None:
        if change.entry.key.resource == QUEUES:
            spec = None if change.type is ChangeType.DELETED else change.entry.data.get("spec") or {}
            history = self._specs.setdefault(change.entry.key.name, History())
            if history.now != spec:
                history.add(change.entry.revision, spec)

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        queues, pods = (self.truth.received(host, kind, before_s=DECIDED_S) for kind in (QUEUES, PODS))
        for placement in result.placements:
            self._decided_with.update(
                ((host, bind.pod), (self.now, queues, pods)) for bind in placement.binds
            )

    def on_call(self, call: Call) -> None:
        if not call.is_bind or call.stage is not Stage.LANDED or not call.succeeded or not self._any_limit():
            return
        pod = self.truth.pods.get(call.uid)
        if pod is None or not pod.charged:
            return
        decided_at, revision, pods = self._decided_with.get((call.host, call.uid), (-inf, 0, 0))
        may_wait = decided_at > -inf and self._has_claims(call.key)
        if self.now - decided_at > SLOW_WRITES_S and not may_wait:
            revision, pods = (
                self.truth.known_to_sender(call, kind, before_s=DECIDED_S) for kind in (QUEUES, PODS)
            )
        if self._has_moved(revision):
            return
        name = self._queue_of(pod)
        for queue in path_of(name, self._now()):
            limits = [
                amounts_of((spec or {}).get("limit") or {}) for spec in self._specs[queue].since(revision)
            ]
            self._check_limit(pod, queue, limits, pods)

    def _has_claims(self, pod: Key) -> bool:
        """L14 and S28 limit how long its bind may wait for them."""
        data = found(self.context.store, pod) or {}
        return any((*volume_claims_of(data), *device_claims_of(data)))

    def _check_limit(self, pod: PodFact, queue: str, limits: Sequence[Resources], revision: int) -> None:
        """`revision`: of the pods that the sender knew."""
        if not all(limits):
            return
        used = self._oracle.usage_of(queue, self._now())
        for resource in (*(pod.charged or {}), *sorted(self._oracle.claims.names_of(pod))):
            bounds = [limit.get(resource) for limit in limits]
            known = [bound for bound in bounds if bound is not None]
            if len(known) < len(bounds) or used.get(resource, 0) <= max(known):
                continue
            if used[resource] - self._of_new_members(resource, revision) > max(known):
                uses = f"{used[resource]} of {resource}"
                self.violated(f"queue {queue}", f"uses {uses}, above its limit {max(known)}")

    def _of_new_members(self, resource: str, revision: int) -> int:
        """What pods with nodes use that have got another gang since that revision."""
        return sum(
            (pod.charged or {}).get(resource, 0)
            for uid, pod in self.truth.pods.items()
            if pod.node and len({each.gang for each in self.truth.pod_since(uid, revision) if each}) > 1
        )

    def at_rest(self) -> None:
        for entry in self.context.store.entries(QUEUES):
            status = entry.data.get("status") or {}
            if "allocated" not in status:
                continue
            reported, used = (
                amounts_of(status["allocated"]),
                self._oracle.usage_of(entry.key.name, self._now()),
            )
            names = sorted(reported.keys() | used.keys())
            wrong = [name for name in names if reported.get(name, 0) != used.get(name, 0)]
            if wrong and not self._is_busy():
                name = wrong[0]
                why = f"reports {reported.get(name, 0)} of {name}, its pods use {used.get(name, 0)}"
                self.violated(f"queue {entry.key.name}", why)

    def _is_busy(self) -> bool:
        before = self.truth.revision_before(CONVERGED_S)
        return any(self.truth.pod_changed_at(pod.uid) > before for pod in self.truth.pods.values())

    def _has_moved(self, revision: int) -> bool:
        """Whether any queue has had several parents since that revision."""
        return any(
            len({(spec or {}).get("parent") or "" for spec in history.since(revision)}) > 1
            for history in self._specs.values()
        )

    def _any_limit(self) -> bool:
        return any((history.now or {}).get("limit") for history in self._specs.values())

    def _now(self) -> dict[str, Object]:
        """Specs of the existing queues."""
        return {name: history.now for name, history in self._specs.items() if history.now is not None}

    def _queue_of(self, pod: PodFact) -> str:
        members = list(self.truth.members(pod.gang))
        return self._oracle.accounts.queue_of(self.truth.group_of(pod.gang), members)


class StatusIsCorrect(Check):
    """S13: a PodGroup's counts match its pods, and Scheduled is set only after a start.

    The counts are compared STATUS_S after the last change of the PodGroup's pods, assuming that all pod
    changes are reported in order at STATUS_CHANGES_PER_S, if an undisturbed leader has led for HEALED_S; and
    at rest. A PodGroup never reports a start before minMember members are bound; a native one, which has no
    counts, stays Scheduled once it is. No event reports the assignment of a pod to a node to which it was not
    bound.
    """

    name = "S13"

    def __init__(self, context: CheckContext, truth: Truth) -> None:
        super().__init__(context, truth)
        self._unreported: dict[GangKey, float] = {}
        self._all_reported_at = 0.0
        self._leader = ""
        self._led_since = 0.0

    def on_change(self, change: Change) -> None:
        changed = self.truth.changed_pod
        if changed is not None:
            self._all_reported_at = max(self._all_reported_at, self.now) + 1 / STATUS_CHANGES_PER_S
            for pod in (changed.before, changed.after):
                if pod is not None and pod.gang.kind == "group":
                    self._unreported[pod.gang] = self._all_reported_at
        if change.entry.key.resource == NATIVE_GROUPS and change.type is not ChangeType.DELETED:
            self._check_native(change)
        if change.entry.key.resource == VOLCANO_GROUPS and change.type is not ChangeType.DELETED:
            self._check_phase(change)
        if change.entry.key.resource != GROUPS or change.type is ChangeType.DELETED:
            return
        now = change.entry.data.get("status") or {}
        before = (change.previous.data.get("status") or {}) if change.previous is not None else {}
        place = change.entry.key
        key = GangKey("group", place.namespace, place.name)
        if change.type is ChangeType.ADDED:
            self._unreported[key] = max(self._all_reported_at, self.now)
        gang = self.truth.gangs.get(key)
        if now.get("startedAt") and not before.get("startedAt") and gang is not None and not gang.has_started:
            needed = self.truth.min_member(gang.key)
            self.violated(place.path, f"reports a start with {gang.active} of {needed} members")

    def _check_native(self, change: Change) -> None:
        """A native PodGroup becomes Scheduled once its gang has started, and stays so."""
        group, before = change.entry.data, change.previous
        was = before is not None and has_started_natively(before.data)
        gang = self.truth.gangs.get(key_of(change.entry.key))
        if was and not has_started_natively(group):
            self.violated(change.entry.key.path, "takes back that it was scheduled")
        elif has_started_natively(group) and not was and (gang is None or not gang.has_started):
            self.violated(change.entry.key.path, "reports a start without the minimum of its pods")

    def _check_phase(self, change: Change) -> None:
        """A PodGroup of Volcano is put in queue first, and has a later phase once its gang has started."""
        group, before = change.entry.data, change.previous
        was = before is not None and has_started_in_volcano(before.data)
        gang = self.truth.gangs.get(key_of(change.entry.key))
        if has_started_in_volcano(group) and not was and (gang is None or not gang.has_started):
            self.violated(change.entry.key.path, "reports a start without the minimum of its pods")

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        if host != self._leader:
            self._leader, self._led_since = host, self.now

    def on_call(self, call: Call) -> None:
        if call.stage is not Stage.SENT or call.resource != "events" or call.verb != "create":
            return
        if call.body.get("reason") != "Scheduled":
            return
        uid, node = call.body["regarding"]["uid"], call.body["note"].rpartition(" to ")[2]
        versions = self.truth.pod_since(uid, 0)
        is_known = any(pod is not None for pod in versions)
        if is_known and all(pod is None or pod.node != node for pod in versions):
            self.violated(call.body["regarding"]["name"], f"an event reports its assignment to {node}")

    def on_tick(self) -> None:
        if min(self.now - self._led_since, self.truth.healthy_s(self._leader)) <= HEALED_S:
            return
        for key, at in list(self._unreported.items()):
            if self.now - at > STATUS_S:
                del self._unreported[key]
                gang = self.truth.gangs.get(key)
                if gang is not None:
                    self._judge(gang)

    def at_rest(self) -> None:
        before = self.truth.revision_before(CONVERGED_S)
        for gang in self.truth.our_gangs():
            if all(self.truth.pod_changed_at(pod.uid) <= before for pod in self.truth.members(gang.key)):
                self._judge(gang)

    def _judge(self, gang: GangFact) -> None:
        members, group = list(self.truth.members(gang.key)), self.truth.group_of(gang.key)
        if group is None or group.controller or group.is_deleting:
            return
        if not any(pod.is_ours for pod in members):
            return
        if group.name.startswith(VOLCANO_PREFIX):
            self._compare_phase(gang, members)
        elif not is_of_dialect(group.name):
            self._compare(gang, members)

    def _compare_phase(self, gang: GangFact, members: list[PodFact]) -> None:
        """The counts and the phase of a PodGroup of Volcano follow from its pods."""
        entry = self.context.store.get(group_object(gang.key))
        status = (entry.data.get("status") or {}) if entry is not None else {}
        true, needed = _counts(members), self.truth.min_member(gang.key)
        for name in ("running", "succeeded", "failed"):
            if (status.get(name) or 0) != true[name]:
                self.violated(gang, f"reports {name}: {status.get(name)}, actual {true[name]}")
        ended = sum(pod.is_finished for pod in members)
        expected: tuple[str, ...] = ("Inqueue", "Unknown")
        if ended == len(members) >= needed:
            expected = ("Completed",)
        elif true["bound"] + true["running"] + true["succeeded"] >= needed:
            expected = ("Running",)
        if status.get("phase") not in expected:
            self.violated(gang, f"reports phase {status.get('phase')}, expected {' or '.join(expected)}")

    def _compare(self, gang: GangFact, members: list[PodFact]) -> None:
        entry = self.context.store.get(Key(GROUPS, gang.key.namespace, gang.key.name))
        status = (entry.data.get("status") or {}) if entry is not None else {}
        reported, true = status.get("counts") or {}, _counts(members)
        wrong = [name for name, count in true.items() if reported.get(name) != count]
        if wrong:
            self.violated(gang, f"reports {wrong[0]}: {reported.get(wrong[0])}, actual {true[wrong[0]]}")
        statuses = {
            condition.get("type"): condition.get("status") for condition in status.get("conditions") or ()
        }
        if statuses.get("Scheduled") == "True" and not gang.has_started:
            self.violated(gang, f"reports Scheduled with {gang.active} members")


def _counts(members: list[PodFact]) -> dict[str, int]:
    """Counts as in the status: a terminating member is in the total only."""
    found = {"total": len(members), "pending": 0, "bound": 0, "running": 0, "succeeded": 0, "failed": 0}
    for pod in members:
        if not pod.is_deleting:
            found[_state(pod)] += 1
    return found


def _state(pod: PodFact) -> str:
    if pod.is_finished:
        return pod.phase.lower()
    if not pod.node:
        return "pending"
    return "running" if pod.phase == "Running" else "bound"
