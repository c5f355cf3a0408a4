"""The status of a PodGroup, for each state of a gang."""

from typing import Any

import msgspec
import pytest
from phalanx.limits import CONDITION_MESSAGE_MAX_BYTES
from phalanx.model.api.native_pod_groups import NativePodGroup
from phalanx.model.api.pod_groups import RESERVED, Counts, PodGroupSpec, PodGroupStatus, StartStatus
from phalanx.model.decisions import Certificate, Placement
from phalanx.model.dialects.native import INITIALLY_SCHEDULED, NATIVE
from phalanx.model.gangs import Gang, RoleSpec
from phalanx.model.pod_failures import FailedContainer, PodFailure
from phalanx.model.pods import Controller
from phalanx.model.reasons import Evidence, ExpectedStart, Reason, Verdict
from phalanx.service.pod_group_status import (
    GangReport,
    reported_gang,
    status_of,
    status_without_members,
)

from tests.model.written import native_pod_group
from tests.service.members import (
    ASSUMED,
    BOUND,
    DELETING,
    FAILED,
    GANG,
    RUNNING,
    SUCCEEDED,
    WAITING,
    gang,
)

NOW_MS = 1_790_000_000_000
RESERVING = PodGroupSpec(min_member=2, start_when=RESERVED)
NOW = "2026-09-21T14:13:20Z"
REFUSED = Verdict(
    gang=GANG,
    group="team/train",
    reason=Reason.INSUFFICIENT_CAPACITY,
    message="needs 2, 1 is free.",
    next_step="Free 1 more.",
)
CERTIFICATE = Certificate(
    terms=("racks",), objective=(2,), bound=(1,), proven=False, by="greedy", fingerprint="f"
)
PLACED = Placement(
    gang=GANG,
    group="team/train",
    cycle=3,
    cause="start",
    binds=(),
    certificate=CERTIFICATE,
    level="rack",
    domain="z1/r1",
)


NO_REPORT = GangReport()
NEW = PodGroupStatus()


def status(of: Gang, report: GangReport = NO_REPORT, before: PodGroupStatus = NEW) -> PodGroupStatus:
    return status_of(of, report, before=before, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("members", "phase"),
    [
        ((), "Pending"),
        ((WAITING, WAITING), "Pending"),
        ((ASSUMED, ASSUMED), "Scheduling"),
        ((BOUND, WAITING), "Scheduling"),
        ((BOUND, ASSUMED), "Scheduling"),
        ((BOUND, BOUND), "Running"),
        ((RUNNING, RUNNING), "Running"),
        ((SUCCEEDED, RUNNING), "Running"),
        ((SUCCEEDED, SUCCEEDED), "Finished"),
        ((SUCCEEDED, SUCCEEDED, FAILED), "Finished"),
        ((FAILED, FAILED), "Failed"),
        ((FAILED, SUCCEEDED), "Failed"),
        ((FAILED, WAITING), "Pending"),
        ((DELETING, WAITING), "Pending"),
    ],
)
def test_phase(members: tuple[dict[str, object], ...], phase: str) -> None:
    assert status(gang(*members)).phase == phase


STARTED = PodGroupStatus(started_at="2026-09-21T10:00:00Z")
KILLED = {**FAILED, "failed": FailedContainer("main", 137, "OOMKilled"), "failure": PodFailure.CONTAINER}
OF_JOB = {"controller": Controller("Job", "train", "job-uid")}


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ((RUNNING, WAITING), "1 of 2 members is left; 1 pod is waiting for a node"),
        ((RUNNING, ASSUMED), "1 of 2 members is left; 1 pod is being bound"),
        ((RUNNING | OF_JOB,), "1 of 2 members is left; 1 pod is to be created by Job train"),
        (
            (RUNNING, DELETING),
            "1 of 2 members is left; 1 pod is being deleted; 1 pod is to be created",
        ),
        (
            (RUNNING, KILLED, WAITING),
            (
                "1 of 2 members is left; pod pod-1 failed: container main ended with exit code 137 "
                "(OOMKilled); 1 pod is waiting for a node"
            ),
        ),
        ((SUCCEEDED, WAITING), "1 of 2 members is left; 1 pod is waiting for a node"),
    ],
)
def test_a_started_gang_with_fewer_members_than_its_minimum_is_degraded(
    members: tuple[dict[str, object], ...], text: str
) -> None:
    found = status(gang(*members), before=STARTED)
    assert (found.phase, found.started_at) == ("Degraded", STARTED.started_at)
    assert (found.reason, found.message) == ("MembersMissing", text)
    conditions = {each.type: (each.status, each.reason, each.message) for each in found.conditions}
    assert conditions == {
        "Scheduled": ("False", "Degraded", text),
        "Degraded": ("True", "MembersMissing", text),
    }


