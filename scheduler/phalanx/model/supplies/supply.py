"""The interface of a supply: something that every node offers, and that nodes do not list.

What a pod uses of it is an amount of a resource beside its requests. The name of the resource is the name of
the supply and what it is about, such as `port[TCP:8080]`. So usage adds up like that of any other resource:
pods of all schedulers count, and the end of a pod gives it back. The free amount of a resource that is used
is negative, and `offered` is what every node offers. Queues are not charged.

Some nodes consist of parts, such as NUMA zones or shared GPUs: that the sums of their amounts suffice is not
enough, since a pod must find all that it needs in one part. Such a supply is opened for the nodes of a
session (`OpenSupply`). What pods take of parts are amounts too, so a statement undoes it.

What nodes have of some supplies follows from the whole snapshot and from the placements of the cycle, such as
volumes that several nodes can mount. Such a supply joins the session (`SessionSupply`).
"""

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from phalanx.model.api import core
from phalanx.model.decisions import Bind, Placement
from phalanx.model.gangs import Gang
from phalanx.model.names import NodeName, PodUid, QueueName
from phalanx.model.nodes import Node, NodeState
from phalanx.model.pods import Assignments, Device, Pod, PodShape
from phalanx.model.reasons import Objection, Reason
from phalanx.model.resources import NONE, Need, Resources
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.part import SupplyPart

Parts = Mapping[PodUid, Device]
"""The part of its node that each pod gets, of those that get a certain one."""

NO_PARTS: Final[Parts] = {}


class PartsLacking(Exception):
    """The parts of a node have too little for some pods."""


class SharedAmounts(Struct, frozen=True):
    """What several nodes have of a supply together; all of them if `nodes` is None."""

    name: str
    remaining: Resources
    nodes: frozenset[NodeName] | None = None


class SupplyLacking(Exception):
    """What the session knows of a supply does not suffice for the pods of a placement together."""


class Write(Protocol):
    """Changes what a session knows, so that a statement can undo it."""

    def __call__(
        self, table: dict[Any, Any], key: object, value: object, nodes: Collection[NodeName] = (), /
    ) -> None:
        """`nodes`: those that have other amounts then."""
        ...


K = TypeVar("K")


class Decided(Protocol):
    """The session that a supply joins, with its placements so far."""

    def kept(self, kind: type[K]) -> K:
        """What the supply keeps from session to session."""
        ...

    def pods_that_fit(self, pod: Pod, node: Node, besides: Resources) -> int:
        """How many such pods the node may run beside these amounts, if only its amounts count."""
        ...

    @property
    def placements(self) -> Sequence[Placement]: ...

    @property
    def placements_version(self) -> int:
        """Equal while the placements are the same."""
        ...


class Projection(Protocol):
    """Amounts that add up instead of parts, since the solver knows no parts of nodes. Pods fit a node if the
    sum of their amounts is free."""

    def request(self, pod: Pod, requests: Resources) -> Resources:
        """These requests of the pod, with the projected amounts."""
        ...

    def free(self, state: NodeState, free: Resources) -> Resources:
        """These free amounts of the node, with the projected ones."""
        ...


