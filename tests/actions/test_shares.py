"""Shares of GPUs: what fits on devices, and which device each pod gets."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from phalanx.actions import joint_admission as admit
from phalanx.actions.problems.joint_problem import with_parts
from phalanx.actions.problems.placement import DemandPlacement, apply_placement
from phalanx.framework.config import SchedulerConfig
from phalanx.framework.session import Session
from phalanx.model.conversion.shapes import shape_of_requests
from phalanx.model.decisions import Certificate
from phalanx.model.gangs import RoleSpec
from phalanx.model.names import NodeName
from phalanx.model.queues import Flavor
from phalanx.model.reasons import Objection, Reason
from phalanx.model.supplies.gpu_shares.devices import (
    GPU_MEMORY,
    GPU_SHARE,
    UNKNOWN_DEVICE,
    device_name,
    free_devices,
)

from tests.builders import GI, Decided, Scenario, demands_of
from tests.examples import holds

PROOF = Certificate(terms=(), objective=(), bound=(), proven=True, by="test")


def used(*amounts: int, anywhere: int = 0) -> dict[str, int]:
    """The use of foreign pods, in thousandths of each device; `anywhere`: on unknown devices."""
    names = {device_name(index): amount for index, amount in enumerate(amounts) if amount}
    return {GPU_SHARE: sum(amounts) + anywhere, **names, **({UNKNOWN_DEVICE: anywhere} if anywhere else {})}


def taken(decided: Decided) -> Counter[tuple[str, int]]:
    """Thousandths that were placed, by node and device."""
    found: Counter[tuple[str, int]] = Counter()
    for each in decided.result.placements:
        for bind in each.binds:
            if bind.device is not None:
                found[bind.node, bind.device.index] += bind.device.taken
    return found


def test_pods_share_devices_and_each_gets_a_device_index() -> None:
    decided = Scenario().nodes("a", 1, shared=2).gang("g", 4, share=500).decide()
    assert decided.devices("g") == {"g-0": 0, "g-1": 0, "g-2": 1, "g-3": 1}
    assert set(taken(decided).values()) == {1000}


def test_a_share_must_fit_on_a_single_device() -> None:
    scenario = Scenario().nodes("a", 1, shared=2, used=used(700, 900)).gang("g", 1, share=400)
    verdict = scenario.decide().verdict("g")
    assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
    assert "free capacity is fragmented across GPUs" in verdict.message
    assert [each.finding for each in verdict.evidence][-1] == "no GPU with a share of 0.4 free"


def test_nodes_with_whole_gpus_have_no_capacity_for_shares() -> None:
    verdict = Scenario().nodes("a", 3, gpu=8).gang("g", 1, share=1).decide().verdict("g")
    assert verdict.reason is Reason.NO_ELIGIBLE_NODE
    assert [(each.finding, each.count) for each in verdict.evidence] == [("do not share GPUs", 3)]


def test_a_node_that_offers_whole_gpus_cannot_share_them() -> None:
    """Decoding ignores its shared devices; a plugin reports the reason."""
    scenario = Scenario().nodes("a", 1, gpu=8, labels={"scheduling.phalanx.dev/gpu-sharing": "true"})
    (found,) = scenario.gang("g", 1, share=1).decide().verdict("g").evidence
    assert found.finding == "offer whole nvidia.com/gpu, which cannot be shared"


def test_the_fullest_device_that_fits_is_used() -> None:
    scenario = Scenario().nodes("a", 1, shared=3, used=used(0, 500, 800))
    assert scenario.gang("g", 1, share=300).decide().devices("g") == {"g-0": 1}


def test_roles_of_different_shares_get_devices_jointly() -> None:
    """In their order the small shares would use the capacity that the large ones need."""
    scenario = Scenario().nodes("a", 1, shared=2, used=used(250, 500))
    decided = scenario.gang("g", 1, share=250, min=3).role("g", 2, share=500).decide()
    assert set(taken(decided).values()) == {750, 500}
    scenario = Scenario().nodes("a", 1, shared=2, used=used(250, 500))
    assert scenario.gang("g", 2, share=250, min=4).role("g", 2, share=500).decide().placed() == []


def test_a_share_in_bytes_depends_on_the_memory_of_the_device() -> None:
    scenario = (
        Scenario().nodes("small", 1, shared=1, gpu_memory=40).nodes("large", 1, shared=1, gpu_memory=80)
    )
    decided = scenario.gang("g", 6, gpu_memory=20).decide()
    assert decided.where("g") == {"large": 4, "small": 2}
    assert set(taken(decided).values()) == {1000}


def test_shares_in_bytes_are_rounded_up_to_thousandths() -> None:
    decided = Scenario().nodes("a", 1, shared=1, gpu_memory=3).gang("g", 2, gpu_memory=1).decide()
    assert taken(decided) == {("a-0", 0): 2 * 334}
    assert Scenario().nodes("a", 1, shared=1, gpu_memory=3).gang("g", 3, gpu_memory=1).decide().placed() == []


def test_shares_in_bytes_need_a_node_with_a_memory_label() -> None:
    verdict = Scenario().nodes("a", 1, shared=1).gang("g", 1, gpu_memory=1).decide().verdict("g")
    assert verdict.evidence[0].finding == "label nvidia.com/gpu.memory has no valid memory of a GPU"


def test_shares_and_bytes_use_the_same_devices() -> None:
    scenario = Scenario().nodes("a", 1, shared=1, gpu_memory=80)
    decided = scenario.gang("g", 1, gpu_memory=40).gang("h", 1, share=500).gang("i", 1, share=1).decide()
    assert decided.placed() == ["g", "h"]
    says = decided.verdict("i").message
    assert "0.001 shared GPUs missing" in says


def test_pods_without_gpus_avoid_the_node_with_most_gpus() -> None:
    """Shared GPUs count as devices, not as thousandths."""
    scenario = Scenario().nodes("a", 1, gpu=8).nodes("b", 1, shared=4, gpu_memory=80).nodes("c", 1, gpu=5)
    assert scenario.gang("g", 1).decide().where("g") == {"b": 1}


# --- foreign pods -------------------------------------------------------------------------------------------


def test_a_pod_on_an_unknown_device_counts_on_each_device() -> None:
    scenario = Scenario().nodes("a", 1, shared=3, used=used(0, 0, 300, anywhere=400))
    decided = scenario.gang("g", 2, share=600).gang("h", 1, share=301).gang("i", 1, share=300).decide()
    assert decided.devices("g") == {"g-0": 0, "g-1": 1}
    assert decided.devices("i") == {"i-0": 2}
    assert decided.placed() == ["g", "i"]


def test_a_pod_on_a_device_that_does_not_exist_counts_on_each_device() -> None:
    scenario = Scenario().nodes("a", 1, shared=2, used={GPU_SHARE: 400, device_name(7): 400})
    assert scenario.gang("g", 1, share=601).decide().placed() == []
    assert scenario.gang("h", 1, share=600).decide().devices("h") == {"h-0": 0}


def test_an_over_committed_device_is_full_and_blocks_no_other_device() -> None:
    scenario = Scenario().nodes("a", 1, shared=2, used=used(1700, 0))
    assert scenario.gang("g", 1, share=300).gang("h", 1, share=300).decide().devices("g") == {"g-0": 1}


def test_a_sum_that_contradicts_the_devices_is_handled() -> None:
    """The annotations of a foreign pod say that 79Gi are a thousandth of a device of 80Gi."""
    scenario = Scenario().nodes(
        "a", 1, shared=1, gpu_memory=80, used={GPU_MEMORY: 79 * GI, device_name(0): 1}
    )
    assert scenario.gang("g", 1, gpu_memory=40).gang("h", 1, gpu_memory=1).decide().placed() == ["h"]


# --- queues, claims, other cycles ---------------------------------------------------------------------------


def test_a_queue_is_charged_for_the_requests_of_its_pods() -> None:
    scenario = Scenario().nodes("a", 1, shared=8, gpu_memory=80)
    scenario.queue("q", limit={GPU_SHARE: 1500, GPU_MEMORY: 40 * GI})
    scenario.gang("g", 3, share=500, queue="q").gang("h", 1, share=1, queue="q")
    scenario.gang("i", 2, gpu_memory=20, queue="q").gang("j", 1, gpu_memory=1, queue="q")
    decided = scenario.decide()
    assert decided.placed() == ["g", "i"]
    assert decided.verdict("h").reason is decided.verdict("j").reason is Reason.QUEUE_LIMIT
    assert "0.001 shared GPUs needed, 0 shared GPUs left" in decided.verdict("h").message
    allocated = decided.result.queues["q"].allocated
    assert {name: allocated[name] for name in allocated if "/" in name} == {
        GPU_SHARE: 1500,
        GPU_MEMORY: 40 * GI,
    }
    assert not any(name.startswith("gpu[") for name in allocated)


def test_a_flavor_counts_shares_too() -> None:
    scenario = Scenario().nodes("a", 1, shared=1).nodes("b", 1, shared=1)
    flavor = Flavor(name="a", node_selector=(("group", "a"),), limit={GPU_SHARE: 250})
    scenario.queue("q", flavors=[flavor]).gang("g", 5, share=250, queue="q")
    assert scenario.decide().where("g") == {"a": 1, "b": 4}


def test_placed_shares_count_in_the_next_cycle() -> None:
    scenario = Scenario().nodes("a", 1, shared=2).gang("g", 3, share=400)
    first = scenario.decide()
    scenario.take(first).gang("h", 1, share=600).gang("i", 1, share=200)
    second = scenario.decide()
    assert second.devices("h") == {"h-0": 1}
    assert second.devices("i") == {"i-0": 0}
    assert taken(first) + taken(second) == {("a-0", 0): 1000, ("a-0", 1): 1000}


def test_capacity_for_a_lost_member_is_held_on_its_device() -> None:
    scenario = Scenario().nodes("a", 1, shared=1).gang("g", 2, share=500)
    scenario.take(scenario.decide()).take(scenario.decide())
    members = scenario.members("g")
    scenario.change("g", members=members[:1]).gang("h", 1, share=500)
    scenario.capacity_version += 1
    assert scenario.decide().verdict("h").reason is Reason.CAPACITY_RESERVED


def test_a_roll_back_releases_the_device() -> None:
    scenario = Scenario().nodes("a", 1, shared=2, used=used(500, 0)).gang("g", 2, share=500)
    session = Session(scenario.snapshot(), SchedulerConfig())
    gang = next(iter(session.gangs.values()))
    name = NodeName("a-0")
    before = free_devices(session.nodes[name], session.free(name))
    with session.statement() as statement:
        statement.place(gang=gang, assignments=[(name, gang.members)], cause="start", certificate=PROOF)
        assert free_devices(session.nodes[name], session.free(name)) == (0, 500)
        statement.roll_back()
    assert free_devices(session.nodes[name], session.free(name)) == before == (500, 1000)


def test_joint_admission_keeps_the_devices_of_shares_that_are_not_moved() -> None:
    """`free` is in the only rack that `bound` may use, and is moved; the shares keep their devices."""
    scenario = Scenario("rack").nodes("x", 2, gpu=8, within="x").nodes("y", 3, gpu=8, within="y")
    scenario.nodes("s", 1, shared=3, within="s", used=used(0, 250, 500))
    scenario.gang("first", 1, share=250, created=0).gang("free", 16, gpu=1, created=1, required="rack")
    scenario.gang("second", 1, share=500, created=2).gang("third", 1, share=750, created=3)
    alone = scenario.decide()
    assert alone.where("free") == {"x": 16}
    selector = {"group": "x"}
    decided = scenario.gang("bound", 16, gpu=1, created=4, required="rack", selector=selector).decide()
    assert decided.where("free") == {"y": 16}
    assert decided.where("bound") == {"x": 16}
    assert taken(decided) == taken(alone)


def half_taken(*first: str) -> Scenario:
    """Nodes x and y with two shared GPUs, of which a half is used, and an empty node z.

    `large` may use only x and needs its three free halves, and so does `wide` on y. `first` request 250 each.
    """
    scenario = Scenario()
    for node in ("x", "y"):
        scenario.nodes(node, 1, shared=2, used=used(500, 0))
    scenario.nodes("z", 1, shared=2)
    for name in first:
        scenario.gang(name, 1, share=250)
    for name, node in (("large", "x"), ("wide", "y")):
        scenario.gang(name, 3, share=500, selector={"group": node})
    return scenario


def test_shares_are_moved_for_others_with_shares() -> None:
    decided = half_taken("small", "tiny").decide()
    assert sorted(decided.placed()) == ["large", "small", "tiny", "wide"]
    assert [decided.where(name) for name in ("small", "tiny")] == [{"z": 1}] * 2
    assert max(taken(decided).values()) <= 1000


def test_shares_that_are_no_multiples_of_the_others_are_not_moved() -> None:
    scenario = half_taken("small")
    scenario.gang("odd", 1, share=300, created=-1)
    decided = scenario.decide()
    assert decided.where("odd") == {"x": 1}
    assert sorted(decided.placed()) == ["odd", "small", "wide"]


def test_shares_of_several_gangs_get_devices_jointly() -> None:
    """One after the other, the small share would use the half GPU that the second large one needs."""
    scenario = Scenario().nodes("x", 1, shared=2, used=used(500, 250))
    for name, share in (("small", 250), ("large", 500), ("second", 500)):
        scenario.gang(name, 1, share=share)
    session = Session(scenario.snapshot(), SchedulerConfig())
    placings = []
    for gang in scenario.snapshot().gangs.values():
        demands = demands_of(gang)
        assert not isinstance(demands, Objection)
        placings.append(DemandPlacement(demands[0], [(NodeName("x-0"), gang.members)], PROOF))
    found = with_parts(session, placings)
    assert found is not None
    for placing in found:
        apply_placement(session, placing)
    assert free_devices(session.nodes[NodeName("x-0")], session.free(NodeName("x-0"))) == (0, 0)
    assert with_parts(session, placings) is None


def test_shares_of_placeholders_get_devices_jointly_with_the_others() -> None:
    """Alone, the placeholder would use the half GPU that the second large share needs."""
    scenario = Scenario().nodes("x", 1, shared=2, used=used(500, 250)).gang("driver", 1, reserves=True)
    for name, share in (("small", 250), ("large", 500), ("second", 500)):
        scenario.gang(name, 1, share=share)
    to_come = tuple(replace(pod, is_placeholder=True) for pod in scenario.members("small"))
    session = Session(scenario.snapshot(), SchedulerConfig())
    placings = []
    for gang in sorted(session.gangs.values(), key=lambda gang: gang.created):
        demands = demands_of(gang)
        assert not isinstance(demands, Objection)
        pods = (*gang.members, *(to_come if gang.reserves else ()))
        placings.append(DemandPlacement(demands[0], [(NodeName("x-0"), pods)], PROOF))
    found = with_parts(session, [each for each in placings if each.demand.gang.name != "small"])
    assert found is not None
    for placing in found:
        apply_placement(session, placing)
    assert free_devices(session.nodes[NodeName("x-0")], session.free(NodeName("x-0"))) == (0, 0)


def test_reserved_shares_get_devices_jointly_with_those_of_existing_members() -> None:
    """Alone, the reserved quarter would use the half GPU that the second driver needs."""
    scenario = Scenario().nodes("a", 1, shared=1, used=used(750)).nodes("x", 1, shared=2, used=used(500, 250))
    roles = (RoleSpec("driver", 2, 2), RoleSpec("executor", 2, 2, shape_of_requests({})))
    scenario.gang("other", 1, share=250)
    (executor,) = scenario.members("other")
    scenario.remove("other").gang("g", 2, min=4, role="driver", roles=roles, reserves=True, share=500)
    scenario.change("g", members=(*scenario.members("g"), replace(executor, role="executor")))
    assert scenario.decide().nodes("g") == ["a-0", "x-0", "x-0"]


def mixed_shares(seed: int) -> Scenario:
    """Two or three nodes with two shared GPUs each, and gangs with shares that are not all multiples."""
    rng = random.Random(seed)
    scenario, left = Scenario(), (0, 100, 200, 300, 400, 500)
    for node in "xyz"[: rng.randint(2, 3)]:
        scenario.nodes(node, 1, shared=2, used=used(rng.choice(left), rng.choice(left)))
    for index in range(rng.randint(3, 6)):
        where = {"selector": {"group": rng.choice("xy")}} if rng.random() < 0.5 else {}
        count, share = rng.randint(1, 3), rng.choice((250, 250, 500, 500, 300, 350, 700))
        scenario.gang(f"g{index}", count, share=share, **where)
    return scenario


@pytest.mark.parametrize("seed", [*range(20), 67, 641, 1022, 1151])
def test_shares_that_stay_keep_their_devices_when_others_are_moved(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the last seeds, a share that stays would get the device of a moved one if assigned after it."""
    scenario = mixed_shares(seed)
    together = scenario.decide()
    foreign = scenario.snapshot().nodes
    for (node, device), amount in taken(together).items():
        assert amount <= free_devices(foreign[NodeName(node)], foreign[NodeName(node)].free)[device]
    monkeypatch.setattr(admit, "improve", lambda _: False)
    alone = set(scenario.decide().placed())
    assert alone <= set(together.placed())
    assert seed < 20 or alone < set(together.placed())


