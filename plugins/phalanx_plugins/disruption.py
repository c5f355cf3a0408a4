"""Protects gangs from eviction as their `spec.disruption` says: always, or for a minimum run time.

`preemptible: false` protects gangs where a guarantee of what they use is named on the path of their queue, as
far as they fit, all together, into these written guarantees; the gangs that started first count first. So
neither a change of a running gang nor a pod that was bound by hand is protected beyond. Where no guarantee is
named, it protects only if the queue has `disruption.allowNonPreemptible`: from all gangs but those that stay
inside a guarantee of another queue.

A minimum run time counts up to `disruption.maxMinRuntime` of the queue, so that no gang keeps borrowed
capacity for longer. The longest `reclaim.minRuntime` of the queue and its ancestors protects the gang from
gangs of other queues. A gang of which the first member of its minimum has succeeded is protected for the same
maximum from the end of that member, since its other members may never be created again. That happens once:
later successes protect nobody, nor do those of surplus members and of pods that Phalanx did not bind.

The time starts when the gang starts, which is when its first pods are bound. It does not start again for new
members, and it passes while no pod runs. The protection applies to evictions for other gangs, not to the
recovery of the gang itself.
"""

from collections.abc import Collection

from phalanx.framework.plugin import NEVER, EvictionPolicy, Plugin
from phalanx.framework.queues.guarantees import below_common_ancestor
from phalanx.framework.queues.protected_gangs import start_time
from phalanx.framework.view import SessionView
from phalanx.model.charges import charged_for, total_charges
from phalanx.model.gangs import Gang
from phalanx.model.queues import Queue, max_min_runtime_ms
from phalanx.model.resources import Resources


class DisruptionProtection(Plugin):
    """`disruption.preemptible`, `disruption.minRuntime`, and `reclaim.minRuntime` of queues."""

    name = "disruption"

    def eviction_policy(self, view: SessionView) -> EvictionPolicy:
        return _Protection(view)


class _Protection(EvictionPolicy):
    def protected_until(self, victim: Gang, beneficiary: Gang) -> int:
        """The earliest time (ms) of an eviction."""
        view = self.view
        if self._is_never_evicted(victim, beneficiary):
            return NEVER
        path = view.queues.path(victim.queue)
        most = max_min_runtime_ms(path)
        runtime = min(victim.disruption.min_runtime_ms, most)
        if victim.queue != beneficiary.queue:
            runtime = max([runtime, *(queue.reclaim_min_runtime_ms for queue in path)])
        running = start_time(victim, view.now) + runtime if runtime else 0
        finishing = view.records.of(victim).record.finishing_since
        return max(running, finishing * 1000 + most if finishing else 0)

    def _is_never_evicted(self, victim: Gang, beneficiary: Gang) -> bool:
        view = self.view
        if victim.disruption.is_preemptible or victim.id not in view.protected_gangs:
            return False
        theirs = below_common_ancestor(victim.queue, beneficiary.queue, view)
        return _has_guarantee(victim, theirs) or not _is_within_guarantee(beneficiary, victim, view)


def _has_guarantee(gang: Gang, path: Collection[Queue]) -> bool:
    """Whether one of the queues guarantees something that the gang uses, a device if it uses devices."""
    uses = {name for pod in gang.members if pod.holds_node for name in charged_for(pod)}
    devices = {name for name in uses if "/" in name}
    named = [queue.guarantee for queue in path]
    named += [flavor.guarantee for queue in path for flavor in queue.flavors]
    return any(guarantee.get(name) for guarantee in named for name in devices or uses)


def _is_within_guarantee(gang: Gang, victim: Gang, view: SessionView) -> bool:
    """Whether the waiting gang stays inside a guarantee below the common ancestor of both queues.

    The guarantee must name what the gang requests, a device if it requests devices.
    """
    lacking = max(1, gang.min_member - gang.active)
    requested = total_charges([pod for pod in gang.members if pod.is_waiting][:lacking])
    return any(
        _is_inside(view.fair_shares.of(queue.name, selector).guarantee, used, requested)
        for queue in below_common_ancestor(gang.queue, victim.queue, view)
        for selector in (None, *view.ledger.guaranteed(queue.name))
        for used in [view.ledger.usage(queue.name, selector)]
    )


def _is_inside(guarantee: Resources, used: Resources, requested: Resources) -> bool:
    named = {name: amount for name, amount in requested.items() if amount and guarantee.get(name)}
    needs_device = any("/" in name for name in requested)
    if not named or (needs_device and not any("/" in name for name in named)):
        return False
    return all(used.get(name, 0) + amount <= guarantee[name] for name, amount in named.items())