class Supply:
    """One kind. Subclasses have a `name` and say what nodes offer; the rest has a default."""

    name: str
    """The first part of the names of its resources."""

    prefixes: tuple[str, ...] = ()
    """What names of its resources may begin with instead."""

    requested: tuple[str, ...] = ()
    """Resources that pods request of it as of any other: nodes list them, and queues are charged."""

    part: type[SupplyPart] | None = None
    """What snapshots have of it, if kinds of the API of its own describe it."""

    is_chosen_by_kubelet: bool = False
    """Whether the kubelet chooses the parts when a pod starts: then what the pod uses gets another name, and
    who keeps its devices needs no more of it."""

    def resource(self, what: str) -> str:
        """The resource for something of this kind."""
        return f"{self.name}[{what}]"

    def what(self, resource: str) -> str:
        """What the resource is about."""
        return resource[len(self.name) + 1 : -1]

    def requests(self, pod: core.Pod, wrong: list[str]) -> Mapping[str, int]:
        """What a pod uses, by resource, as far as the pod itself tells it. Errors are appended to `wrong`."""
        return NONE

    def reads(self, pod: core.Pod) -> Hashable:
        """What `requests` reads of the pod beside its containers and `hostNetwork`: equal pods request the
        same."""
        return None

    def offered(self, resource: str) -> int:
        """What every node offers of the resource. A pod that needs all of it shares it with no other one."""
        raise NotImplementedError

    def text(self, resource: str) -> str:
        """The resource without an amount, such as "port 8080"."""
        return f"{self.name} {self.what(resource)}"

    def amount(self, resource: str, number: int, *, up: bool = False) -> str:
        """An amount of the resource; tenths are rounded up or down. By default it is not counted."""
        return self.text(resource)

    def shortage(self, resource: str) -> str:
        """Why a pod does not get what it needs of the resource on a node."""
        return f"{self.text(resource)} is in use"

    def is_shown(self, resource: str, number: int) -> bool:
        """Whether lists of amounts name this one. By default they leave out what pods share."""
        return number >= self.offered(resource)

    # --- parts of nodes -----------------------------------------------------------------------------------

    def need(self, shape: PodShape) -> Need | None:
        """What such pods need of a part of their node; None for nothing."""
        return None

    def contradiction(self, needs: Mapping[Need, str]) -> Objection | None:
        """Why pods with these needs cannot be placed together, given the name of a pod for each."""
        return None

    def usage(self, shape: PodShape, part: Device | None, *, runs: bool) -> Resources:
        """What such a pod uses of parts of its node, if it has this one; `runs`: whether it has started."""
        return NONE

    def is_foreseen(self, resource: str, node: Node) -> bool:
        """Whether the sum that will be free of the resource later tells that parts of the node will be."""
        return True

    def is_safety(self, resource: str) -> bool:
        """Whether the projected amount keeps pods of different needs apart that might fit together."""
        return False

    def open(self, nodes: Sequence[Node]) -> "OpenSupply | None":
        """What a session with these nodes knows of their parts; None if no node has parts. Then the supply
        costs nothing."""
        return None

    # --- parts of snapshots -------------------------------------------------------------------------------

    def counts_for(self, gang: Gang) -> bool:
        """Whether the changes that `Snapshot.supply_versions` counts for this supply may help the gang."""
        return False

    def emptied(self, snapshot: Snapshot) -> SupplyPart:
        """The part of the snapshot in which no pod uses anything."""
        raise NotImplementedError

    def completes(self, snapshot: Snapshot) -> bool:
        """Whether amounts of nodes follow from the part of the snapshot."""
        return False

    def completed(self, snapshot: Snapshot, decided: Decided) -> Snapshot:
        """The snapshot with these amounts."""
        return snapshot

    def join(
        self, snapshot: Snapshot, nodes: Mapping[NodeName, NodeState], decided: Decided
    ) -> "SessionSupply | None":
        """What a session with this snapshot knows of it; None, which costs nothing, if no pod needs it."""
        return None

    def objection(self, pod: Pod, state: NodeState, beside: Callable[[], Iterable[Pod]]) -> str | None:
        """Why a pod may not be bound as it was decided, to the node on which it is assumed. `beside`: all
        pods of its placement there."""
        return None


class OpenSupply:
    """A supply whose nodes have parts, in one session. Subclasses override what they need."""

    is_exact: bool = True
    """Whether the projection of pods of different needs is exact. Else it may leave nodes out."""

    unit: str
    """What a pod must find its capacity in, such as "GPUs"."""

    def __init__(self, supply: Supply) -> None:
        self.need = supply.need

    def project(self, shapes: Sequence[PodShape]) -> Projection:
        """The projection for these pods, some of which need parts."""
        raise NotImplementedError

    def take(self, state: NodeState, free: Resources, pods: Sequence[Pod], parts: Parts) -> Parts:
        """The parts that these pods take of a node with these free amounts: the given ones, else the best.

        Raises PartsLacking.
        """
        return NO_PARTS

    def lacking(self, shape: PodShape, state: NodeState, free: Resources) -> str | None:
        """Why no part of the node has enough for such a pod; None if one has, or if other amounts of the node
        are too small."""
        return None

    def is_fragmented(self, shape: PodShape, state: NodeState, free: Resources) -> bool:
        """Whether fewer such pods fit the parts than the amounts of the node."""
        return False

    def usable(self, state: NodeState, free: Resources) -> Resources:
        """Amounts that pods can use in parts, if they are not those of the node."""
        return NONE