# --- brute force --------------------------------------------------------------------------------------------

Nodes = Sequence[tuple[Sequence[int], int]]
"""Per node, the free thousandths of each device, and the cores."""


def can_place(pods: Sequence[int], nodes: Nodes) -> bool:
    """Whether pods of these shares and one core each fit: every assignment is tried."""
    left = [list(devices) for devices, _ in nodes]
    cores = [count for _, count in nodes]

    def place(index: int) -> bool:
        if index == len(pods):
            return True
        for node, devices in enumerate(left):
            for device in range(len(devices)) if cores[node] else ():
                if devices[device] >= pods[index]:
                    devices[device] -= pods[index]
                    cores[node] -= 1
                    found = place(index + 1)
                    devices[device] += pods[index]
                    cores[node] += 1
                    if found:
                        return True
        return False

    return place(0)


clusters = st.lists(
    st.tuples(
        st.lists(st.integers(0, 10).map(lambda tenths: tenths * 100), min_size=1, max_size=3),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=2,
)


def cluster(nodes: Nodes) -> Scenario:
    scenario = Scenario()
    for number, (devices, cores) in enumerate(nodes):
        held = used(*(1000 - left for left in devices))
        scenario.nodes(f"n{number}", 1, shared=len(devices), cpu=cores, used=held)
    return scenario


@holds(40)
@given(
    clusters,
    st.sampled_from([(100, 200, 600), (150, 300), (250, 500, 1000), (300, 900), (400,)]),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
)
def test_shares_that_are_multiples_are_placed_exactly_when_they_fit(
    nodes: Nodes, sizes: tuple[int, ...], counts: list[int]
) -> None:
    wanted = {share: count for share, count in zip(sizes, counts, strict=False) if count}
    pods = [share for share, count in wanted.items() for _ in range(count)]
    if not pods:
        return
    decided = _decide(cluster(nodes), wanted)
    assert (decided.placed() == ["g"]) == can_place(pods, nodes)
    _check_devices(decided, nodes)


@holds(30)
@given(
    clusters,
    st.dictionaries(
        st.integers(1, 10).map(lambda each: each * 100), st.integers(1, 2), min_size=1, max_size=3
    ),
)
def test_shares_that_are_no_multiples_never_exceed_a_device(nodes: Nodes, wanted: dict[int, int]) -> None:
    """Decoding refuses such gangs, but capacity may be held for their lost members."""
    decided = _decide(cluster(nodes), wanted)
    _check_devices(decided, nodes)


def _decide(scenario: Scenario, wanted: dict[int, int]) -> Decided:
    for number, (share, count) in enumerate(wanted.items()):
        if number == 0:
            scenario.gang("g", count, share=share, role=f"r{share}")
        else:
            scenario.role("g", count, share=share, role=f"r{share}")
    pods = scenario.members("g")
    return scenario.change("g", min_member=len(pods)).decide()


def _check_devices(decided: Decided, nodes: Nodes) -> None:
    for (node, device), amount in taken(decided).items():
        assert amount <= nodes[int(node[1 : node.index("-")])][0][device]
    assert decided.result.stats.errors == ()
