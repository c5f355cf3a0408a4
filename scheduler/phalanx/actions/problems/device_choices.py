"""Try other devices for the claims that members of a gang share where the first choice does not place it.

The devices of such claims are chosen before the nodes, by what their users need. What other members need is
not compared then, nor are rules between members. So a demand that does not fit is solved again for other
choices, unless it would not fit even if the claims had devices on each node.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from msgspec import Struct

from phalanx.actions.demands.demand import Demand
from phalanx.actions.problems.pod_assignment import assign_pods
from phalanx.framework.session import Session
from phalanx.model.supplies.devices.session.needs import NOTHING, Need
from phalanx.model.supplies.devices.session.session_devices import claimed_devices, open_devices
from phalanx.model.supplies.devices.session.shared_devices import SharedDevices
from phalanx.solver.answer import Placed

_T = TypeVar("_T")


class Sharing(Struct, frozen=True):
    """What a pod of a gang needs whose pods share claims, and the demand."""

    need: Need
    demand: Demand


def sharing_of(session: Session, demand: Demand) -> Sharing | None:
    """The claims that pods of the gang share; None if they share none."""
    devices = open_devices(session)
    if devices is None or not demand.gang.claims_devices:
        return None
    pods = [batch.pods[0] for batch in demand.batches if batch.pods[0].shape.device_slot]
    needs = [devices.needs.of(pod.shape) for pod in pods]
    need = next((each for each in needs if each.users), NOTHING)
    return Sharing(need, demand) if need.users else None


def keeping_choice(session: Session, sharing: Sharing) -> AbstractContextManager[None]:
    """The present choice is the same after this context."""
    return claimed_devices(session).shared.keeping_choice(sharing.need)


def placed_by_choice(
    session: Session, demand: Demand, solve: Callable[[], Placed | None], *, is_noted: bool = False
) -> Placed | None:
    """The answer for the first choice that places the whole demand, else for the one that places most of it.

    `solve` answers for the present choice. That of the answer is the present one afterwards. `is_noted`: the
    session notes whether other choices might place more.
    """
    sharing = sharing_of(session, demand)
    if sharing is None:
        return solve()

    devices = claimed_devices(session)

    def value(answer: Placed | None) -> int:
        """The pods that it places; one less if their claims cannot all have devices there."""
        if answer is None:
            return 0
        assignments = assign_pods(session, demand, answer.assignments)
        return _placed(answer) - (devices.may_decline(assignments) and devices.allocate(assignments) is None)

    found = best_by_choice(devices.shared, sharing, solve, value, most=_placed)
    if is_noted:
        devices.shared.note(demand.gang.id, is_bounded=found.is_bounded)
    return found.answer


def _placed(answer: Placed | None) -> int:
    return sum(each.count for each in answer.assignments) if answer is not None else 0


class Best(Struct, Generic[_T], frozen=True):
    """An answer, and whether choices that were not tried might have a better one."""

    answer: _T
    is_bounded: bool = False


def best_by_choice(
    shared: SharedDevices,
    sharing: Sharing,
    solve: Callable[[], _T],
    value: Callable[[_T], int],
    *,
    most: Callable[[_T], int],
) -> Best[_T]:
    """The first answer whose value is the number of pods of the demand, else the one of most value.

    `most`: no choice has a larger value, of an answer as if no choice had to be made.
    """
    need, demand = sharing.need, sharing.demand
    best = solve()
    reached = value(best)
    if reached >= demand.count:
        return Best(best)
    with shared.unchosen(need):
        if most(solve()) <= reached:
            return Best(best)
    least: Counter[str] = Counter()
    for batch in demand.batches:
        least[batch.pods[0].shape.device_slot] += batch.minimum
    others = shared.others(need, least)
    choice = shared.chosen(need)
    for other in others.choices:
        shared.choose(need, other)
        answer = solve()
        if value(answer) > reached:
            best, reached, choice = answer, value(answer), other
        if reached >= demand.count:
            return Best(best)
    shared.choose(need, choice)
    return Best(best, is_bounded=not others.is_complete)
