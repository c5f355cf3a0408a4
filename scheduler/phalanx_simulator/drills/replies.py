"""F3: requests of an operation get every faulty reply at their first occurrences."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from phalanx.model.api.kinds import KINDS, WATCHED_KINDS

from phalanx_simulator.drills.drill import Fault, Outcome, Plan, Strike
from phalanx_simulator.drills.operations import Operation
from phalanx_simulator.hosts.network import WATCH, Effect, Rule
from phalanx_simulator.runs.world import World

_STATUSES: Final = (401, 403, 404, 409, 410, 422, 429, 500, 503, 504)
_OCCURRENCES: Final = (0, 1, 5, 15)
_IN_A_ROW: Final = (1, 4)
_SLOW_S: Final = (1.0, 60.0)


class Reply(Struct, frozen=True):
    """One faulty reply."""

    name: str
    effect: Effect
    status: int = 500
    slow_s: float = 0.0


REPLIES: Final = (
    *(Reply(f"{status}", Effect.REFUSED, status) for status in _STATUSES),
    Reply("500 although applied", Effect.APPLIED_BUT_REFUSED, 500),
    Reply("504 although applied", Effect.APPLIED_BUT_REFUSED, 504),
    Reply("reset before sending", Effect.NOT_SENT),
    Reply("lost", Effect.LOST),
    Reply("lost although applied", Effect.APPLIED_BUT_LOST),
    *(Reply(f"late by {seconds:.0f} s", Effect.SLOW, slow_s=seconds) for seconds in _SLOW_S),
)


def reply_plans(operation: Operation, *, seed: int, undisturbed: Outcome) -> Iterator[Plan]:
    """A plan for each kind of request of the undisturbed run, each occurrence and each reply."""
    counts: dict[tuple[str, str], int] = {}
    for method, path in undisturbed.requests:
        sort = (method, _sort_of(path))
        counts[sort] = counts.get(sort, 0) + 1
    for kind in _WATCHED:
        counts[WATCH, kind] = 1
    for (method, part), count in counts.items():
        for occurrence in (number for number in _OCCURRENCES if number < count):
            for reply in REPLIES:
                for times in _IN_A_ROW:
                    name = f"{operation.name}: {method} {part} #{occurrence} x{times}: {reply.name}"
                    yield Plan(
                        name, operation, seed, Fault(_on_request(method, part, occurrence, reply, times))
                    )


def _on_request(method: str, part: str, occurrence: int, reply: Reply, times: int) -> Strike:
    def strike(world: World) -> None:
        for replica in world.replicas:
            if replica.process is not None:
                rule = Rule(
                    effect=reply.effect,
                    methods=(method,),
                    path_part=part,
                    status=reply.status,
                    retry_after_s=1 if reply.status == 429 else None,
                    slow_s=reply.slow_s,
                    skip=occurrence,
                    times=times,
                )
                replica.process.network.rules.append(rule)
                if method == WATCH:
                    replica.process.network.cut_watches(part)

    return strike


def _sort_of(path: str) -> str:
    """The path part that identifies this kind of request: resource and subresource."""
    found = re.search(r"/(binding|status|eviction)$", path)
    if found is not None:
        return found.group(0)
    return next((kind for kind in _WRITTEN if kind in path), path)


_WATCHED: Final = tuple(f"/{KINDS[name].plural}" for name in WATCHED_KINDS if not KINDS[name].optional)
_WRITTEN: Final = ("/leases", "/configmaps", "/events", "/podgroups", "/queues", "/pods", "/nodes")
