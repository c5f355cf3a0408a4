"""What the supplies that have joined a session say together."""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from phalanx.model.gangs import Gang
from phalanx.model.pods import Pod
from phalanx.model.supplies.supply import Projection, SessionSupply


def key_of(supplies: Sequence[SessionSupply], gang: Gang, pods: Sequence[Pod]) -> tuple[Hashable, ...]:
    """Equal while what nodes have of supplies for these pods of the gang follows in the same way."""
    keys = [supply.key(gang, pods) for supply in supplies]
    return tuple(keys) if any(keys) else ()


def are_bounded(supplies: Sequence[SessionSupply]) -> bool:
    """Whether projections are bounded for the present problem only."""
    return any(supply.is_bounded for supply in supplies)


@contextmanager
def only_certain(supplies: Sequence[SessionSupply]) -> Iterator[None]:
    """Within this context, nodes have of supplies only what suffices for certain."""
    with ExitStack() as stack:
        for supply in supplies:
            stack.enter_context(supply.only_certain())
        yield


def projections_in(supplies: Sequence[SessionSupply], projections: Sequence[Projection]) -> list[Projection]:
    """The projections that another session made, with what the one with these supplies has left."""
    found = list(projections)
    for supply in supplies:
        found = [supply.here(projection) for projection in found]
    return found
