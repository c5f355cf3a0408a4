"""A gang whose members are in the states that a test names."""

import msgspec
from phalanx.model.gangs import Gang, GangKind
from phalanx.model.names import DEFAULT_QUEUE, GangId, NodeName, PodUid, ShapeKey
from phalanx.model.pods import Pod, PodPhase, PodShape

GANG = GangId("gang-uid")

WAITING: dict[str, object] = {}
ASSUMED = {"node": NodeName("n1"), "assumed": True}
BOUND = {"node": NodeName("n1")}
RUNNING = {"node": NodeName("n1"), "phase": PodPhase.RUNNING}
SUCCEEDED = {"node": NodeName("n1"), "phase": PodPhase.SUCCEEDED}
FAILED = {"node": NodeName("n1"), "phase": PodPhase.FAILED}
DELETING = {"node": NodeName("n1"), "deleting": True}


def gang(*states: dict[str, object], min_member: int = 2) -> Gang:
    members = tuple(
        msgspec.structs.replace(
            Pod(
                uid=PodUid(f"pod-{i}"),
                namespace="team",
                name=f"pod-{i}",
                shape=PodShape(key=ShapeKey("shape"), requests={"cpu": 1000}),
                scheduler_name="phalanx",
                created=0,
            ),
            **state,
        )
        for i, state in enumerate(states)
    )
    return Gang(
        id=GANG,
        kind=GangKind.POD_GROUP,
        namespace="team",
        name="train",
        queue=DEFAULT_QUEUE,
        min_member=min_member,
        priority=0,
        created=0,
        members=members,
    )
