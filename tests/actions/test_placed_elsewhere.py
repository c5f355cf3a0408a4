"""Placements that are found after a first one was not possible, for lack of volumes or devices."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from phalanx.actions.problems import placer
from phalanx.actions.problems.placement import Lacking
from phalanx.model.memory import Avoided
from phalanx.model.names import GangId, NodeName
from phalanx.model.supplies.supply import SessionSupply

from tests.builders import Scenario

LONG = 10**12


@pytest.mark.parametrize(("large", "is_proven"), [(8, False), (1, True)])
def test_a_placement_is_not_proven_if_a_node_that_was_left_out_is_better(
    monkeypatch: pytest.MonkeyPatch, large: int, is_proven: bool
) -> None:
    """The gang avoids the rack that might hold all of it. Its first placement in the others is declined."""
    scenario = Scenario("rack")
    for number in range(4):
        scenario.nodes(f"r{number}", 1, gpu=1 if number else large, within=f"rack{number}")
    scenario.gang("g", 2, gpu=1, preferred="rack")
    avoided = {NodeName("r0-0"): Avoided(LONG, 1)}
    scenario.memory = replace(scenario.memory, avoided={GangId("gang-g"): avoided})
    declines: Iterator[Lacking] = iter([Lacking(SessionSupply(), "too few")])
    monkeypatch.setattr(placer, "lacking_of", lambda *_: next(declines, None))
    decided = scenario.decide()
    assert len(decided.nodes("g")) == 2
    assert "r0-0" not in decided.nodes("g")
    certificate = decided.placements("g")[0].certificate
    assert certificate is not None
    assert certificate.objective[0] == 2
    assert certificate.proven is is_proven