def test_a_degraded_gang_has_the_verdict_on_its_waiting_members() -> None:
    found = status(gang(RUNNING, WAITING), GangReport(verdict=REFUSED), before=STARTED)
    assert (found.phase, found.reason, found.message) == ("Degraded", REFUSED.reason, REFUSED.message)
    [scheduled, degraded] = found.conditions
    assert (scheduled.status, scheduled.reason) == ("False", REFUSED.reason)
    assert degraded.message.startswith("1 of 2 members is left")


def test_a_role_may_lack_members_while_there_are_enough_in_all() -> None:
    roles = (RoleSpec("ps", 1, 1), RoleSpec("worker", 1, 1))
    one = msgspec.structs.replace(
        gang(RUNNING | {"role": "worker"}, RUNNING | {"role": "worker"}), roles=roles
    )
    assert status(one, before=STARTED).message == "missing members: 1 of ps"


def test_a_started_gang_with_its_minimum_is_running() -> None:
    assert status(gang(RUNNING, RUNNING, FAILED, WAITING), before=STARTED).phase == "Running"
    assert status(gang(SUCCEEDED, RUNNING), before=STARTED).phase == "Running"


def test_members_that_have_succeeded_and_are_gone_are_not_missing() -> None:
    assert status(gang(SUCCEEDED, RUNNING, min_member=4), before=STARTED).phase == "Running"


def test_five_failed_members_are_three_names_and_a_number() -> None:
    text = status(gang(RUNNING, *[FAILED] * 5, min_member=6), before=STARTED).message or ""
    assert text.endswith("pod pod-3 failed; 2 more pods failed; 5 pods are to be created")


def test_a_gang_whose_pods_are_being_evicted_is_releasing() -> None:
    assert status(gang(BOUND, WAITING), GangReport(releasing=True)).phase == "Releasing"


def test_a_preemption_is_shown_until_the_gang_starts_again() -> None:
    evicted = GangReport(releasing=True, preempted="evicted for a")
    found = status(gang(RUNNING, DELETING), evicted)
    text = "evicted for a; the gang starts again when its pods exist and fit"
    assert texts_of_preemption(found) == [text]
    found = status_without_members(found, NO_REPORT, now_ms=NOW_MS)
    assert texts_of_preemption(found) == [text]
    found = status(gang(WAITING, WAITING), before=found)
    assert texts_of_preemption(found) == [text]
    assert texts_of_preemption(status(gang(BOUND, BOUND), before=found)) == []


def test_a_preemption_is_shown_also_if_the_pods_are_gone_before_it_is_written() -> None:
    before = status(gang(RUNNING, RUNNING))
    found = status_without_members(before, GangReport(preempted="evicted for a"), now_ms=NOW_MS)
    assert len(texts_of_preemption(found)) == 1


def texts_of_preemption(found: PodGroupStatus) -> list[str]:
    return [each.message for each in found.conditions if each.type == "Preempted"]


def test_a_gang_that_lost_a_member_before_the_first_status_write_has_started() -> None:
    """Otherwise the next leader would treat it as never started, and release it."""
    lost = msgspec.structs.replace(gang(RUNNING, DELETING), started=True)
    assert status(lost).started_at == NOW
    assert status(lost).phase == "Degraded"


def test_started_at_is_set_when_enough_members_are_bound_in_the_api() -> None:
    assert status(gang(ASSUMED, ASSUMED)).started_at is None
    assert status(gang(BOUND, BOUND)).started_at == NOW


def test_counts_exclude_deleting_members_and_count_assumed_ones_as_pending() -> None:
    found = status(gang(WAITING, ASSUMED, BOUND, RUNNING, SUCCEEDED, FAILED, DELETING)).counts
    assert found == Counts(total=7, pending=2, bound=1, running=1, succeeded=1, failed=1)


