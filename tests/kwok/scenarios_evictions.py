"""Evictions for another gang: by priority in a queue, and by fair share between queues."""

from tests.e2e.workloads import queue
from tests.kwok.manifests import Manifest
from tests.kwok.site import Site

_REASON = "Preempted"


def _priority(name: str, value: int) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


async def a_gang_of_higher_priority_preempts_a_complete_gang(site: Site) -> None:
    """The victims get the reason and their grace period, and start again when there is capacity."""
    await site.add_nodes("r1", "r1")
    high, team = f"{site.name}-high", f"{site.name}-team"
    await site.create(_priority(high, 1000), queue(team, disruption={"allowNonPreemptible": True}))
    await site.add_gang("low", size=4, gpus=2, spec={"queue": team})
    await site.runs("low", 4)
    await site.add_gang("other", size=4, gpus=2, spec={"queue": team, "disruption": {"preemptible": False}})
    await site.runs("other", 4)
    victims = site.uids("low")
    await site.add_gang("high", size=2, gpus=4, spec={"queue": team}, priority_class=high)
    await site.runs("high", 2)
    assert site.evicted("low") == {_REASON}
    assert site.evicted("other") == set()
    assert _had_grace_period(site, victims)
    await _described(
        site, "low", victims, f"{site.name}/high", f"its priority 1000 is above 0 of {site.name}/low"
    )
    await site.waits("low", "InsufficientCapacity")
    await site.add_nodes("r1")
    await site.runs("low", 4)
    assert victims.isdisjoint(site.uids("low"))


async def a_queue_reclaims_its_guarantee(site: Site) -> None:
    """And no more: one of the two gangs on borrowed capacity keeps running."""
    await site.add_nodes("r1", "r1")
    lender, borrower = f"{site.name}-lender", f"{site.name}-borrower"
    await site.create(queue(borrower), queue(lender, guarantee={"nvidia.com/gpu": 8}, weight=1))
    for name in ("one", "two"):
        await site.add_gang(name, size=4, gpus=2, spec={"queue": borrower})
        await site.runs(name, 4)
    victims = {name: site.uids(name) for name in ("one", "two")}
    await site.add_gang("own", size=4, gpus=2, spec={"queue": lender})
    await site.runs("own", 4)
    gone = [name for name in ("one", "two") if site.evicted(name)]
    assert len(gone) == 1
    assert site.evicted(gone[0]) == {_REASON}
    await site.waits(gone[0], "InsufficientCapacity")
    assert _had_grace_period(site, victims[gone[0]], gone[0])
    reason = f"queue {borrower} uses more than its guarantee"
    await _described(site, gone[0], victims[gone[0]], f"{site.name}/own of queue {lender}", reason)


def _had_grace_period(site: Site, uids: set[str], gang: str = "low") -> bool:
    """Whether all of them were observed while terminating: none was killed at once."""
    pods = [each.pod.metadata for each in site.events(gang)]
    seen = {
        pod.uid for pod in pods if pod.deletion_timestamp is not None and pod.deletion_grace_period_seconds
    }
    return uids <= seen


async def _described(site: Site, victim: str, uids: set[str], *words: str) -> None:
    """Condition and event of the victims name the beneficiary and the reason."""
    messages = {
        each.message
        for seen in site.events(victim)
        for each in seen.pod.status.conditions
        if each.type == "DisruptionTarget"
    }
    assert len(messages) == 1, messages
    (message,) = messages
    assert all(word in message for word in words), message

    def complete(events: Manifest) -> bool:
        found = [each for each in events["items"] if each["reason"] == _REASON and each["note"] == message]
        return uids <= {each["regarding"]["uid"] for each in found}

    await site.object_until(f"/apis/events.k8s.io/v1/namespaces/{site.name}/events", complete)


SCENARIOS = (
    a_gang_of_higher_priority_preempts_a_complete_gang,
    a_queue_reclaims_its_guarantee,
)
