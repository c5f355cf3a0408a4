"""The affinity of tasks in annotations of Volcano's PodGroups, as traffic between roles.

`a,b;c` states that tasks a and b, and the pods of task c among each other, should be near each other.
"""

from itertools import combinations
from typing import Final

from phalanx.model.api.meta import ObjectMeta
from phalanx.model.api.pod_groups import TRAFFIC_ENTRIES_MAX, Traffic

TASK_AFFINITY: Final = "volcano.sh/task-topology-affinity"


def read_task_affinity(meta: ObjectMeta, wrong: list[str]) -> tuple[Traffic, ...]:
    """Traffic of weight 1 between the tasks of each group; a task alone sends to itself.

    As in Volcano, empty names do not count, and a task that a group names twice is an error.
    """
    path, pairs = f"metadata.annotations[{TASK_AFFINITY}]", dict[tuple[str, str], None]()
    for written in meta.annotations.get(TASK_AFFINITY, "").split(";"):
        names = [name.strip() for name in written.split(",") if name.strip()]
        if len(set(names)) < len(names):
            wrong.append(f"{path}: a task is named twice in {written!r}")
        group = sorted(set(names))
        pairs.update(
            dict.fromkeys(combinations(group, 2) if len(group) > 1 else [(name, name) for name in group])
        )
    if len(pairs) > TRAFFIC_ENTRIES_MAX:
        wrong.append(f"{path}: {len(pairs)} pairs of tasks are more than {TRAFFIC_ENTRIES_MAX}")
        return ()
    return tuple(Traffic(sender=one, receiver=other) for one, other in pairs)
