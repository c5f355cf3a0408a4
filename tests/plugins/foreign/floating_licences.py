"""The cluster has three of each licence that pods name in the annotation `acme.example/licence`."""

from collections.abc import Mapping, Sequence

from phalanx.model.api import core
from phalanx.model.names import NodeName
from phalanx.model.nodes import NodeState
from phalanx.model.pods import Pod
from phalanx.model.reasons import Reason
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.supply import Decided, SessionSupply, SharedAmounts, Supply

LICENCE, IN_CLUSTER, PLENTY = "acme.example/licence", 3, 1 << 20


class Floating(SessionSupply):
    names = ("floating",)
    reason = Reason.INSUFFICIENT_CAPACITY
    next_step = "Wait until other pods return their licences, or buy more"

    def __init__(self, nodes: Mapping[NodeName, NodeState], snapshot: Snapshot, decided: Decided) -> None:
        self._nodes, self._decided = nodes, decided
        self._shapes = {pod.uid: pod.shape for gang in snapshot.gangs.values() for pod in gang.members}

    def shared_amounts(self, pods: Sequence[Pod]) -> list[SharedAmounts]:
        names = sorted(
            {name for pod in pods for name, _ in pod.shape.supplied if name.startswith("floating[")}
        )
        return [SharedAmounts(name, {name: IN_CLUSTER - self._used(name)}) for name in names]

    def _used(self, name: str) -> int:
        running = sum(-state.free.get(name, 0) for state in self._nodes.values())
        binds = [bind for placement in self._decided.placements for bind in placement.binds]
        return running + sum(dict(self._shapes[bind.pod].supplied).get(name, 0) for bind in binds)


class FloatingLicences(Supply):
    name = "floating"

    def requests(self, pod: core.Pod, wrong: list[str]) -> dict[str, int]:
        wanted = pod.metadata.annotations.get(LICENCE)
        return {self.resource(wanted): 1} if wanted else {}

    def reads(self, pod: core.Pod) -> str | None:
        return pod.metadata.annotations.get(LICENCE)

    def offered(self, resource: str) -> int:
        return PLENTY

    def amount(self, resource: str, number: int, *, up: bool = False) -> str:
        return f"{number} floating licences of {self.what(resource)}"

    def join(
        self, snapshot: Snapshot, nodes: Mapping[NodeName, NodeState], decided: Decided
    ) -> Floating | None:
        return Floating(nodes, snapshot, decided)
