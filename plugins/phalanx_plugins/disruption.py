"""Protects gangs from eviction as their `spec.disruption` says: always, or for a minimum run time.

`preemptible: false` protects gangs as far as they fit, all together, into the written guarantees of their
queue and its ancestors; the gangs that started first count first. So neither a change of a running gang nor a
pod that was bound by hand is protected beyond. Queues without a guarantee do not limit it.

A minimum run time counts up to `disruption.maxMinRuntime` of the queue, so that no gang keeps borrowed
capacity for longer. The longest `reclaim.minRuntime` of the queue and its ancestors protects the gang from
gangs of other queues. A gang with a member that has succeeded is protected for the same maximum from the end
of that member, since its other members may never be created again.

The time starts when the gang starts, which is when its first pods are bound. It does not start again for new
members, and it passes while no pod runs. The protection applies to evictions for other gangs, not to the
recovery of the gang itself.
"""

from collections.abc import Iterable, Iterator

from phalanx.framework.plugin import NEVER, Plugin
from phalanx.framework.queues.ledger import Account
from phalanx.framework.statement import total_requests
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId
from phalanx.model.queues import Queue, max_min_runtime_ms
from phalanx.model.resources import NONE, Resources, add


class DisruptionProtection(Plugin):
    """`disruption.preemptible`, `disruption.minRuntime`, and `reclaim.minRuntime` of queues."""

    name = "disruption"

    def __init__(self) -> None:
        self._guaranteed: frozenset[GangId] | None = None

    def protected_until(self, victim: Gang, beneficiary: Gang, view: SessionView) -> int:
        """The earliest time (ms) of an eviction."""
        if not victim.disruption.is_preemptible and victim.id in self._not_preemptible(view):
            return NEVER
        path = view.queues.path(victim.queue)
        most = max_min_runtime_ms(path)
        runtime = min(victim.disruption.min_runtime_ms, most)
        if victim.queue != beneficiary.queue:
            runtime = max([runtime, *(queue.reclaim_min_runtime_ms for queue in path)])
        running = _began(victim, view) + runtime if runtime else 0
        return max(running, _first_success(victim) + most if victim.is_finishing else 0)

    def _not_preemptible(self, view: SessionView) -> frozenset[GangId]:
        """The gangs with `preemptible: false` that the guarantees cover."""
        if self._guaranteed is None:
            self._guaranteed = frozenset(_covered(view))
        return self._guaranteed


def _covered(view: SessionView) -> Iterator[GangId]:
    """Take the gangs in the order of their starts, while they fit."""
    gangs = [gang for gang in view.gangs.values() if not gang.disruption.is_preemptible and gang.nodes]
    held: dict[Account, Resources] = {}
    for gang in sorted(gangs, key=lambda each: (_began(each, view), each.created, each.id)):
        path = view.queues.path(gang.queue)
        after = _with(held, gang, view)
        if all(_fits(queue, after) for queue in path):
            held = after
            yield gang.id


def _with(held: dict[Account, Resources], gang: Gang, view: SessionView) -> dict[Account, Resources]:
    totals = dict(held)
    for pod in gang.members:
        if pod.node is not None and pod.holds_node:
            for account in view.ledger.accounts(gang.queue, pod.node):
                totals[account] = add(totals.get(account, NONE), total_requests([pod]))
    return totals


def _fits(queue: Queue, held: dict[Account, Resources]) -> bool:
    """Whether the amounts are within the guarantees that the queue names, on all nodes and per flavor."""
    if not _within(held.get((queue.name, None), NONE), [queue.guarantee]):
        return False
    selectors = {flavor.node_selector for flavor in queue.flavors}
    return all(
        _within(
            held.get((queue.name, selector), NONE),
            [flavor.guarantee for flavor in queue.flavors if flavor.node_selector == selector],
        )
        for selector in selectors
    )


def _within(held: Resources, guarantees: Iterable[Resources]) -> bool:
    return all(
        held.get(name, 0) <= amount
        for guarantee in guarantees
        for name, amount in guarantee.items()
        if amount
    )


def _began(gang: Gang, view: SessionView) -> int:
    """When the gang started (ms); now if its first pods are about to be bound, 0 if nothing is known."""
    holding = [pod for pod in gang.members if pod.holds_node and not pod.assumed]
    if not holding:
        return view.now
    times = [gang.started_at, *(pod.bound_since or pod.running_since or pod.created for pod in holding)]
    return min([at for at in times if at], default=0) * 1000


def _first_success(gang: Gang) -> int:
    """When the first member succeeded (ms); 0 if unknown."""
    return min([pod.ran[1] for pod in gang.members if pod.ran is not None], default=0) * 1000
