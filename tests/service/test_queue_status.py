"""The status of a Queue."""

import msgspec
from phalanx.model.decisions import QueueReport
from phalanx.model.reasons import Objection, Reason
from phalanx.service.queue_status import status_of

REPORT = QueueReport(allocated={"cpu": 1500, "nvidia.com/gpu": 8}, pending_gangs=2, pending_pods=16)


def test_amounts_are_quantities_and_waiting_work_is_counted() -> None:
    status = status_of(REPORT, now_ms=0)
    assert status.allocated == {"cpu": "1500m", "nvidia.com/gpu": "8"}
    assert (status.pending_gangs, status.pending_pods) == (2, 16)
    assert [(each.type, each.status) for each in status.conditions] == [("Ready", "True")]


def test_an_invalid_queue_has_a_condition() -> None:
    problem = Objection(Reason.QUEUE_INVALID, "spec.parent: queue nowhere does not exist")
    status = status_of(msgspec.structs.replace(REPORT, problems=(problem,)), now_ms=0)
    [condition] = status.conditions
    assert (condition.status, condition.reason) == ("False", "QueueInvalid")
    assert condition.message == "spec.parent: queue nowhere does not exist"


def test_the_fair_share_of_a_queue() -> None:
    status = status_of(
        msgspec.structs.replace(REPORT, guarantee={"nvidia.com/gpu": 6}, fair_share={"cpu": 500}), now_ms=0
    )
    assert status.guarantee == {"nvidia.com/gpu": "6"}
    assert status.fair_share == {"cpu": "500m"}
    assert status.borrowed == {"cpu": "1500m", "nvidia.com/gpu": "2"}
    assert [(each.type, each.status) for each in status.conditions] == [
        ("Ready", "True"),
        ("Guaranteed", "True"),
    ]


def test_unsatisfiable_guarantees_have_their_own_condition() -> None:
    problem = Objection(Reason.QUEUE_INVALID, "spec.guarantee[cpu]: 1 of 2")
    status = status_of(msgspec.structs.replace(REPORT, unmet_guarantees=(problem,)), now_ms=0)
    assert [(each.type, each.status) for each in status.conditions] == [
        ("Ready", "True"),
        ("Guaranteed", "False"),
    ]
    assert status.conditions[1].message == "spec.guarantee[cpu]: 1 of 2"
