"""When gangs that run are expected to end, from what their PodGroups say of their run time.

Nobody ends a gang that runs longer than it said. One that has outlived what was told of it is expected to run
twice as long, then four times, and so on: so a wrong run time moves an expected end, but never removes it.
"""

from msgspec import Struct

from phalanx.limits import DELETION_EXPECTED_MS
from phalanx.model.gangs import Gang, Runtime


class End(Struct, frozen=True):
    """Milliseconds since the epoch, all after now: `likely` <= `at` <= `latest`.

    `at` is planned with: by the maximum run time, else by the estimate. `likely` goes by the estimate where
    there is one. `latest` leaves an estimate without a maximum as much time again. `is_bound`: nothing but a
    maximum run time that has not passed counts.
    """

    at: int
    likely: int
    latest: int
    is_bound: bool


def end_of_gang(gang: Gang, now: int) -> End | None:
    """When the room of a gang with a node is expected back; None where nothing is told of its run time."""
    holding = [pod for pod in gang.members if pod.holds_node]
    if holding and all(pod.deleting for pod in holding):
        soon = now + DELETION_EXPECTED_MS
        return End(soon, soon, soon, is_bound=False)
    return end_if_placed(gang, now)


def end_if_placed(gang: Gang, now: int) -> End | None:
    """When members that got a node now would end, together with those that have one.

    A gang begins when a kubelet takes its first member that is left; until then it has not begun.
    """
    left = [pod for pod in gang.members if pod.holds_node and not pod.deleting]
    known = [pod.running_since * 1000 for pod in left if pod.running_since]
    return end_of_run(gang.runtime, begun=min([now, *known]), now=now)


def end_of_run(runtime: Runtime, *, begun: int, now: int) -> End | None:
    """When a run that began then is expected to end; None where nothing is told of how long it takes."""
    told = runtime.max_ms or runtime.estimate_ms
    if not told:
        return None
    at = _next_end(begun, told, now)
    likely = min(at, _next_end(begun, runtime.estimate_ms or told, now))
    if runtime.max_ms:
        return End(at, likely, at, is_bound=begun + runtime.max_ms > now)
    return End(at, likely, at + (at - begun), is_bound=False)


def _next_end(begun: int, told: int, now: int) -> int:
    """The told run time, doubled until it has not passed."""
    while begun + told <= now:
        told *= 2
    return begun + told
