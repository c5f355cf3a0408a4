"""The history of slots in act 1: which pod held which slot when."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from phalanx_simulator.demos.failure import DemoFailed


class Held(Struct, frozen=True):
    """A slot in use by a job; `trains` if all pods of the job run."""

    job: str
    trains: bool


class PodOnNode(Struct, frozen=True):
    """A pod that occupies its node."""

    name: str
    node: str
    job: str


Slots = tuple[Held | None, ...]
"""What each slot holds, in the order of the nodes; None is a free slot."""


class SlotHistory:
    """Assigns each pod a slot of its node while it stays, and records all slots by time.

    Raises DemoFailed when a node holds more pods than it has slots.
    """

    def __init__(self, *, nodes: Sequence[str], per_node: int) -> None:
        self.nodes: Final = tuple(nodes)
        self.per_node: Final = per_node
        self._slot_of: dict[str, int] = {}
        self._seen: list[tuple[float, Slots]] = [(0.0, (None,) * (len(nodes) * per_node))]

    @property
    def now(self) -> Slots:
        """The last recorded slots."""
        return self._seen[-1][1]

    def at(self, seconds: float) -> Slots:
        """The slots as they were then."""
        return next(slots for when, slots in reversed(self._seen) if when <= max(0.0, seconds))

    def note(self, seconds: float, pods: Sequence[PodOnNode], *, training: Mapping[str, object]) -> None:
        """Record the pods on nodes at this time, and the jobs that train."""
        present = {pod.name for pod in pods}
        self._slot_of = {name: slot for name, slot in self._slot_of.items() if name in present}
        held: list[Held | None] = [None] * len(self.now)
        for pod in pods:
            held[self._slot(pod)] = Held(job=pod.job, trains=pod.job in training)
        if tuple(held) != self.now:
            self._seen.append((seconds, tuple(held)))

    def _slot(self, pod: PodOnNode) -> int:
        if pod.name not in self._slot_of:
            first = self.nodes.index(pod.node) * self.per_node
            taken = set(self._slot_of.values())
            free = [slot for slot in range(first, first + self.per_node) if slot not in taken]
            if not free:
                raise DemoFailed(f"{pod.node} holds more than {self.per_node} pods")
            self._slot_of[pod.name] = free[0]
        return self._slot_of[pod.name]
