"""Which PodGroups of Volcano wait for this scheduler, in whatever order Jobs and PodGroups are seen."""

from itertools import permutations
from typing import Any

import pytest
from phalanx.model.api.volcano import VolcanoJob, VolcanoPodGroup
from phalanx.model.events import Applied, Deleted, Relisted
from phalanx.model.names import GangId
from phalanx.service.volcano_jobs import VolcanoJobs

from tests.model.written import other_pod_group

Event = Applied | Deleted | Relisted

GROUP = GangId("group")


def job(scheduler: str = "phalanx", *, uid: str = "job") -> VolcanoJob:
    return other_pod_group(VolcanoJob, "train", uid=uid, schedulerName=scheduler)


def group(phase: str = "Pending", *, owner: str = "job", uid: str = "group") -> VolcanoPodGroup:
    owners = [{"kind": "Job", "name": "train", "uid": owner, "controller": True}] if owner else []
    meta = {"ownerReferences": owners}
    return other_pod_group(VolcanoPodGroup, "train", uid=uid, meta=meta, status={"phase": phase})


def after(*events: Event) -> VolcanoJobs:
    jobs = VolcanoJobs(scheduler_name="phalanx")
    for event in events:
        jobs.apply(event)
    return jobs


def deleted(kind: str) -> Deleted:
    return Deleted(kind, "team", "train")


def relisted(kind: str, *objects: Any, unreadable: bool = False) -> Relisted:
    return Relisted(kind, objects, (("team", "train"),) if unreadable else ())


@pytest.mark.parametrize(
    ("events", "waits"),
    [
        ((Applied(job()), Applied(group())), True),
        ((Applied(job()), Applied(group(""))), True),
        ((Applied(job()), Applied(group("Inqueue"))), False),
        ((Applied(job()), Applied(group("Running"))), False),
        ((Applied(job("volcano")), Applied(group())), False),
        ((Applied(job("")), Applied(group())), False),
        ((Applied(job()), Applied(group(owner=""))), False),
        ((Applied(job()), Applied(group(owner="another"))), False),
        ((Applied(group()),), False),
    ],
)
def test_a_pending_pod_group_of_a_job_of_this_scheduler_waits(events: tuple[Event, ...], waits: bool) -> None:
    for order in permutations(events):
        jobs = after(*order)
        assert jobs.is_waiting(GROUP) == waits
        assert jobs.waiting() == ([GROUP] if waits else [])


@pytest.mark.parametrize(
    ("event", "waits"),
    [
        (Applied(group("Inqueue")), False),
        (Applied(job("volcano")), False),
        (Applied(job(uid="recreated")), False),
        (deleted("VolcanoJob"), False),
        (deleted("VolcanoPodGroup"), False),
        (deleted("Pod"), True),
        (relisted("VolcanoJob"), False),
        (relisted("VolcanoJob", job()), True),
        (relisted("VolcanoJob", unreadable=True), True),
        (relisted("VolcanoPodGroup"), False),
        (relisted("VolcanoPodGroup", group()), True),
        (relisted("VolcanoPodGroup", unreadable=True), True),
        (relisted("Pod"), True),
    ],
)
def test_it_waits_until_one_of_them_changes_or_is_gone(event: Event, waits: bool) -> None:
    jobs = after(Applied(job()), Applied(group()), event)
    assert jobs.is_waiting(GROUP) == waits
    assert jobs.waiting() == ([GROUP] if waits else [])


def test_a_job_that_comes_later_returns_the_pod_groups_that_wait_for_it() -> None:
    jobs = after(Applied(group()))
    assert jobs.apply(Applied(job())) == [GROUP]
    assert jobs.apply(Applied(job("volcano"))) == []
    assert jobs.apply(relisted("VolcanoJob", job())) == [GROUP]


def test_a_recreated_pod_group_waits_in_place_of_the_old_one() -> None:
    jobs = after(Applied(job()), Applied(group()), Applied(group(uid="new")))
    assert (jobs.is_waiting(GROUP), jobs.waiting()) == (False, [GangId("new")])