def test_a_verdict_is_shown_while_members_wait() -> None:
    report = GangReport(verdict=REFUSED, position=4)
    waiting = status(gang(WAITING, WAITING), report)
    assert (waiting.reason, waiting.message) == ("InsufficientCapacity", "needs 2, 1 is free.")
    assert (waiting.next_step, waiting.queue_position) == ("Free 1 more.", 4)
    assert (waiting.conditions[0].status, waiting.conditions[0].reason) == ("False", "InsufficientCapacity")
    running = status(gang(RUNNING, RUNNING), report)
    assert (running.reason, running.message, running.next_step, running.queue_position) == (None,) * 4
    assert running.conditions[0].status == "True"


def test_an_expected_start_is_shown_while_members_wait() -> None:
    start = ExpectedStart(at=60_000, earliest=0, latest=120_500, method="estimates")
    report = GangReport(verdict=msgspec.structs.replace(REFUSED, start=start))
    assert status(gang(WAITING), report).expected_start == StartStatus(
        at="1970-01-01T00:01:00Z",
        earliest="1970-01-01T00:00:00Z",
        latest="1970-01-01T00:02:00Z",
        method="estimates",
    )
    assert status(gang(WAITING), GangReport(verdict=REFUSED)).expected_start is None
    assert status(gang(RUNNING), report).expected_start is None


def test_the_condition_has_the_message_the_next_step_and_the_evidence() -> None:
    evidence = (
        Evidence("rack a", "fits 1 of 2 pods"),
        Evidence("nodes", "cordoned", 3),
        Evidence("nodes", "insufficient nvidia.com/gpu"),
    )
    found = status(
        gang(WAITING, WAITING), GangReport(verdict=msgspec.structs.replace(REFUSED, evidence=evidence))
    )
    assert found.conditions[0].message == (
        "needs 2, 1 is free. Free 1 more. rack a: fits 1 of 2 pods; nodes: 3 cordoned, "
        "1 insufficient nvidia.com/gpu"
    )


def test_the_next_step_is_never_cut_off() -> None:
    many = tuple(Evidence(f"pod team/x-{number}", "fits no node now") for number in range(200))
    found = status(gang(WAITING), GangReport(verdict=msgspec.structs.replace(REFUSED, evidence=many)))
    message = found.conditions[0].message
    assert len(message.encode()) == CONDITION_MESSAGE_MAX_BYTES
    assert "Free 1 more" in message


def test_placement_and_certificate_are_kept_in_later_cycles() -> None:
    first = status(gang(ASSUMED, ASSUMED), GangReport(placement=PLACED))
    assert first.placement is not None
    assert first.certificate is not None
    assert (first.placement.level, first.placement.domain) == ("rack", "z1/r1")
    assert (first.certificate.proven, first.certificate.objective) == (False, (2,))
    later = status(gang(RUNNING, RUNNING), before=first)
    assert (later.placement, later.certificate) == (first.placement, first.certificate)


def test_the_start_time_of_a_restarted_gang_is_removed() -> None:
    restarted = msgspec.structs.replace(gang(WAITING, WAITING), starts_over=True)
    before = PodGroupStatus(started_at=NOW)
    assert status_of(restarted, GangReport(), before=before, now_ms=NOW_MS).started_at is None
    assert status_of(gang(WAITING, WAITING), GangReport(), before=before, now_ms=NOW_MS).started_at == NOW


def test_a_gang_with_reserved_capacity_has_started_with_its_first_member() -> None:
    half = gang(RUNNING)
    assert status(half).started_at is None
    reserving = msgspec.structs.replace(half, spec=RESERVING)
    started = status(reserving)
    [condition] = started.conditions
    assert (started.phase, started.started_at, condition.status) == ("Running", NOW, "True")
    assert condition.message.endswith("capacity is reserved for the others")
    [condition] = status(msgspec.structs.replace(reserving, min_member=1)).conditions
    assert condition.message == "minMember pods are bound"


