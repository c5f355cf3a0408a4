"""What the waiting gangs of a queue request that a cycle does not look at."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from phalanx.framework.queues.division import Bundles
from phalanx.model.pods import Pod
from phalanx.model.resources import Resources


class UnseenDemand(Struct, frozen=True):
    """The sums over the pods that each of these gangs lacks to its minimum."""

    since: int
    """The creation (s) of the oldest gang. Gangs that the cycle looks at may be among those compared."""
    bundles: Bundles
    by_pods: Mapping[frozenset[str], Resources]
    """By the names of what a pod requests, the sums over such pods."""
    gangs: Callable[[], Iterable[tuple[Sequence[Pod], int]]]
    """The pods of each gang, and how many equal gangs there are. Only flavors need them one by one."""
