"""Guarantees to tenants over whole histories of small clusters, checked against exhaustive search.

Bound pods run, evicted pods are recreated at once, until nothing changes any more.
"""

from collections.abc import Iterable, Iterator, Sequence

from hypothesis import given
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.names import QueueName
from phalanx.model.resources import GPU
from phalanx.model.snapshot import Snapshot

from tests.actions.tenancy import Group, Tenancy, step, tenancies
from tests.builders import Decided, Scenario
from tests.examples import holds

LONG = 60
"""Cycles, a minute each, within which the cluster must reach a fixed point."""

REST = 5
"""Cycles without a change that show a fixed point: no minimum run time lasts longer."""


def history(scenario: Scenario) -> Iterator[tuple[Snapshot, Decided]]:
    """Yield what each cycle saw and decided, until no gang starts or is evicted any more."""
    quiet = 0
    for _ in range(LONG):
        before = scenario.snapshot()
        decided = step(scenario)
        yield before, decided
        quiet = 0 if decided.evicted() or decided.placed() else quiet + 1
        if quiet == REST:
            return
    raise AssertionError("no fixed point was reached")


def at_rest(scenario: Scenario) -> Tenancy:
    """The state at the fixed point."""
    *_, (_, decided) = history(scenario)
    return Tenancy(scenario.snapshot(), decided)


@given(tenancies(with_backfill=True))
@holds(15)
def test_other_queues_never_reclaim_what_a_guarantee_covers(scenario: Scenario) -> None:
    """A queue that takes capacity by its fair share leaves the others their guarantees as well."""
    for before, decided in history(scenario):
        known = Tenancy(before, decided)
        for queue in before.queues:
            keeps_its_guarantee(known, decided, queue)


def keeps_its_guarantee(known: Tenancy, decided: Decided, queue: QueueName) -> None:
    """Check each beneficiary in turn; gangs of the queue itself may evict what it covers."""
    gangs = {str(gang): gang for gang in known.snapshot.gangs.values()}
    mine = known.pods_below(queue)
    held = known.used(queue) + sum(mine.get(pod, 0) for pod in decided.binds)
    covered = known.covered(queue)
    kept = sum(mine[pod] for pod in covered)
    for beneficiary in dict.fromkeys(each.beneficiary for each in decided.result.evictions):
        gone = [each.pod for each in decided.result.evictions if each.beneficiary == beneficiary]
        lost = {pod: mine[pod] for pod in gone if pod in mine}
        held -= sum(lost.values())
        if queue in {each.name for each in known.path(gangs[beneficiary].queue)}:
            members = {pod.uid for pod in gangs[beneficiary].members}
            held += sum(mine[each.pod] for each in decided.result.nominations if each.pod in members)
            covered, kept = set(), 0
        elif lost:
            victims = {gang.queue for gang in gangs.values() if any(pod.uid in lost for pod in gang.members)}
            assert held >= kept or may_be_covered(known, decided, gangs[beneficiary], victims)
            is_side = any(
                known.unshared_path(victim, gangs[beneficiary].queue)[-1:] == [queue] for victim in victims
            )
            is_by_guarantee = may_be_covered(known, decided, gangs[beneficiary], victims)
            assert not (is_side and is_by_guarantee) or covered.isdisjoint(lost)


def may_be_covered(known: Tenancy, decided: Decided, gang: Gang, victims: Iterable[QueueName]) -> bool:
    """Whether the gang is within a guarantee if its own queues lose all their victims before it starts."""
    members = {pod.uid for pod in gang.members}
    for victim in victims:
        side = known.unshared_path(gang.queue, victim)[-1]
        mine = known.pods_below(side)
        asked = sum(mine[each.pod] for each in decided.result.nominations if each.pod in members)
        lost = sum(mine.get(each.pod, 0) for each in decided.result.evictions)
        if known.used(side) - lost + asked <= known.guarantee[side]:
            return True
    return False


@given(tenancies(with_backfill=True))
@holds(15)
def test_no_queue_of_the_tree_exceeds_its_limit(scenario: Scenario) -> None:
    """A queue that exceeds its limit already gets nothing more. The ledger equals the sum over the pods."""
    before: dict[QueueName, int] = {}
    for _, decided in history(scenario):
        after = Tenancy(scenario.snapshot(), decided)
        ledger = Session(after.snapshot, SchedulerConfig()).ledger
        for name, queue in after.snapshot.queues.items():
            used = after.used(name)
            assert ledger.usage(name).get(GPU, 0) == used
            if name in before:
                assert used <= max(queue.limit.get(GPU, used), before[name])
            before[name] = used


