"""Sequences of claims: a queue does not lose what its guarantee covered, and nobody evicts back and forth.

One node of GPUs and queues side by side, so that amounts decide everything. What a guarantee covers, and what
may be taken by a share, is computed here from the words of docs/guarantees.md.
"""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.model.resources import GPU

from tests.actions.guarantees_cases import MINUTE, begin
from tests.builders import Scenario
from tests.examples import holds


class Job(Struct, frozen=True):
    """A gang of one pod."""

    name: str
    queue: str
    size: int
    priority: int


class Claim(Struct, frozen=True):
    """An eviction for a job: the jobs of other queues that it takes."""

    winner: Job
    taken: tuple[Job, ...]


class Play:
    """A cluster that is played step by step. `guarantees`: by queue; None names none."""

    def __init__(self, devices: int, guarantees: Sequence[int | None], weights: Sequence[int]) -> None:
        self.devices = devices
        self.scenario = Scenario().nodes("n", 1, gpu=devices)
        self.guarantees: dict[str, int] = {}
        self.log: list[str] = []
        for index, (most, weight) in enumerate(zip(guarantees, weights, strict=True)):
            self.guarantees[f"q{index}"] = most or 0
            self.scenario.queue(
                f"q{index}", weight=weight, **({} if most is None else {"guarantee": {GPU: most}})
            )
        self.jobs: dict[str, Job] = {}
        self.began: dict[str, int] = {}
        self.claims: list[tuple[list[Job], list[Claim]]] = []
        """By cycle: what ran before, in the order of starts, and the claims."""

    def submit(self, queue: int, size: int, priority: int) -> None:
        job = Job(f"j{len(self.log)}", f"q{queue % len(self.guarantees)}", size, priority)
        self.log.append(f"submit {job}")
        self.jobs[job.name] = job
        self.scenario.gang(
            job.name, 1, gpu=size, cpu=0, memory=0, queue=job.queue, priority=priority, created=len(self.log)
        )

    def finish(self, index: int) -> None:
        running = self.running()
        if running:
            job = running[index % len(running)]
            self.log.append(f"{job.name} ends")
            self.scenario.remove(job.name)
            del self.jobs[job.name]

    def running(self) -> list[Job]:
        names = [name for name in self.jobs if self.scenario.members(name)[0].node]
        return [self.jobs[name] for name in sorted(names, key=lambda name: self.began[name])]

    def waiting(self) -> list[Job]:
        return [job for name, job in self.jobs.items() if not self.scenario.members(name)[0].node]

    def settle(self) -> bool:
        """Run cycles until three change nothing; False if that does not happen."""
        quiet = 0
        for _ in range(30):
            before = self.running()
            decided = self.scenario.decide()
            evictions = decided.result.evictions
            self.scenario.take(decided)
            for name in decided.placed():
                self.began[name] = self.scenario.now
                self.log.append(f"{name} starts")
            begin(self.scenario)
            claims: dict[str, list[Job]] = {}
            for each in evictions:
                claims.setdefault(each.beneficiary, []).append(self.jobs[each.gang.removeprefix("gang-")])
            by_name = {name.rpartition("/")[2]: tuple(taken) for name, taken in sorted(claims.items())}
            found = [Claim(self.jobs[name], taken) for name, taken in by_name.items()]
            self.log += [f"{name} evicts {[job.name for job in taken]}" for name, taken in by_name.items()]
            placed = [self.jobs[name] for name in decided.placed()]
            self.claims.append(([*before, *placed], found))
            for name in self.jobs:
                if not self.scenario.members(name)[0].node:
                    self.scenario.change(name, started=False)
            self.scenario.now += MINUTE
            quiet = 0 if evictions or placed else quiet + 1
            if quiet == 3:
                return True
        return False


# --- the words of docs/guarantees.md --------------------------------------------------------------------


def covered(queue: str, running: Iterable[Job], guarantee: int) -> list[Job]:
    """Whole gangs in the order of priority and start, as far as they fit."""
    left, found = guarantee, []
    for job in sorted(running, key=lambda job: -job.priority):
        if job.queue == queue and job.size <= left:
            left -= job.size
            found.append(job)
    return found


def amount(jobs: Iterable[Job], queue: str, least: int = 0) -> int:
    return sum(job.size for job in jobs if job.queue == queue and job.priority >= least)


def broken(play: Play, running: Sequence[Job], claim: Claim) -> str:
    """What the claim takes that the queue keeps; empty if nothing."""
    winner = claim.winner
    gone = [job for job in claim.taken if job.queue != winner.queue]
    left = [job for job in running if job not in gone]
    by_guarantee = amount(running, winner.queue) + winner.size <= play.guarantees[winner.queue]
    for queue, guarantee in play.guarantees.items():
        if queue == winner.queue or not any(job.queue == queue for job in gone):
            continue
        kept = covered(queue, running, guarantee)
        if by_guarantee and set(kept) & set(gone):
            return f"{winner.name} takes what the guarantee of {queue} covers"
        for least in {job.priority for job in kept}:
            if amount(left, queue, least) < amount(kept, queue, least):
                return f"{queue} keeps less than its guarantee covered of priority {least}"
    return ""


