"""Members of a gang that share claims, each beside other claims than the others, or beside none."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.pods import PodClaim
from phalanx.model.reasons import Reason
from phalanx.model.supplies.devices.claims import AllocatedDevice, Allocation
from phalanx.model.supplies.devices.pools import NodeChoice
from phalanx.model.supplies.devices.session import shared_choices
from phalanx.model.supplies.devices.session.session_devices import claimed_devices

from tests.actions.test_device_claims import World
from tests.builders import Decided
from tests.examples import holds
from tests.model.devices import claim_of, device, request, slice_of

GPU = 'device.driver == "gpu.example.com"'

UNDECIDED = "devices that several nodes can use do not suffice together for the claims of its pods"
"""The verdict where the placement of claims that one member has for itself was not exact."""

PLENTY = 8
"""More devices than four members use."""

SIZES = {"a": 1, "b": 1, "c": 1, "d": 2, "g": 1}
"""How many devices each shared claim asks for: links, but "g" asks for one of those of nodes."""

Member = tuple[int, str]
"""How many devices of its own it needs, and the claims that it shares with others, each by a letter."""


def cluster(gpus: Sequence[int], links: Sequence[Sequence[int]], **more: Any) -> World:
    """Nodes with these numbers of devices, and links, each of which these nodes can use."""
    world = World()
    for number, count in enumerate(gpus):
        world.nodes(f"n{number}", 1, labels={"n": str(number)}, **more)
        world.device_slice(f"n{number}-0", *[device(f"d{index}") for index in range(count)])
    for number, nodes in enumerate(links):
        own = {"key": "n", "operator": "In", "values": [*map(str, nodes)]}
        choice = {"nodeSelectorTerms": [{"matchExpressions": [own]}]}
        pool = {"name": f"l{number}"}
        made = slice_of(device("link"), name=f"l{number}", pool=pool, driver="nic", nodeSelector=choice)
        world.slices.append(made)
    return world


def asking(world: World, members: Sequence[Member], **more: Any) -> World:
    """The gang `g` of these members."""
    world.gang("g", len(members), **more)
    pods = []
    for pod, (count, letters) in zip(world.members("g"), members, strict=True):
        entries = []
        if count:
            own = f"{pod.name}-gpu"
            wanted = claim_of(request("r", GPU, count=count))
            world.device_claims[own] = replace(
                wanted, namespace="team", name=own, uid=f"uid-{own}", owner=pod.uid
            )
            entries.append(PodClaim("gpu", own, is_own=True))
        for letter in letters:
            asked = request(device_class="nic", count=SIZES[letter]) if letter != "g" else request("r", GPU)
            claim = replace(claim_of(asked), namespace="team", name=letter)
            world.device_claims.setdefault(letter, replace(claim, uid=f"uid-{letter}"))
            entries.append(PodClaim(letter, letter))
        pods.append(replace(pod, device_claims=tuple(entries)))
    world.change("g", members=tuple(pods))
    return world


def placed(decided: Decided) -> dict[str, tuple[str, dict[str, list[str]]]]:
    """By pod, its node and the pools of the devices of each of its claims."""
    return {
        bind.name: (
            bind.node.removesuffix("-0"),
            {
                grant.name: [each.device[1] for each in grant.allocation.devices] if grant.allocation else []
                for grant in bind.grants
            },
        )
        for placement in decided.placements("g")
        for bind in placement.binds
    }


def check(decided: Decided, links: Sequence[Sequence[int]], gpus: Sequence[int], size: int) -> bool:
    """Whether the gang is placed; nothing is used twice or from a node that cannot use it."""
    found = placed(decided)
    assert len(found) in (0, size)
    chosen: dict[str, list[str]] = {}
    used = [0] * len(gpus)
    for node, claims in found.values():
        for name, pools in claims.items():
            if name.endswith("-gpu"):
                assert set(pools) == {f"{node}-0"}
                used[int(node[1:])] += len(pools)
            else:
                if name not in chosen and name == "g":
                    used[int(node[1:])] += 1
                assert chosen.setdefault(name, pools) == pools
                assert len(pools) == SIZES[name]
                if name == "g":
                    assert pools == [f"{node}-0"]
                    continue
                assert all(int(node[1:]) in links[int(pool[1:])] for pool in pools)
    assert all(one <= other for one, other in zip(used, gpus, strict=True))
    pools = [pool for name, some in chosen.items() for pool in some if name != "g"]
    assert len(pools) == len(set(pools))
    return bool(found)


def exists(gpus: Sequence[int], links: Sequence[Sequence[int]], members: Sequence[Member]) -> bool:
    """Whether all members can be placed, by trial."""
    letters = sorted({letter for _, some in members for letter in some})
    links_of = [letter for letter in letters for _ in range(SIZES[letter]) if letter != "g"]
    for chosen in itertools.permutations(range(len(links)), len(links_of)):
        reached = {
            letter: set.intersection(
                *(set(links[link]) for link, owner in zip(chosen, links_of, strict=True) if owner == letter)
            )
            for letter in links_of
        }
        for node in range(len(gpus)) if "g" in letters else (0,):
            left = [count - (at == node and "g" in letters) for at, count in enumerate(gpus)]
            if min(left) >= 0 and fit(left, reached | {"g": {node}}, members):
                return True
    return False


def fit(gpus: Sequence[int], reached: Mapping[str, set[int]], members: Sequence[Member]) -> bool:
    """Whether all members fit nodes with these numbers of devices, from which shared ones are reached."""
    for where in itertools.product(range(len(gpus)), repeat=len(members)):
        placed_there = list(zip(where, members, strict=True))
        if all(node in reached[letter] for node, (_, some) in placed_there for letter in some) and all(
            sum(count for at, (count, _) in placed_there if at == node) <= most
            for node, most in enumerate(gpus)
        ):
            return True
    return False


def test_a_launcher_without_devices_of_its_own_shares_the_claim_of_the_workers() -> None:
    world = asking(cluster([4, 4], [[0, 1]]), [(0, "c"), (2, "c"), (2, "c"), (1, "c")])
    found = placed(world.decide())
    assert len(found) == 4
    assert {tuple(claims["c"]) for _, claims in found.values()} == {("l0",)}


def test_a_member_that_does_not_share_the_claim_runs_where_its_devices_cannot_be_used() -> None:
    world = asking(cluster([2, 1], [[0]]), [(1, "c"), (1, "c"), (1, "")])
    assert placed(world.decide())["g-2"][0] == "n1"


def test_each_half_of_a_gang_has_a_claim_of_its_own() -> None:
    """The link of one half reaches the nodes of this half only."""
    world = asking(cluster([2, 2, 2, 2], [[0, 1], [2, 3]]), [(2, "a"), (2, "a"), (2, "b"), (2, "b")])
    found = placed(world.decide())
    halves = [{found[f"g-{number}"][0] for number in some} for some in ((0, 1), (2, 3))]
    assert sorted(map(sorted, halves)) == [["n0", "n1"], ["n2", "n3"]]


def test_the_device_of_a_shared_claim_is_not_free_for_members_that_do_not_share_it() -> None:
    world = cluster([2], [])
    world.gang("g", 2)
    first, second = world.members("g")
    own = replace(claim_of(request()), namespace="team", name="own", uid="uid-own", owner=second.uid)
    world.device_claims |= {"c": replace(own, name="c", uid="uid-c", owner=""), "own": own}
    first = replace(first, device_claims=(PodClaim("c", "c"),))
    second = replace(second, device_claims=(PodClaim("own", "own", is_own=True),))
    world.change("g", members=(first, second))
    binds = [bind for placement in world.decide().placements("g") for bind in placement.binds]
    devices = [
        each.device[2]
        for bind in binds
        for grant in bind.grants
        if grant.allocation is not None
        for each in grant.allocation.devices
    ]
    assert sorted(devices) == ["d0", "d1"]


def test_shared_devices_are_chosen_where_all_members_have_devices_of_their_own() -> None:
    """Both links can be used from two nodes; those of the first one have too few devices."""
    gpus, links = [1, 1, 1, 2], [[0, 1], [2, 3]]
    members = [(1, "c"), (2, "c"), (0, "c")]
    assert check(asking(cluster(gpus, links), members).decide(), links, gpus, 3)


@pytest.mark.parametrize("links", [[], [[0]]])
def test_too_few_shared_devices_are_named(links: list[list[int]]) -> None:
    world = asking(cluster([2, 2], links), [(1, "a"), (1, "b")])
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert "devices for the claims of" in verdict.message


def test_a_gang_starts_without_members_whose_claim_has_no_devices() -> None:
    world = asking(cluster([2, 2], [[0, 1]]), [(1, "a"), (1, "a"), (1, "b")], min=2)
    assert sorted(placed(world.decide())) == ["g-0", "g-1"]


def test_pods_of_several_kinds_count_for_the_limit_of_a_claim() -> None:
    world = asking(cluster([1], [[0]]), [(0, "c")] * 200 + [(1, "c")] * 57, cpu=0)
    verdict = world.decide().verdict("g")
    assert verdict.reason is Reason.INVALID_OBJECT
    assert "ResourceClaim team/c: 257 pods would use it; the limit of the API is 256" in verdict.message


def test_other_devices_are_chosen_where_members_without_the_claim_need_the_first_ones() -> None:
    """Both members of the claim fit the third node, but not beside the last member."""
    gpus, links = [0, 1, 3], [[0, 2], [1, 2]]
    members = [(1, "a"), (1, "a"), (2, "")]
    assert check(asking(cluster(gpus, links), members).decide(), links, gpus, 3)


def test_a_claim_leaves_the_better_device_to_another_one() -> None:
    """The link of all nodes is for the claim whose members need several nodes."""
    gpus, links = [1, 1, 1], [[0, 1, 2], [2]]
    members = [(1, "a"), (1, "b"), (1, "b")]
    assert check(asking(cluster(gpus, links), members).decide(), links, gpus, 3)


def test_other_devices_are_tried_for_the_members_that_are_enough() -> None:
    """Two of three members are enough, one of which does not use the claim."""
    gpus, links = [0, 1, 2], [[0, 2], [1, 2]]
    world = asking(cluster(gpus, links), [(1, "a"), (2, ""), (2, "")], min=2)
    assert len(placed(world.decide())) == 2


def test_the_only_device_is_for_the_claim_whose_members_can_start() -> None:
    world = asking(cluster([1], [[0]]), [(2, "a"), (2, "a"), (0, "b"), (0, "b")], min=2)
    assert sorted(placed(world.decide())) == ["g-2", "g-3"]


def test_a_verdict_tells_that_other_choices_might_help() -> None:
    """Each link leaves the members one node, on which each of them fits, but not both."""
    gpus, links = [2, 2, 2], [[0], [1], [2]]
    verdict = asking(cluster(gpus, links), [(1, "a"), (2, "a")]).decide().verdict("g")
    noted = [each.finding for each in verdict.evidence if each.subject == "claims that pods share"]
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert noted == ["not all choices of their devices were tried; with others the gang might fit"]


def test_no_choice_is_tried_where_members_would_not_fit_on_any_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_choices, "SHARED_CHOICES_TRIED_MAX", 0)
    gpus, links = [2, 2, 2], [[0], [1], [2]]
    verdict = asking(cluster(gpus, links), [(1, "a"), (2, "a"), (3, "")]).decide().verdict("g")
    assert verdict.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert "claims that pods share" not in {each.subject for each in verdict.evidence}


def test_devices_that_were_free_in_a_trial_are_not_used_after_it() -> None:
    """The only link is in use. A trial assumes that its pod has ended."""
    world = asking(cluster([1], [[0]]), [(0, "a"), (0, "a")])
    world.gang("old", 1, on=["n0-0"])
    [pod] = world.members("old")
    found = AllocatedDevice("r", ("nic", "l0", "link"))
    used = replace(world.device_claims["a"], name="used", uid="uid-used", reserved_for=(pod.uid,))
    world.device_claims["used"] = replace(used, allocation=Allocation((found,), NodeChoice(node="n0-0")))
    world.change("old", members=(replace(pod, device_claims=(PodClaim("used", "used"),)),))
    session = Session(world.snapshot(), SchedulerConfig())
    gangs = {gang.name: gang for gang in session.gangs.values()}
    need = claimed_devices(session).needs.of(gangs["g"].members[0].shape)
    with session.statement() as trial:
        trial.assume_ended(queue=gangs["old"].queue, used={}, booked={}, gone=gangs["old"].members)
        assert [*claimed_devices(session).shared.chosen(need)] == ["uid-a"]
        trial.roll_back()
    assert not claimed_devices(session).shared.chosen(need)


@holds(8)
@given(
    st.one_of(
        st.lists(st.sampled_from([0, PLENTY]), min_size=1, max_size=3),
        st.lists(st.integers(0, 3), min_size=1, max_size=3),
    ),
    st.lists(st.sets(st.integers(0, 2), min_size=1), max_size=4),
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["", "a", "a", "b", "ab", "bc", "d", "ad", "g", "ag"])),
        min_size=1,
        max_size=4,
    ),
)
def test_a_gang_is_placed_exactly_if_its_claims_can_be_allocated(
    gpus: list[int], reached: list[set[int]], members: list[Member]
) -> None:
    links = [sorted(each) for each in reached]
    decided = asking(cluster(gpus, links), members).decide()
    found, is_possible = check(decided, links, gpus, len(members)), exists(gpus, links, members)
    assert is_possible or not found
    if not found and decided.verdict("g").message != UNDECIDED:
        assert not is_possible
