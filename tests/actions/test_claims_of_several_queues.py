"""A claim that pods of several queues use counts once in the limits of each of them, and of ancestors."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cache.events import Applied, Deleted
from phalanx.model.reasons import Reason

from tests.actions.test_device_limits import (
    EIGHT,
    allocated,
    claim,
    claiming,
    exactly,
    limited,
    reasons,
    used,
)
from tests.actions.test_extended_resources import GPU, Play
from tests.examples import holds


class Sharing(Play):
    """Queues q and r below top, claims c and d for three devices, and pods that the API shows."""

    def __init__(self, limits: Mapping[str, int], *events: Applied) -> None:
        queues = [limited(limits["top"], "top"), *(limited(limits[name], name, "top") for name in "qr")]
        self.users: dict[str, dict[str, str]] = {"c": {}, "d": {}}
        super().__init__(*queues, *EIGHT, *(claim(each, exactly(3)) for each in self.users), *events)

    def start(self) -> list[str]:
        """The gangs that start."""
        binds = self.place()
        for pod, grant in ((bind.name, grant) for bind in binds for grant in bind.grants):
            if grant.name in self.users:
                known = next(iter(self.users[grant.name].values()), "")
                given = grant.allocation.devices if grant.allocation is not None else ()
                self.users[grant.name][pod] = known or "".join(each.device[2] for each in given)
        self._show()
        return sorted({bind.name.rpartition("-")[0] for bind in binds})

    def end(self, *pods: str) -> None:
        for users in self.users.values():
            for pod in pods:
                users.pop(pod, None)
        self.apply(*(Deleted("Pod", "team", pod) for pod in pods))
        self._show()

    def _show(self) -> None:
        """What the API shows of the claims."""
        for name, users in self.users.items():
            devices = next(iter(users.values()), "")
            if users:
                self.apply(allocated(name, exactly(3), devices=devices, users=tuple(users)))
            else:
                self.apply(claim(name, exactly(3)))


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("size", [1, 2])
def test_the_common_ancestor_counts_a_claim_once(at_once: bool, size: int) -> None:
    first = claiming("g", size, shared="c")
    second = claiming("h", size, shared="c", queue="r")
    for top, r, starts in [(3, 3, ["g", "h"]), (3, 2, ["g"]), (8, 2, ["g"])]:
        play = Sharing({"top": top, "q": 3, "r": r}, *first)
        before = [] if at_once else play.start()
        play.apply(*second)
        assert sorted({*before, *play.start()}) == starts
        assert (used(play), used(play, "r")) == (3, 0)
        assert reasons(play) == ([] if len(starts) == 2 else [Reason.ABOVE_QUEUE_LIMIT])


def test_gangs_of_one_cycle_leave_the_rest_of_the_limit_to_others() -> None:
    parts = claiming("g", 1, shared="c"), claiming("h", 1, shared="c", queue="r")
    other = claiming("i", 1, exactly(2))
    play = Sharing({"top": 5, "q": 5, "r": 3}, *parts[0], *parts[1], *other)
    assert play.start() == ["g", "h", "i"]


def test_what_a_queue_is_not_charged_for_yet_is_not_left_of_its_limit() -> None:
    """Else a queue with many pods that use claims of others would be above its limit when those end."""
    play = Sharing({"top": 8, "q": 8, "r": 4}, *claiming("g", 1, shared="c"))
    assert play.start() == ["g"]
    play.apply(*claiming("h", 1, shared="c", queue="r"))
    assert play.start() == ["h"]
    play.apply(*claiming("i", 1, exactly(2), queue="r"))
    assert play.start() == []
    (verdict,) = play.decide().verdicts
    assert verdict.message == f"the limit of queue r is reached: 2 {GPU} needed, 1 {GPU} left"
    play.apply(*claiming("j", 1, exactly(1), queue="r"), *claiming("k", 1, shared="d", queue="r"))
    assert play.start() == ["j"]
    play.end("g-0")
    assert (used(play), used(play, "r")) == (0, 4)


def test_the_verdict_says_what_is_left_beside_claims_that_others_are_charged_for() -> None:
    play = Sharing({"top": 8, "q": 8, "r": 5}, *claiming("g", 1, shared="c"))
    assert play.start() == ["g"]
    play.apply(*claiming("h", 1, shared="c", queue="r"))
    assert play.start() == ["h"]
    play.apply(*claiming("i", 2, shared="d", queue="r"))
    (verdict,) = play.decide().verdicts
    needs = f"3 {GPU} needed for claims that pods share, 2 {GPU} left"
    assert verdict.message == f"the limit of queue r is reached: {needs}"


Step = tuple[str, Any]
"""The queue of a gang and what it wants: a claim or so many devices. Or the place of one that ends."""
wanted = st.one_of(st.sampled_from(["c", "d"]), st.sampled_from(["c", "d"]), st.integers(1, 2))
steps = st.one_of(st.tuples(st.sampled_from("qr"), wanted), st.tuples(st.just("end"), st.integers(0, 3)))


def devices(gangs: Mapping[str, Step], *queues: str) -> int:
    """The devices of all gangs of these queues, those of each claim once."""
    found = [wants for of, wants in gangs.values() if of in queues]
    claims = {each for each in found if isinstance(each, str)}
    return 3 * len(claims) + sum(each for each in found if isinstance(each, int))


def fits(gangs: Mapping[str, Step], limits: Mapping[str, int]) -> bool:
    return devices(gangs, "q", "r") <= min(8, limits["top"]) and all(
        devices(gangs, name) <= limits[name] for name in "qr"
    )


@holds(6)
@given(
    st.lists(steps, min_size=3, max_size=8),
    st.fixed_dictionaries({"top": st.integers(3, 9), "q": st.integers(2, 7), "r": st.integers(2, 7)}),
)
def test_a_gang_starts_if_the_claims_of_its_queues_fit_and_no_limit_is_exceeded_later(
    history: list[Step], limits: dict[str, int]
) -> None:
    play, running = Sharing(limits), dict[str, Step]()
    for number, (of, wants) in enumerate(history):
        name = f"g{number}"
        if of == "end":
            for gone in sorted(running)[wants : wants + 1]:
                del running[gone]
                play.end(f"{gone}-0")
        else:
            asked = [] if isinstance(wants, str) else [exactly(wants)]
            play.apply(*claiming(name, 1, *asked, queue=of, shared="" if asked else wants))
            starts = play.start() == [name]
            assert starts is fits({**running, name: (of, wants)}, limits)
            if starts:
                running[name] = (of, wants)
            else:
                play.end(f"{name}-0")
        amounts = {each: used(play, each) for each in "qr"}
        assert sum(amounts.values()) == devices(running, "q", "r")
        assert all(amounts[each] <= devices(running, each) <= limits[each] for each in "qr")
