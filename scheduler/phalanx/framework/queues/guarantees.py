"""How far the guarantees of queues cover gangs: the rule by which one queue may evict gangs of another.

A guarantee covers whole gangs in queue order. The rule is in docs/guarantees.md. Two queues are compared
below their lowest common ancestor, since they share the guarantees above it: each gang is judged by its
`side`, the child of that ancestor on the path of its queue. Guarantees count as they are written, also where
there is less capacity than they promise: then what runs stays.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from phalanx.framework.config import SchedulerConfig
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.queues.covered_units import (
    Unit,
    devices_of,
    rank,
    resources_of,
    units_of,
    usage_on,
    uses_only_on,
)
from phalanx.framework.queues.fair_shares import FairShares
from phalanx.framework.queues.ledger import Ledger
from phalanx.framework.queues.protected_gangs import names_guarantee
from phalanx.framework.queues.queue_tree import QueueTree
from phalanx.framework.states import PodState
from phalanx.model.charges import charged_for
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, NodeName, PodUid, QueueName
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Pod
from phalanx.model.queues import Queue, Selector
from phalanx.model.resources import Resources, sum_of


class Coverage(IntEnum):
    """How far guarantees cover a gang."""

    NONE = 0
    PARTIAL = 1
    """In a resource that it uses; in a device if it uses devices."""
    FULL = 2
    """In every short resource that counts; PARTIAL if there is none is enough."""


class Sides(Struct, frozen=True):
    """Two queues below their lowest common ancestor."""

    mine: QueueName
    theirs: QueueName
    short: frozenset[str]
    """The requested resources for which the demand exceeds what the two sides can share."""


class GuaranteeGap(Struct, frozen=True):
    """What gangs of a queue must free so that another one may start in their place."""

    queues: frozenset[QueueName]
    """The queue and its descendants."""
    nodes: frozenset[NodeName] | None
    """Only pods on these nodes count; None for all nodes."""
    amounts: Resources


class Kept(Struct, frozen=True):
    """What a claim by a fair share leaves to a queue."""

    nodes: frozenset[NodeName] | None
    """Only pods on these nodes count; None for all nodes."""
    priority: int
    """Only gangs of at least this priority count."""
    spare: Resources
    """What such gangs use beyond what they keep."""


class _Session(Protocol):
    """The parts of the session that coverage is computed from."""

    nodes: Mapping[NodeName, NodeState]
    queues: QueueTree
    ledger: Ledger
    config: SchedulerConfig

    @property
    def gangs_after_starts(self) -> Mapping[GangId, Gang]: ...
    @property
    def protected_gangs(self) -> frozenset[GangId]: ...
    @property
    def fair_shares(self) -> FairShares: ...
    @property
    def assumed_ended(self) -> Mapping[PodUid, bool]: ...
    @property
    def ended_version(self) -> int: ...
    def pod_state(self, pod: Pod) -> PodState: ...


class Guarantees:
    """The coverage of the gangs of one session.

    Pods that are assumed to have ended do not count. What the cycle has started counts as if it ran.
    """

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._gangs: Mapping[GangId, Gang] = {}
        self._ended = -1
        self._units: dict[GangId, list[Unit]] = {}
        self._in_order: dict[QueueName, list[Unit]] = {}
        self._covered: dict[tuple[QueueName, Selector | None, str], frozenset[PodUid]] = {}
        self._resources: dict[tuple[PodUid, QueueName], frozenset[str]] = {}
        self._short_known: dict[tuple[frozenset[str], QueueName | None], frozenset[str]] = {}

    def sides(self, beneficiary: Beneficiary, queue: QueueName) -> Sides | None:
        """The sides of the beneficiary's queue and of another queue; None if one is above the other."""
        mine = below_common_ancestor(beneficiary.gang.queue, queue, self._session)
        theirs = below_common_ancestor(queue, beneficiary.gang.queue, self._session)
        if not mine or not theirs:
            return None
        common = self._session.queues.parent_of(mine[-1].name)
        return Sides(mine[-1].name, theirs[-1].name, self._short(resources_of(beneficiary.requested), common))

    def _short(self, requested: frozenset[str], common: QueueName | None) -> frozenset[str]:
        """The short ones of these resources. For devices also the resources of the nodes that have them."""
        key = (requested, common)
        if key not in self._short_known:
            shares = self._session.fair_shares
            devices = [name for name in requested if "/" in name]
            self._short_known[key] = frozenset(
                name
                for name in requested
                if shares.is_scarce(name, common)
                or any(shares.is_scarce_beside(device, name) for device in devices)
            )
        return self._short_known[key]

    def coverage_after_start(
        self, beneficiary: Beneficiary, side: QueueName, short: frozenset[str]
    ) -> Coverage:
        """The coverage of a waiting gang if it starts now."""
        return _coverage(
            resources_of(beneficiary.requested), self.covered_after_start(beneficiary, side), short
        )

    def coverage_among_siblings(
        self, beneficiary: Beneficiary, queue: QueueName, *, is_scaled: bool = False
    ) -> Coverage:
        """The coverage of a waiting gang by a queue on its path, compared with the siblings of that queue.

        `is_scaled`: by the guarantee as far as the capacity exists, rounded down.
        """
        uses = resources_of(beneficiary.requested)
        covered = self.covered_after_start(beneficiary, queue, is_scaled=is_scaled)
        if not covered or covered == uses:
            return _coverage(uses, covered, uses)
        return _coverage(uses, covered, self._short(uses, self._session.queues.parent_of(queue)))

    def covered_after_start(
        self, beneficiary: Beneficiary, side: QueueName, *, is_scaled: bool = False
    ) -> frozenset[str]:
        """The resources in which a waiting gang is covered if it starts now."""
        uses = resources_of(beneficiary.requested)
        covered = self._within(beneficiary, side, None, is_scaled=is_scaled)
        for selector in self._session.ledger.guaranteed(side) if covered != uses else ():
            within = self._within(beneficiary, side, selector, is_scaled=is_scaled)
            if within - covered and self._is_confined(beneficiary, selector):
                covered |= within
        return covered

    def gaps_before_start(
        self, beneficiary: Beneficiary, side: QueueName, short: frozenset[str]
    ) -> tuple[Coverage, tuple[GuaranteeGap, ...]]:
        """The coverage of a waiting gang if gangs of its side free their capacity, and how much they must.

        That is what the side would use beyond its guarantee, but no more than the gang requests. Beyond its
        guarantee already, the side must cover the gang in its place of the order. Surplus has no coverage.
        """
        self._forget_outdated()
        uses = resources_of(beneficiary.requested)
        gaps: dict[str, tuple[int, Selector | None]] = {}
        for name in sorted((short & uses) | devices_of(uses) or uses) if not beneficiary.is_surplus else ():
            possible = list(self._gaps_of(beneficiary, side, name))
            if possible:
                gaps[name] = min(possible, key=lambda gap: gap[0])
        amounts: dict[Selector | None, dict[str, int]] = {}
        for name, (amount, selector) in gaps.items():
            if amount:
                amounts.setdefault(selector, {})[name] = amount
        queues, nodes_of = self._session.queues, self._session.ledger.nodes_of
        below = frozenset(each.name for each in queues if queues.get(side) in queues.path(each.name))
        return _coverage(uses, gaps.keys(), short), tuple(
            GuaranteeGap(below, None if selector is None else nodes_of(selector), missing)
            for selector, missing in amounts.items()
        )

    def covered_pods(
        self, gang: Gang, side: QueueName, short: frozenset[str], at_least: int
    ) -> frozenset[PodUid]:
        """The pods of a running gang that are covered at least so far."""
        self._forget_outdated()
        found: set[PodUid] = set()
        for unit in self._units_of(gang):
            if self._coverage_of(unit, side, short) >= at_least:
                found.update(pod.uid for pod in unit.pods)
        return frozenset(found)

    def usage_covered_less(
        self, gang: Gang, side: QueueName, short: frozenset[str], than: int
    ) -> Iterator[Resources]:
        """What the parts of a gang use that are covered less: its minimum, and each other member."""
        self._forget_outdated()
        for unit in self._units_of(gang):
            if self._coverage_of(unit, side, short) < than:
                yield unit.usage

    @property
    def running(self) -> Collection[Gang]:
        """The gangs that hold nodes."""
        self._forget_outdated()
        return [gang for gang in self._gangs.values() if gang.nodes]

    def protected_usage(self, gang: Gang, side: QueueName, resource: str) -> tuple[int, bool]:
        """What covered parts of a gang use of a resource, and whether some use it beside covered devices."""
        units = [unit for unit in self._units_of(gang) if resource in self._covered_resources(unit, side)]
        return sum(unit.usage[resource] for unit in units), any(
            resource in self._carried(unit, side) for unit in units
        )

    def kept_usage(self, queue: QueueName, counts: frozenset[str]) -> Iterator[Kept]:
        """What the queue keeps against a claim by a fair share, for each of its guarantees and priorities.

        `counts`: the resources of the claim. Without a device among them, devices count too that gangs use
        which are covered in all of them: otherwise a claim to cores would take guaranteed devices.
        """
        self._forget_outdated()
        units = self._units_below(queue) if self._has_guarantee(queue) else []
        for selector in (None, *self._session.ledger.guaranteed(queue)) if units else ():
            nodes = None if selector is None else self._session.ledger.nodes_of(selector)
            covered = [(unit, self._kept_of(unit, queue, selector, counts)) for unit in units]
            for priority in sorted({unit.gang.priority for unit, names in covered if names}):
                kept = sum_of(
                    {name: unit.usage[name] for name in names}
                    for unit, names in covered
                    if unit.gang.priority >= priority
                )
                used = sum_of(usage_on(nodes, unit) for unit in units if unit.gang.priority >= priority)
                yield Kept(nodes, priority, {name: used[name] - amount for name, amount in kept.items()})

    def _kept_of(
        self, unit: Unit, queue: QueueName, selector: Selector | None, counts: frozenset[str]
    ) -> frozenset[str]:
        """The resources of the unit that a guarantee keeps against a claim to these."""
        first = unit.pods[0].uid
        covered = {name for name in unit.uses if first in self._covered_on(queue, selector, name)}
        if selector is None:
            covered |= self._carried(unit, queue)
        devices = devices_of(covered)
        if devices_of(counts) or not (counts & unit.uses).issubset(self._covered_resources(unit, queue)):
            devices = set()
        return frozenset(covered & (counts | devices))

    def signature(self, gang: Gang) -> Hashable:
        """Equal for running gangs of one queue with the same coverage, whatever they are compared with."""
        self._forget_outdated()
        path = [queue.name for queue in self._session.queues.path(gang.queue)]
        declared = [name for name in path if self._has_guarantee(name)]
        units = self._units_of(gang) if declared else []
        return frozenset((name, self._covered_resources(unit, name)) for unit in units for name in declared)

    def _has_guarantee(self, queue: QueueName) -> bool:
        guarantee = self._session.fair_shares.of(queue).written
        return any(guarantee.values()) or bool(self._session.ledger.guaranteed(queue))

    def _coverage_of(self, unit: Unit, side: QueueName, short: frozenset[str]) -> Coverage:
        return _coverage(unit.uses, self._covered_resources(unit, side), short)

    def _covered_resources(self, unit: Unit, side: QueueName) -> frozenset[str]:
        first = unit.pods[0].uid
        if (first, side) not in self._resources:
            accounts = (None, *self._session.ledger.guaranteed(side))
            self._resources[first, side] = frozenset(
                name
                for name in unit.uses
                if any(first in self._covered_on(side, account, name) for account in accounts)
            ) | self._carried(unit, side)
        return self._resources[first, side]

    def _carried(self, unit: Unit, side: QueueName) -> frozenset[str]:
        """What no guarantee names, and the unit uses beside devices that the guarantees of a queue cover.

        Per device as much as the node has per device, rounded up. A unit that uses more borrows all of it.
        """
        first, path = unit.pods[0].uid, self._session.queues.path(unit.gang.queue)
        selectors = self._session.ledger.guaranteed(side)
        devices = [
            name
            for name in sorted(devices_of(unit.uses))
            if any(first in self._covered_on(side, account, name) for account in (None, *selectors))
        ]
        if not devices:
            return frozenset()
        below = path[: [queue.name for queue in path].index(side) + 1]
        named = {name for queue in below for name in queue.guaranteed_resources}
        return frozenset(
            name
            for name in unit.uses - named - set(devices)
            if unit.usage[name] <= sum(self._beside(pod, devices, name) for pod in unit.pods)
        )

    def _beside(self, pod: Pod, devices: Sequence[str], name: str) -> int:
        """The part of a resource that belongs to the devices of a pod on its node."""
        state = self._session.nodes.get(pod.node) if pod.node is not None else None
        if state is None:
            return 0
        used, has = charged_for(pod), state.node.allocatable
        return max(used.get(each, 0) * -(-has.get(name, 0) // max(1, has.get(each, 0))) for each in devices)

    # --- a start --------------------------------------------------------------------------------------------

    def _within(
        self, beneficiary: Beneficiary, side: QueueName, selector: Selector | None, *, is_scaled: bool
    ) -> frozenset[str]:
        """The resources in which the usage of the side and the requests are within the guarantee."""
        share, used = self._session.fair_shares.of(side, selector), self._session.ledger.usage(side, selector)
        guarantee, requested = share.rounded_down if is_scaled else share.written, beneficiary.requested
        return frozenset(
            name
            for name in resources_of(requested)
            if used.get(name, 0) + requested[name] <= guarantee.get(name, 0)
        )

    def _gaps_of(
        self, beneficiary: Beneficiary, side: QueueName, name: str
    ) -> Iterator[tuple[int, Selector | None]]:
        """What must be freed of a resource, for each guarantee that is as large as the request."""
        asked, ledger = beneficiary.requested[name], self._session.ledger
        confined = (each for each in ledger.guaranteed(side) if self._is_confined(beneficiary, each))
        for selector in (None, *confined):
            guarantee = self._session.fair_shares.of(side, selector).written.get(name, 0)
            if asked <= guarantee:
                beyond = max(0, ledger.usage(side, selector).get(name, 0) + asked - guarantee)
                if beyond <= asked or self._would_cover(beneficiary, side, selector, name):
                    yield min(asked, beyond), selector

    def _would_cover(
        self, beneficiary: Beneficiary, side: QueueName, selector: Selector | None, name: str
    ) -> bool:
        """Whether the guarantee of the side would cover the gang if it ran beside all that runs."""
        is_covered, asked = False, beneficiary.requested[name]
        for queue in self._session.queues.path(beneficiary.gang.queue):
            place = (True, not is_covered, False, rank(beneficiary.gang))
            covered = self._covered_on(queue.name, selector, name)
            turn_of = self._turns(queue.name, selector, name)
            before = sum(
                unit.usage[name]
                for unit in self._units_below(queue.name)
                if unit.pods[0].uid in covered and (*turn_of(unit), unit.is_surplus, rank(unit.gang)) < place
            )
            guarantee = self._session.fair_shares.of(queue.name, selector).written.get(name, 0)
            is_covered = before + asked <= guarantee
            if queue.name == side:
                return is_covered
        return False

    def _is_confined(self, beneficiary: Beneficiary, selector: Selector) -> bool:
        """Whether no node outside the flavor could take any of its pods if nothing else ran."""
        fits_elsewhere = self._session.fair_shares.fits_elsewhere
        return not any(fits_elsewhere(selector, pod) for pod in beneficiary.pod_kinds)

    # --- running gangs --------------------------------------------------------------------------------------

    def _forget_outdated(self) -> None:
        """Forget answers from before other pods were placed, or assumed to have ended."""
        gangs, ended = self._session.gangs_after_starts, self._session.ended_version
        if gangs is not self._gangs or ended != self._ended:
            self._gangs, self._ended = gangs, ended
            self._units, self._in_order, self._covered, self._resources = {}, {}, {}, {}

    def _covered_on(self, queue: QueueName, selector: Selector | None, name: str) -> frozenset[PodUid]:
        """The pods that the guarantee of a resource covers, over all nodes or on those of a flavor."""
        key = (queue, selector, name)
        if key not in self._covered:
            self._covered[key] = frozenset(self._cover(queue, selector, name))
        return self._covered[key]

    def _cover(self, queue: QueueName, selector: Selector | None, name: str) -> Iterator[PodUid]:
        left = self._session.fair_shares.of(queue, selector).written.get(name, 0)
        if left <= 0:
            return
        nodes = None if selector is None else self._session.ledger.nodes_of(selector)
        units = [unit for unit in self._units_below(queue) if uses_only_on(nodes, unit, name)]
        if sum(unit.usage[name] for unit in units) > left:
            units.sort(key=self._turns(queue, selector, name))
        uncovered: set[GangId] = set()
        for unit in units:
            if unit.usage[name] > left or (unit.is_surplus and unit.gang.id in uncovered):
                uncovered.add(unit.gang.id)
                continue
            left -= unit.usage[name]
            yield from (pod.uid for pod in unit.pods)

    def _turns(
        self, queue: QueueName, selector: Selector | None, name: str
    ) -> Callable[[Unit], tuple[bool, bool]]:
        """The order in which a guarantee covers units, before the order of the queue."""
        children = self._session.queues.children(queue)
        first = {uid for child in children for uid in self._covered_on(child.name, selector, name)}
        kept = {gang.id for gang in self._kept_below(queue, selector, name)}
        return lambda unit: (unit.gang.id not in kept, unit.pods[0].uid not in first)

    def _kept_below(self, queue: QueueName, selector: Selector | None, name: str) -> Iterator[Gang]:
        """The protected gangs for which the queue, or one between it and theirs, names a guarantee."""
        for gang in (self._gangs[gang_id] for gang_id in self._session.protected_gangs):
            path = self._session.queues.path(gang.queue)
            index = next((index for index, each in enumerate(path) if each.name == queue), None)
            if index is not None and names_guarantee(path[: index + 1], selector, name):
                yield gang

    def _units_below(self, queue: QueueName) -> list[Unit]:
        """The units of the queue and its descendants in queue order, surplus members last."""
        if not self._in_order:
            for gang in sorted(self._gangs.values(), key=rank):
                units = self._units_of(gang)
                for above in self._session.queues.path(gang.queue) if units else ():
                    self._in_order.setdefault(above.name, []).extend(units)
            for each in self._in_order.values():
                each.sort(key=lambda unit: unit.is_surplus)
        return self._in_order.get(queue, [])

    def _units_of(self, gang: Gang) -> list[Unit]:
        if gang.id not in self._units:
            gang = self._gangs.get(gang.id, gang)
            self._units[gang.id] = list(units_of(gang, self._holders(gang)))
        return self._units[gang.id]

    def _holders(self, gang: Gang) -> list[Pod]:
        """The members that hold nodes, are charged to the queue, and stay."""
        ended, scheduler = self._session.assumed_ended, self._session.config.scheduler_name
        return [
            pod
            for pod in gang.members
            if pod.holds_node
            and not pod.deleting
            and pod.scheduler_name == scheduler
            and pod.uid not in ended
            and self._session.pod_state(pod) is not PodState.RELEASING
        ]


def _coverage(uses: frozenset[str], covered: Collection[str], short: frozenset[str]) -> Coverage:
    counted = short & uses
    if counted and counted.issubset(covered):
        return Coverage.FULL
    if (devices_of(uses) or uses).isdisjoint(covered):
        return Coverage.NONE
    return Coverage.PARTIAL if counted else Coverage.FULL


class _Queues(Protocol):
    @property
    def queues(self) -> QueueTree: ...


def below_common_ancestor(queue: QueueName, other: QueueName, view: _Queues) -> list[Queue]:
    shared = {ancestor.name for ancestor in view.queues.path(other)}
    return [ancestor for ancestor in view.queues.path(queue) if ancestor.name not in shared]
