"""Of equal gangs of one namespace, evict those first that do not ask to stay.

`disruption.preemptible: false` may be not in force. Then it is a preference of a tenant about its own gangs:
of gangs of one namespace and queue with the same priority and the same devices, one that does not ask for it
goes first, however long it has run. Units of such gangs exchange their costs for this: those that do not ask
get the lowest ones. So for all other gangs the namespace is as expensive as before.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from phalanx.actions.preemption.victims import Victim
from phalanx.model.charges import total_charges
from phalanx.model.resources import Resources

Devices = tuple[tuple[str, int], ...]


def with_exchanged_costs(victims: Sequence[Victim]) -> list[Victim]:
    """The victims, with the costs exchanged among equal ones of which some ask to stay."""
    found = list(victims)
    asking = {each.gang.namespace for each in victims if each.gang.prefers_to_stay}
    equals: dict[object, list[int]] = {}
    for index, victim in enumerate(victims):
        if victim.gang.namespace in asking:
            equals.setdefault(_kind(victim), []).append(index)
    for indices in equals.values():
        for index, cost in _exchanged(victims, indices):
            found[index] = replace(victims[index], cost=cost)
    return found


def _kind(victim: Victim) -> object:
    """Equal for units of equal gangs."""
    gang = victim.gang
    held = total_charges([pod for pod in gang.members if pod.holds_node])
    return (gang.namespace, gang.queue, gang.priority, _devices(held), _devices(victim.total), victim.whole)


def _devices(amounts: Resources) -> Devices:
    return tuple(sorted((name, amount) for name, amount in amounts.items() if "/" in name))


def _exchanged(victims: Sequence[Victim], indices: Sequence[int]) -> Iterable[tuple[int, int]]:
    """The lowest costs for those that do not ask to stay; each other one costs more than all of these."""
    costs = sorted(victims[index].cost for index in indices)
    asking = [index for index in indices if victims[index].gang.prefers_to_stay]
    others = [index for index in indices if not victims[index].gang.prefers_to_stay]
    yield from zip(sorted(others, key=lambda index: victims[index].cost), costs, strict=False)
    least = costs[len(others) - 1] + 1 if others else 0
    for index, cost in zip(
        sorted(asking, key=lambda index: victims[index].cost), costs[len(others) :], strict=True
    ):
        yield index, max(cost, least)
