"""A gang that found no victims searches again when more may be evicted for it, although nothing became free.

In each case a gang that waits and preempts nobody is gone, or arrives: only the demand changes by that.
"""

from collections.abc import Callable
from typing import Any

from phalanx.framework.retry import RetryConfig
from phalanx.model.api.pod_groups import Disruption
from phalanx.model.resources import CPU, GPU

from tests.actions.guarantees_cases import begin
from tests.builders import Scenario

PERIOD_MS = RetryConfig().victim_search_ms


def ask(scenario: Scenario, name: str, gpu: int, cpu: int, queue: str, **fields: Any) -> None:
    """Add a gang of one pod: a running one with `on`; each starts a minute after the one before."""
    scenario.gang(name, 1, gpu=gpu, cpu=cpu, memory=0, queue=queue, **fields)
    begin(scenario)
    scenario.now += 60_000


def ask_quietly(scenario: Scenario, name: str, gpu: int, cpu: int, queue: str, **fields: Any) -> None:
    """Add demand that evicts nobody."""
    ask(scenario, name, gpu, cpu, queue, preemption_policy="Never", **fields)


def nothing_is_found(scenario: Scenario) -> None:
    """No gang finds victims in two cycles, a long time apart."""
    for _ in range(2):
        decided = scenario.decide()
        assert (decided.evicted(), decided.placed()) == ([], [])
        scenario.take(decided)
        scenario.now += 10 * PERIOD_MS


def found_later(scenario: Scenario, change: Callable[[], object]) -> list[str]:
    """What is evicted half a minute after the search that a change makes necessary, and nothing before."""
    nothing_is_found(scenario)
    change()
    evicted: list[str] = []
    for _ in range(3):
        decided = scenario.decide()
        evicted += decided.evicted()
        scenario.take(decided)
        scenario.now = max(scenario.now + 1, decided.result.wake_at or 0)
    return sorted(evicted)


def without(scenario: Scenario, name: str) -> Callable[[], object]:
    """The change that a waiting gang is gone."""
    return lambda: scenario._gangs.pop(name)


def test_when_a_guarantee_covers_the_gang_further() -> None:
    """With d0 d is above its share of cores while d1 waits. By fair shares c keeps its guarantee of cores."""
    scenario = Scenario().nodes("n", 1, gpu=1, cpu=6).nodes("m", 1, gpu=1, cpu=2)
    scenario.queue("c", weight=9, guarantee={CPU: 3000}).queue("d", guarantee={GPU: 1})
    ask(scenario, "c0", 1, 2, "c", on=["m-0"])
    ask(scenario, "c1", 1, 6, "c", on=["n-0"])
    scenario.gang("d1", 2, gpu=1, cpu=1, memory=0, queue="d", preemption_policy="Never")
    ask(scenario, "d0", 1, 2, "d", selector={"group": "n"})
    assert found_later(scenario, without(scenario, "d1")) == ["c1-0"]


def test_when_guarantees_cover_a_victim_less() -> None:
    """c1 uses more cores than belong to its GPU: it is covered in GPUs only, enough until cores are short."""
    scenario = Scenario().nodes("n", 1, gpu=2, cpu=8).nodes("m", 1, gpu=1, cpu=32)
    scenario.queue("c", guarantee={GPU: 1}).queue("d", guarantee={GPU: 1, CPU: 4000}).queue("e")
    ask(scenario, "c1", 1, 8, "c", on=["n-0"])
    ask(scenario, "c0", 1, 30, "c", on=["m-0"])
    ask(scenario, "d0", 1, 1, "d", selector={"group": "n"})
    arrival = {"selector": {"group": "m"}}
    assert found_later(scenario, lambda: ask_quietly(scenario, "e0", 0, 4, "e", **arrival)) == ["c1-0"]


