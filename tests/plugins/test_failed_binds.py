"""A gang is not tried during its back-off after a failed bind, and is tried after it."""

from msgspec.structs import replace
from phalanx.model.pods import BindBackoff
from phalanx.model.reasons import Reason

from tests.builders import Scenario


def in_back_off(until: int) -> Scenario:
    scenario = Scenario().nodes("n", 2).gang("g", 2)
    first, second = scenario.members("g")
    bind_backoff = BindBackoff(until=until, failures=2, why="denied by a webhook")
    return scenario.change("g", members=(first, replace(second, bind_backoff=bind_backoff)))


def test_it_is_not_tried_before_the_back_off_ends() -> None:
    scenario = in_back_off(until=Scenario().now + 1)
    result = scenario.decide()
    assert result.placed() == []
    assert result.reasons() == {"g": Reason.BACKOFF_AFTER_FAILURE}
    assert "failed 2 times: denied by a webhook" in result.verdict("g").message
    assert result.result.wake_at == scenario.now + 1


def test_it_is_tried_when_the_back_off_ends() -> None:
    assert in_back_off(until=Scenario().now).decide().placed() == ["g"]
