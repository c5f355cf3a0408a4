"""What the victims of a gang must free at least, and what counts toward it.

A gang that takes its queue beyond a fair share that others lack must free that by evictions. A start that is
given up together with evictions was never there: its queue has not used its capacity, and it frees nothing.
So giving up a start of the gang's own queue reduces what must be freed, by no more than its use has added.
`docs/guarantees.md` has the rule for users.
"""

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.actions.preemption.victims import Victim
from phalanx.framework.evictions import Beneficiary
from phalanx.framework.queues.guarantees import GuaranteeGap
from phalanx.framework.session import Session
from phalanx.model.names import QueueName
from phalanx.model.resources import NONE, Resources, fits, sum_of


class LeastEvictions(Struct, frozen=True):
    """The least amounts that the victims must free together."""

    amounts: Resources = NONE
    queue: QueueName | None = None
    """The only queue whose starts count; None if all starts count like running gangs."""
    reduced: frozenset[str] = frozenset()
    """The resources in which the starts of this queue count."""
    gaps: tuple[GuaranteeGap, ...] = ()
    """What victims of the gang's own side must free. Starts count like running gangs."""

    def counted(self, victim: Victim) -> Resources:
        """What the victim counts for."""
        if self.queue is None or not victim.is_start:
            return victim.total
        if victim.queue != self.queue:
            return NONE
        return {name: amount for name, amount in victim.total.items() if name in self.reduced}

    def are_reached(self, victims: Collection[Victim]) -> bool:
        """Whether these victims together free enough."""
        if self.amounts and not fits(self.amounts, sum_of(map(self.counted, victims))):
            return False
        return all(fits(gap.amounts, sum_of(freed_for(gap, each) for each in victims)) for gap in self.gaps)


def freed_for(gap: GuaranteeGap, victim: Victim) -> Resources:
    """What the victim frees of what a queue uses beyond its guarantee."""
    if victim.queue not in gap.queues:
        return NONE
    return victim.booked_on(gap.nodes)


NO_LEAST: Final = LeastEvictions()


def least_evictions(
    victims: Sequence[Victim], with_starts: Resources, beneficiary: Beneficiary, session: Session
) -> LeastEvictions:
    """What a choice of these victims must free, if `with_starts` must be freed when all starts are used.

    Starts count like running gangs if there is nothing to evict. Otherwise those of other queues count for
    nothing: this may demand too much, where they use the share of a common ancestor, and never too little.
    """
    starts = [each for each in victims if each.is_start]
    if not with_starts or not starts or len(starts) == len(victims):
        return LeastEvictions(with_starts)
    queue = beneficiary.gang.queue
    own = [each for each in starts if each.queue == queue]
    given = sum_of(each.total for each in own)
    with_all = _least_with(own, given, beneficiary, session) if own else with_starts
    amounts, reduced = dict(with_starts), set[str]()
    for name, amount in with_starts.items():
        if with_all.get(name, 0) - given.get(name, 0) < amount:
            amounts[name] = max(amount, with_all.get(name, 0))
            reduced.add(name)
    return LeastEvictions(amounts, queue, frozenset(reduced))


def _least_with(
    starts: Sequence[Victim], given: Resources, beneficiary: Beneficiary, session: Session
) -> Resources:
    """What the gang must free or have given up, if it requested in addition what these starts use.

    A gang need not free more than it requests. So this is more than it must free itself if the starts have
    brought their queue above its share.
    """
    requested = {name: amount + given.get(name, 0) for name, amount in beneficiary.requested.items()}
    with session.statement() as trial:
        for each in starts:
            trial.assume_ended(queue=each.queue, used=each.used, booked=each.booked, gone=each.pods)
        found = session.hooks.least_evictions(replace(beneficiary, requested=requested))
        trial.roll_back()
    return found