def test_when_the_gang_is_within_its_fair_share() -> None:
    """The share of d grows from 2 to 3 GPUs, that of c stays 2: now the last gang may bring c below it."""
    scenario = Scenario().nodes("n", 1, gpu=3).nodes("m", 1, gpu=3)
    for queue, weight in {"c": 20, "d": 21, "e": 10, "f": 9}.items():
        scenario.queue(queue, weight=weight)
    ask(scenario, "c0", 1, 0, "c", on=["m-0"])
    ask(scenario, "c1", 3, 0, "c", on=["n-0"])
    ask(scenario, "f0", 2, 0, "f", on=["m-0"])
    ask_quietly(scenario, "e0", 1, 0, "e")
    ask(scenario, "d0", 3, 0, "d", selector={"group": "n"})
    assert found_later(scenario, without(scenario, "e0")) == ["c1-0"]


def test_when_guarantees_cover_less_than_a_whole_gang() -> None:
    """Of c1 one pod is surplus that no guarantee covers. The other one is covered until cores are short, of
    which it uses more than belong to its GPU."""
    scenario = Scenario().nodes("n", 1, gpu=2, cpu=8).nodes("m", 1, gpu=2, cpu=10)
    scenario.queue("c", guarantee={GPU: 1}).queue("d", guarantee={GPU: 1, CPU: 4000}).queue("e")
    scenario.gang("c1", 2, min=1, gpu=1, cpu=8, memory=0, queue="c", on=["n-0", "m-0"])
    ask(scenario, "d0", 1, 1, "d", selector={"group": "n"})
    arrival = {"selector": {"group": "m"}}
    gone = found_later(scenario, lambda: ask_quietly(scenario, "e0", 0, 4, "e", **arrival))
    assert gone == ["c1-0", "c1-1"]


def test_when_the_only_candidate_is_not_preemptible() -> None:
    """Without a guarantee of GPUs it is protected from all but those inside such a guarantee, as d0 is."""
    scenario = Scenario().nodes("n", 1, gpu=1, cpu=6).nodes("m", 1, gpu=1, cpu=2)
    scenario.queue("c", guarantee={CPU: 3000}).queue("d", guarantee={GPU: 1}).queue("f", guarantee={GPU: 1})
    ask(scenario, "f0", 1, 2, "f", on=["m-0"])
    ask(scenario, "c0", 1, 6, "c", on=["n-0"], disruption=Disruption(preemptible=False))
    scenario.gang("d1", 2, gpu=1, cpu=1, memory=0, queue="d", preemption_policy="Never")
    ask(scenario, "d0", 1, 2, "d", selector={"group": "n"})
    assert found_later(scenario, without(scenario, "d1")) == ["c0-0"]


def test_not_for_a_gang_that_is_never_evicted() -> None:
    """c is entitled to less when e0 arrives, but d0 is inside no guarantee."""
    scenario = Scenario().nodes("n", 1, gpu=4).queue("c").queue("d").queue("e")
    ask(scenario, "c0", 4, 0, "c", on=["n-0"], disruption=Disruption(preemptible=False))
    ask(scenario, "d0", 1, 0, "d")
    scenario.take(scenario.decide())
    scenario.gang("e0", 1, gpu=4, cpu=0, memory=0, queue="e", preemption_policy="Never")
    assert scenario.decide().result.wake_at is None


def test_when_no_other_queue_lacks_its_share_any_more() -> None:
    """With 4 GPUs a was above its share while b waited for the node of a0. No gang of another queue runs."""
    scenario = Scenario().nodes("n", 1, gpu=2).nodes("m", 1, gpu=2).queue("a").queue("b")
    ask(scenario, "a0", 2, 0, "a", on=["n-0"])
    ask_quietly(scenario, "b0", 2, 0, "b", selector={"group": "n"})
    scenario.gang("a1", 2, gpu=2, cpu=0, memory=0, queue="a", priority=9)
    assert found_later(scenario, without(scenario, "b0")) == ["a0-0"]