class SessionSupply:
    """A supply of which a session knows what nodes have. Subclasses override what they need."""

    names: tuple[str, ...] = ()
    """The first parts of the names of its resources."""

    reason: Reason
    """Why a gang waits for it."""

    frees_amounts: bool = True
    """Whether pods that end free the projected amounts that they use."""

    counts_for_users: bool = True
    """Whether amounts of it tell users what is missing."""

    next_step: str
    """What helps such a gang."""

    def with_needs(self, gang: Gang) -> Gang:
        """The gang with what its members need in their shapes."""
        return gang

    def pod_with_needs(self, pod: Pod) -> Pod:
        """The pod with what it needs in its shape."""
        return pod

    def objection(self, gang: Gang) -> Objection | None:
        """Why waiting members of the gang cannot get what they need, whatever is free."""
        return None

    def project(self, shapes: Sequence[PodShape]) -> Projection | None:
        """What nodes have now of what these pods need; None if they need nothing."""
        return None

    def here(self, projection: Projection) -> Projection:
        """The projection that another session made, with what this one has left."""
        return projection

    def key(self, gang: Gang, pods: Sequence[Pod]) -> Hashable:
        """Equal while what nodes have for these pods of the gang follows in the same way."""
        return ()

    @property
    def is_bounded(self) -> bool:
        """Whether the projection is bounded for the present problem only."""
        return False

    def only_certain(self) -> AbstractContextManager[None]:
        """Within this context, nodes have only what suffices for certain."""
        return nullcontext()

    def shared_amounts(self, pods: Sequence[Pod]) -> Sequence[SharedAmounts]:
        """What several nodes have together now of what these pods need."""
        return ()

    def has_some(self, resources: Iterable[str]) -> bool:
        """Whether some of these resources are of this supply."""
        return any(name.partition("[")[0] in self.names for name in resources)

    def complete(self, binds: list[Bind], assignments: Assignments) -> list[Bind]:
        """The binds of these assignments with what the pods get. Raises SupplyLacking."""
        return binds

    def take(self, binds: list[Bind], assignments: Assignments, write: Write) -> list[Bind]:
        """The completed binds. What several cycles or statements share is changed by `write`."""
        return self.complete(binds, assignments)

    def hold(self, assignments: Assignments, write: Write) -> Mapping[PodUid, Any]:
        """Takes something for members that do not exist yet, and returns what for which."""
        return NO_PARTS

    def release(self, assignments: Assignments, held: Mapping[PodUid, Any], write: Write) -> None:
        """Releases what was held for such members."""

    def give_up(self, binds: Sequence[Bind], write: Write) -> None:
        """Takes back what pods got in this cycle: they wait again."""

    def end(self, gone: Sequence[Pod], ended: Container[PodUid], write: Write) -> None:
        """These pods are assumed to have ended, as `ended` ones were before."""

    def charges_moved(
        self, gone: Sequence[Pod], ended: Container[PodUid]
    ) -> Iterable[tuple[QueueName, NodeName, Resources]]:
        """What queues are charged instead when these pods have ended, by node."""
        return ()

    def lacking(self, assignments: Assignments) -> str | None:
        """Why these pods cannot all get what they need; None if they can. Amounts are not always exact."""
        try:
            self.complete([], assignments)
        except SupplyLacking as lacking:
            return str(lacking)
        return None

    def lacking_on(self, shape: PodShape, node: Node) -> str:
        """Why the node has nothing for such a pod, if amounts do not tell it; empty if it has."""
        return ""

    def missing(self, batches: Sequence[Sequence[Pod]], nodes: Callable[[Pod], Iterable[Node]]) -> str:
        """What these pods lack on all nodes together, if amounts do not tell it; empty for nothing. `nodes`:
        those that are eligible for a pod."""
        return ""

    def needed(self, pods: Sequence[Pod]) -> str:
        """What these pods need beside amounts, as text; empty for nothing."""
        return ""

    def is_estimated(self, shapes: Sequence[PodShape]) -> bool:
        """Whether of pods that differ only those count that fit for certain."""
        return False

    def shortage(self, resource: str, node: NodeName) -> str | None:
        """Why the node has too little of a resource, if this supply knows more than `Supply.shortage`."""
        return None
