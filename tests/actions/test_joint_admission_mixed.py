"""Seeded random clusters: joint admission starts every gang that allocation alone starts."""

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from phalanx.actions import joint_admission as admit
from phalanx.actions.problems.placement import DemandPlacement
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit, SharedLacking, Statement
from phalanx.model.gangs import SubgroupSpec
from phalanx.model.names import NodeName, PodUid
from phalanx.model.pods import Pod

from tests.builders import Decided, Scenario, term

SEEDS = range(24)
HELPED = {0: {"g2"}, 8: {"g0"}, 17: {"g2"}, 18: {"g3"}}
"""Gangs with subgroups that start only because other gangs are moved, by seed."""
LEVELS = ("spine", "rack")


def scenario_of(seed: int) -> Scenario:
    """Two spines of two racks, gangs of several kinds that request more than exists.

    Gangs without a level are placed first and use the fuller nodes of racks that others could need whole.
    """
    rng = random.Random(seed)
    scenario = Scenario(*LEVELS).nodes("spare", 2, gpu=8, within="s1/spare")
    for index in range(2):
        scenario.gang(f"first{index}", rng.randint(1, 2), gpu=8)
    for index in range(4):
        within = f"s{index // 2}/r{index}"
        scenario.nodes(f"r{index}", rng.randint(2, 3), gpu=8, within=within)
        scenario.nodes(f"r{index}-full", 1, gpu=8, cpu=32, within=within)
        scenario.nodes(f"r{index}-shared", 1, shared=2, within=within)
    for index in range(rng.randint(3, 6)):
        add_gang(scenario, f"g{index}", rng)
    return scenario


def add_gang(scenario: Scenario, name: str, rng: random.Random) -> None:
    kind = rng.choice(
        ("plain", "plain", "divided", "divided", "segments", "some", "odd", "share", "half", "apart")
    )
    if kind == "plain":
        scenario.gang(name, rng.randint(1, 5), gpu=8, required=rng.choice((None, "rack", "spine")))
    elif kind == "share":
        scenario.gang(name, rng.randint(1, 3), share=rng.choice((250, 500)))
    elif kind == "apart":
        scenario.gang(name, rng.randint(1, 2), gpu=4, labels={"app": "x"}, apart=[term(app="x")])
    elif kind == "half":
        scenario.gang(name, rng.randint(1, 3), gpu=4, required="spine", priority=rng.randint(0, 1))
    else:
        parts = tuple(parts_of(kind, rng))
        inner = Counter({part.parent: part.min_member for part in parts if part.parent})
        own = [part.name for part in parts for _ in range(part.min_member - inner[part.name])]
        few = 1 if kind == "some" else 0
        minimum = min(part.min_member for part in parts) if few else len(own)
        scenario.gang(name, len(own), min=minimum, gpu=8, subgroups=parts, min_subgroups=few)
        members = zip(scenario.members(name), own, strict=True)
        scenario.change(name, members=tuple(replace(pod, subgroup=part) for pod, part in members))


def parts_of(kind: str, rng: random.Random) -> Iterator[SubgroupSpec]:
    if kind == "segments":
        yield SubgroupSpec("a", rng.choice((4, 6)), required="rack", segment=2)
    elif kind == "odd":
        yield SubgroupSpec("a", 4, required="rack", segment=2)
        yield SubgroupSpec("b", 1, parent="a", required="spine")
    else:
        for part in ("a", "b"):
            level = rng.choice(("rack", "rack", "spine", None))
            yield SubgroupSpec(part, rng.randint(2, 4), required=level)