def test_an_expired_reservation_is_shown_until_all_members_are_bound() -> None:
    ended = msgspec.structs.replace(REFUSED, reason=Reason.RESERVATION_EXPIRED)
    reserving = msgspec.structs.replace(gang(RUNNING), spec=RESERVING)
    report = status(reserving, GangReport(verdict=ended))
    condition = report.conditions[0]
    assert (report.reason, report.message, condition.status) == ("ReservationExpired", ended.message, "False")
    assert report.phase == "Degraded"
    assert condition.message.startswith(ended.message)
    assert status(reserving, GangReport(verdict=REFUSED)).reason is None
    assert status(gang(RUNNING, RUNNING), GangReport(verdict=ended)).reason is None


def test_a_gang_that_failed_before_it_was_complete_was_never_scheduled() -> None:
    failed = status(gang(FAILED, FAILED))
    [condition] = failed.conditions
    assert (failed.phase, condition.status, condition.reason) == ("Failed", "False", "Failed")


@pytest.mark.parametrize(
    ("before", "after"), [("Running", "Pending"), ("Finished", "Finished"), ("Failed", "Failed")]
)
def test_a_gang_without_pods_has_no_counts(before: str, after: str) -> None:
    old = PodGroupStatus(phase=before, counts=Counts(total=2, running=2), started_at=NOW)
    empty = status_without_members(old, NO_REPORT, now_ms=NOW_MS)
    assert (empty.phase, empty.counts) == (after, Counts())
    assert (empty.started_at is None) == (after == "Pending")


# --- native PodGroups ---------------------------------------------------------------------------------------

WAITS = GangReport(verdict=REFUSED)
LONG_AGO = "2020-01-01T00:00:00Z"


def native_condition(of: Gang, report: GangReport, group: NativePodGroup) -> dict[str, Any] | None:
    assert NATIVE.status is not None
    write = NATIVE.status.wanted(reported_gang(of, report.verdict, now_ms=NOW_MS), group)
    if write is None:
        return None
    (condition,) = write.fields["conditions"]
    assert write.is_final == (condition["status"] == "True")
    return dict(condition)


def native(status: str = "") -> NativePodGroup:
    known = {
        "type": INITIALLY_SCHEDULED,
        "status": status,
        "reason": "r",
        "message": "",
        "lastTransitionTime": NOW,
    }
    conditions = [known] if status else []
    return native_pod_group(meta={"generation": 3}, status={"conditions": conditions})


@pytest.mark.parametrize(
    ("members", "report", "expected"),
    [
        ((WAITING, WAITING), WAITS, ("False", "Unschedulable")),
        ((WAITING, WAITING), NO_REPORT, None),
        ((BOUND, ASSUMED), NO_REPORT, None),
        ((BOUND, WAITING), WAITS, ("False", "Unschedulable")),
        ((BOUND, BOUND), NO_REPORT, ("True", "Scheduled")),
        ((BOUND, BOUND, WAITING), WAITS, ("True", "Scheduled")),
        ((SUCCEEDED, SUCCEEDED), NO_REPORT, ("True", "Scheduled")),
    ],
)
def test_the_condition_of_a_native_pod_group(
    members: tuple[dict[str, object], ...], report: GangReport, expected: tuple[str, str] | None
) -> None:
    for before in ("", "False"):
        found = native_condition(gang(*members), report, native(before))
        assert (None if found is None else (found["status"], found["reason"])) == expected
        assert found is None or (found["observedGeneration"], found["lastTransitionTime"]) == (3, NOW)
    assert native_condition(gang(*members), report, native("True")) is None


def test_the_condition_of_a_native_pod_group_keeps_its_time_and_is_written_when_it_differs() -> None:
    first = native_condition(gang(WAITING, WAITING), WAITS, native())
    assert first is not None
    written = {**first, "lastTransitionTime": LONG_AGO}
    seen = native_pod_group(meta={"generation": 3}, status={"conditions": [written]})
    assert native_condition(gang(WAITING, WAITING), WAITS, seen) is None
    other = GangReport(verdict=msgspec.structs.replace(REFUSED, message="other"))
    found = native_condition(gang(WAITING, WAITING), other, seen)
    assert found is not None
    assert found["lastTransitionTime"] == LONG_AGO


def test_the_condition_of_a_waiting_native_pod_group_has_the_verdict() -> None:
    found = native_condition(gang(WAITING, WAITING), WAITS, native())
    assert found is not None
    assert found["message"] == "needs 2, 1 is free. Free 1 more."