@given(tenancies())
@holds(15)
def test_no_gang_that_fits_waits(scenario: Scenario) -> None:
    """Neither the minimum of a waiting gang nor a surplus member fits into the free capacity."""
    rest = at_rest(scenario)
    waits = list(rest.waiting())
    for gang, pods in waits:
        asked = sum(pod.shape.requests[GPU] for pod in pods)
        assert not (rest.may_start(gang, asked, {}) and rest.fits(pods))
    for gang in rest.snapshot.gangs.values() if not waits else ():
        for pod in gang.members:
            if pod.node is None:
                assert not (rest.may_start(gang, pod.shape.requests[GPU], {}) and rest.fits([pod]))


@given(tenancies(with_backfill=True))
@holds(15)
def test_no_gang_within_the_guarantee_waits_where_a_reclaim_would_help(scenario: Scenario) -> None:
    """Every set of victims that would help breaches a guarantee, a minimum run time, a budget or a policy.

    A start that is reserved in another queue counts only against what the side of the gang uses in addition,
    beyond its guarantee; or if it is within a guarantee as well.
    """
    rest = at_rest(scenario)
    is_bound = any(rest.is_within_guarantee(gang) for gang in rest.reserved_starts)
    for gang, pods in rest.waiting():
        if gang.may_preempt and not is_bound:
            assert rest.could_help(gang, pods, within_guarantee) is None


def within_guarantee(rest: Tenancy, gang: Gang, gone: Sequence[Group]) -> bool:
    """The gang stays within its guarantee, and the queues of the victims keep theirs."""
    asked = gang.min_member * gang.members[0].shape.requests[GPU]
    freed = rest.freed(gone)
    for reserved in rest.reserved_starts:
        for side in rest.unshared_path(gang.queue, reserved.queue)[-1:]:
            if freed.get(side, 0) < min(asked, rest.used(side) + asked - rest.guarantee[side]):
                return False
    return all(
        all(
            rest.guarantee[queue] and rest.used(queue) + asked <= rest.guarantee[queue]
            for queue in rest.unshared_path(gang.queue, group.gang.queue)
        )
        and all(
            rest.used(queue) - freed[queue] >= rest.written[queue]
            for queue in rest.unshared_path(group.gang.queue, gang.queue)
        )
        for group in gone
    )


@given(tenancies())
@holds(30)
def test_no_gang_within_the_fair_share_waits_where_a_reclaim_would_help(scenario: Scenario) -> None:
    rest = at_rest(scenario)
    for gang, pods in rest.waiting():
        if gang.may_preempt:
            assert rest.could_help(gang, pods, within_fair_share) is None


def within_fair_share(rest: Tenancy, gang: Gang, gone: Sequence[Group]) -> bool:
    """Only the last victim of a queue may bring it below its share: before that, the queue is above it."""
    asked = gang.min_member * gang.members[0].shape.requests[GPU]
    freed = rest.freed(gone)
    for group in gone:
        for queue in rest.unshared_path(gang.queue, group.gang.queue):
            if rest.used(queue) + asked > rest.fair_share[queue]:
                return False
        for queue in rest.unshared_path(group.gang.queue, gang.queue):
            here = [each for each in gone if queue in rest.freed([each])]
            largest = max(each.gpus for each in here)
            left = rest.used(queue) - freed[queue]
            if left < rest.written[queue] or left + largest <= rest.fair_share[queue]:
                return False
    return frees_what_others_lack(rest, gang, sum(group.gpus for group in gone))


def frees_what_others_lack(rest: Tenancy, gang: Gang, freed: int) -> bool:
    """Whether the victims free what the gang takes its queues beyond shares while siblings lack theirs."""
    asked = gang.min_member * gang.members[0].shape.requests[GPU]
    for queue in rest.path(gang.queue):
        siblings = [each.name for each in rest.snapshot.queues.values() if each.parent == queue.parent]
        is_lacking = any(rest.used(each) < rest.fair_share[each] for each in siblings if each != queue.name)
        beyond = min(asked, rest.used(queue.name) + asked - rest.fair_share[queue.name])
        if is_lacking and freed < beyond:
            return False
    return True