def violations(scenario: Scenario, result: Decided) -> list[str]:
    """Describe the violated constraints of all placements: levels, segments, capacity."""
    snapshot = scenario.snapshot(1)
    apart = [
        node
        for gang in snapshot.gangs.values()
        if gang.members[0].shape.anti_affinity
        for node in result.nodes(gang.name)
    ]
    wrong, used, shared = list[str](), Counter[str](), Counter[tuple[str, int]]()
    for bind in (bind for each in result.result.placements for bind in each.binds):
        if bind.device is not None:
            shared[bind.node, bind.device.index] += bind.device.taken
    wrong += [f"{amount} of a device" for amount in shared.values() if amount > 1000]
    for gang in snapshot.gangs.values():
        where = {bind.pod: bind.node for each in result.placements(gang.name) for bind in each.binds}
        placed = [pod for pod in gang.members if pod.uid in where]
        for pod in placed:
            used[where[pod.uid]] += pod.shape.requests.get("nvidia.com/gpu", 0)

        def domains(
            level: str, pods: list[Pod], where: dict[PodUid, NodeName] = where
        ) -> Counter[tuple[str, ...]]:
            depth = LEVELS.index(level) + 1
            nodes = [snapshot.nodes[where[pod.uid]].node for pod in pods]
            return Counter(tuple(node.labels[f"test/{each}"] for each in LEVELS[:depth]) for node in nodes)

        if gang.topology.required and len(domains(gang.topology.required, placed)) > 1:
            wrong.append(f"{gang.name} in several {gang.topology.required}s")
        for part in gang.subgroups:
            inside = {part.name, *(one.name for one in gang.subgroups if one.parent == part.name)}
            counts = (
                domains(part.required, [p for p in placed if p.subgroup in inside]) if part.required else {}
            )
            if part.segment and any(count % part.segment for count in counts.values()):
                wrong.append(f"{gang.name}: {part.name} in broken segments")
            if not part.segment and len(counts) > 1:
                wrong.append(f"{gang.name}: {part.name} in several {part.required}s")
    if len(set(apart)) < len(apart):
        wrong.append("two pods with anti-affinity on one node")
    return wrong + [f"{count} GPUs on {node}" for node, count in used.items() if count > 8]


@pytest.mark.parametrize("seed", SEEDS)
def test_joint_admission_starts_a_superset_of_the_gangs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = scenario_of(seed)
    together = scenario.decide()
    assert violations(scenario, together) == []
    monkeypatch.setattr(admit, "improve", lambda _: False)
    alone = set(scenario.decide().placed())
    assert alone | HELPED.get(seed, set()) <= set(together.placed())
    assert alone.isdisjoint(HELPED.get(seed, set()))


@pytest.mark.parametrize(
    ("error", "is_reported"),
    [(SharedLacking("claims"), False), (DoesNotFit("no capacity"), True)],
)
def test_a_joint_solution_that_cannot_be_applied_changes_nothing(
    error: Exception, monkeypatch: pytest.MonkeyPatch, *, is_reported: bool
) -> None:
    """Claims may get other devices and volumes in another order. Capacity must be enough in any order."""
    original, refused = admit.apply_placement, list[DemandPlacement]()

    def apply(session: Session, placement: DemandPlacement) -> Statement:
        if placement.is_joint:
            refused.append(placement)
            raise error
        return original(session, placement)

    monkeypatch.setattr(admit, "apply_placement", apply)
    decided = scenario_of(0).decide()
    assert refused
    assert bool(decided.result.stats.errors) is is_reported
    monkeypatch.setattr(admit, "improve", lambda _: False)
    alone = scenario_of(0).decide()
    assert {name: decided.where(name) for name in decided.placed()} == {
        name: alone.where(name) for name in alone.placed()
    }


def test_placements_that_cannot_be_made_in_another_order_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where claims get other devices then. What was made before that is taken back."""
    original, calls = admit.apply_placement, Counter[str]()

    def apply(session: Session, placement: DemandPlacement) -> Statement:
        calls["again"] += 1
        if calls["again"] == 2:
            raise DoesNotFit("no devices")
        return original(session, placement)

    monkeypatch.setattr(admit, "apply_placement", apply)
    decided = scenario_of(0).decide()
    assert calls["again"] > 2
    assert not decided.result.stats.errors
    monkeypatch.setattr(admit._JointAdmission, "_improve_on", lambda *_, **__: False)
    assert {*scenario_of(0).decide().placed()} <= {*decided.placed()}
