"""Same snapshot, same configuration, same result, byte for byte."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from phalanx.cycle import decide
from phalanx.framework.config import SchedulerConfig
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.memory import Memory
from phalanx.model.names import GangId
from phalanx.model.nodes import Taint
from phalanx.model.queues import Flavor, Objective
from phalanx.model.resources import CPU, GPU
from phalanx.model.snapshot import Snapshot
from phalanx.model.supplies.known import read_parts

from tests.builders import Scenario
from tests.hash_seeds import printed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def busy() -> Scenario:
    """Queues with limits, racks, roles, elastic, incomplete and refused gangs."""
    scenario = Scenario("zone", "rack").queue("a", limit={GPU: 30}).queue("all", weight=3)
    scenario.queue("b", parent="all", flavors=[Flavor("x", (("group", "x"),), {GPU: 9})])
    for index in range(6):
        scenario.nodes(f"n{index}", 4, gpu=8, within=f"z{index // 3}/r{index}", used={CPU: 50 * index})
    scenario.nodes("x", 3, gpu=8, within="z1/r9", taints=[Taint("soft", "PreferNoSchedule")])
    scenario.nodes("old", 2, gpu=8, cordoned=True)
    scenario.nodes("s", 4, shared=2).queue("single", objective=Objective.LEAST_FRAGMENTATION)
    for index in range(10):
        scenario.gang(f"s{index}", 1, share=(300, 500)[index % 2], cpu=1 + index % 3, queue="single")
        scenario.gang(f"w{index}", 1, gpu=1 + index % 2, cpu=3, selector={"group": "x"}, queue="single")
    for name in ("torn", "broken", "half"):
        scenario.gang(name, 30, gpu=8, bound=1, queue="b")
    scenario.memory = Memory(partial_since={GangId(f"gang-{name}"): 0 for name in ("torn", "broken", "half")})
    scenario.gang("run", 4, gpu=4, bound=4, queue="a", priority=2).lose("run")
    for index in range(12):
        queue, level = ("a", "b", "default")[index % 3], (None, "rack", "zone")[index % 3]
        scenario.gang(f"g{index}", 2 + index, min=1 + index, gpu=1 + index % 5, queue=queue, required=level)
        scenario.role(f"g{index}", 2, role="ps", cpu=3)
        scenario.gang(f"p{index}", 4, gpu=2, priority=index % 2, queue=queue, preferred="rack")
    scenario.queue("kept", guarantee={GPU: 5})
    for index in range(3):
        stays = {"disruption": Disruption(preemptible=False), "start_by": scenario.now + (index - 1) * 1000}
        scenario.gang(f"stays{index}", 2, gpu=2, queue="kept", **stays)
    return scenario.gang("huge", 999, gpu=1).gang("lost", 1, queue="nowhere")


def encoded(snapshot: Snapshot) -> bytes:
    return msgspec.json.encode(decide(snapshot, SchedulerConfig()))


def test_the_scenario_covers_all_kinds_of_decisions() -> None:
    result = busy().decide().result
    assert {each.cause for each in result.placements} == {"start", "replace", "surplus"}
    assert len(result.evictions) == 3
    assert len({each.reason for each in result.verdicts}) > 4


def test_the_same_snapshot_gives_the_same_result() -> None:
    snapshot = busy().snapshot()
    assert encoded(snapshot) == encoded(snapshot)


def test_the_order_of_the_input_does_not_matter() -> None:
    assert len({encoded(busy().snapshot(shuffle)) for shuffle in range(5)}) == 1


def test_a_decoded_snapshot_gives_the_same_result() -> None:
    snapshot = busy().snapshot()
    written = msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot)
    again = replace(written, supplies=read_parts(written.supplies))
    assert encoded(again) == encoded(snapshot)


def test_hash_seeds_do_not_matter() -> None:
    outputs = {_in_a_process(seed) for seed in ("0", "1", "4711")}
    assert outputs == {encoded(busy().snapshot())}


def _in_a_process(seed: str) -> bytes:
    code = (
        "import sys; from tests.cycle.test_determinism import busy, encoded; "
        "sys.stdout.buffer.write(encoded(busy().snapshot()))"
    )
    return printed("-c", code, hash_seed=seed)
