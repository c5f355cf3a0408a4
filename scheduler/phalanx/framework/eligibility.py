"""Where pods of one shape may run and what they cost there, asked of the plugins once per shape and cycle."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from phalanx.model.names import NodeName
from phalanx.model.pods import Pod

if TYPE_CHECKING:
    from phalanx.framework.session import Session


class Eligibility(Struct, frozen=True):
    """`rejected`: why a node is out, for those that are. `price`: for nodes where it is not zero."""

    rejected: Mapping[NodeName, str]
    cost: Mapping[NodeName, int]

    def count_by_reason(self) -> tuple[tuple[str, int], ...]:
        """How many nodes each reason rejects, the largest number first."""
        counts = Counter(self.rejected.values())
        return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def judge(pod: Pod, session: "Session") -> Eligibility:
    """Ask every filter and price of the session about pods of this shape."""
    return Eligibility(rejected=_rejected(pod, session), cost=_prices(pod, session))


def _rejected(pod: Pod, session: "Session") -> dict[NodeName, str]:
    filters = [made for each in session.plugins.filters if (made := each.node_filter(pod, session))]
    rejected = {**session.faults, **session.health.distrusted}
    for name, state in session.nodes.items() if filters else ():
        for node_filter in filters if name not in rejected else ():
            reason = node_filter(state.node)
            if reason is not None:
                rejected[name] = reason
                break
    return rejected


def _prices(pod: Pod, session: "Session") -> dict[NodeName, int]:
    makers = [made for each in session.plugins.prices if (made := each.node_cost(pod, session))]
    prices: dict[NodeName, int] = {}
    for name, state in session.nodes.items() if makers else ():
        cost = sum(maker(state.node) for maker in makers)
        if cost:
            prices[name] = cost
    return prices