def is_denied(play: Play, job: Job) -> bool:
    """Whether a job inside its guarantee waits beside capacity that nobody is guaranteed."""
    running = play.running()
    if amount(running, job.queue) + job.size > play.guarantees[job.queue]:
        return False
    kept = sum(
        other.size
        for queue, guarantee in play.guarantees.items()
        for other in (
            covered(queue, running, guarantee)
            if queue != job.queue
            else [each for each in running if each.queue == queue]
        )
    )
    return job.size <= play.devices - kept


sizes = st.sampled_from([1, 1, 2, 3, 4, 6])
steps = st.lists(
    st.tuples(st.sampled_from(["submit", "submit", "submit", "finish"]), st.integers(0, 2), sizes),
    min_size=1,
    max_size=9,
)
queues = st.lists(
    st.tuples(st.sampled_from([None, 0, 1, 1, 2, 2, 3, 4]), st.integers(1, 3)), min_size=2, max_size=3
)


def played(
    devices: int,
    tenants: Sequence[tuple[int | None, int]],
    priorities: Sequence[int],
    steps: Sequence[tuple[str, int, int]],
) -> Play:
    """Play the steps, each until nothing changes, and check every claim."""
    play = Play(devices, [each for each, _ in tenants], [weight for _, weight in tenants])
    note(f"{devices} devices, {tenants}")
    for index, (step, value, size) in enumerate(steps):
        if step == "finish":
            play.finish(value)
        else:
            play.submit(value, min(size, devices), priorities[index % len(priorities)])
        is_at_rest = play.settle()
        note("; ".join(play.log))
        assert is_at_rest, "evictions or starts do not end"
        assert [job.name for job in play.waiting() if is_denied(play, job)] == []
    for running, claims in play.claims:
        if len(claims) == 1:
            assert broken(play, running, claims[0]) == ""
    return play


@holds(40)
@given(st.integers(3, 8), queues, st.lists(st.sampled_from([0, 0, 0, 1]), min_size=1, max_size=4), steps)
def test_no_sequence_of_claims_takes_what_a_guarantee_covered(
    devices: int,
    tenants: list[tuple[int | None, int]],
    priorities: list[int],
    steps: list[tuple[str, int, int]],
) -> None:
    play = played(devices, tenants, priorities, steps)
    for (_, first), (_, second) in zip(play.claims, play.claims[1:], strict=False):
        back = [
            (one, other)
            for one in first
            for other in second
            if other.winner in one.taken and one.winner in other.taken
        ]
        assert back == [], "they evict each other in turn"


@pytest.mark.parametrize(
    ("devices", "guarantees", "runs", "asks", "gone"),
    [
        (4, [1, 1], [4], 2, [4]),
        (8, [1, 1], [4, 1], 4, [1]),
        (4, [1, 1], [2, 2], 2, [2]),
        (4, [3, 1], [1, 1, 1, 1], 1, [1]),
        (4, [3, 1], [4], 1, [4]),
        (4, [4, 1], [4], 1, []),
    ],
)
def test_what_a_claim_by_share_takes(
    devices: int, guarantees: list[int], runs: list[int], asks: int, gone: list[int]
) -> None:
    play = Play(devices, guarantees, [1, 1])
    for size in runs:
        play.submit(0, size, 0)
        play.settle()
    play.submit(1, asks, 0)
    play.settle()
    taken = [job.size for _, claims in play.claims for claim in claims for job in claim.taken]
    assert taken == gone


def test_queues_may_have_any_names() -> None:
    """Two queues of the same guarantee and one gang that fits: who came first runs, whatever its name."""
    for first, second in (("a", "z"), ("z", "a")):
        scenario = Scenario().nodes("n", 1, gpu=3)
        for name in (first, second):
            scenario.queue(name, guarantee={GPU: 2})
        for index, name in enumerate((first, second)):
            scenario.gang(f"g-{name}", 1, gpu=2, cpu=0, memory=0, queue=name, created=index)
        assert scenario.decide().placed() == [f"g-{first}"]


def test_priorities_do_not_decide_between_equal_queues() -> None:
    """One GPU, and equal queues of which nothing runs: the older gang starts."""
    scenario = Scenario().nodes("n", 1, gpu=1).queue("a").queue("b")
    scenario.gang("older", 1, gpu=1, cpu=0, memory=0, queue="b", created=1)
    scenario.gang("newer", 1, gpu=1, cpu=0, memory=0, queue="a", created=2, priority=9)
    assert scenario.decide().placed() == ["older"]
