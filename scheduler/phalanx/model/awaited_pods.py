"""Pods that the controller of a suspended workload makes when the workload is resumed.

The cache has them in the place of the pods that were evicted, so that their gang waits in line without pods.
No API server has them: they are never bound, and nothing is written to them.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phalanx.model.api import core
from phalanx.model.api.meta import ObjectMeta, OwnerReference
from phalanx.model.conversion.metadata import PER_POD_LABELS

_PREFIX: Final = "awaited:"
"""Of their UIDs. The API server makes no such UID."""


class AwaitedMembers(Struct, frozen=True):
    """So many equal pods: one of them, reduced to what decides where it may run."""

    count: int
    pod: core.Pod


def is_awaited(uid: str) -> bool:
    """Whether the pod with this UID does not exist yet."""
    return uid.startswith(_PREFIX)


def workload_of_awaited(uid: str) -> str:
    """The UID of the workload whose controller makes this pod."""
    return uid.removeprefix(_PREFIX).rpartition(":")[0]


def template_of(written: core.Pod, owner: OwnerReference | None) -> core.Pod:
    """The pod without what the next one like it has not. `owner`: its controller, if that one may be gone."""
    meta, spec = written.metadata, written.spec
    labels = {key: value for key, value in meta.labels.items() if key not in PER_POD_LABELS}
    owners = meta.owner_references if owner is None else (owner,)
    return core.Pod(
        ObjectMeta(
            namespace=meta.namespace, labels=labels, annotations=meta.annotations, owner_references=owners
        ),
        replace(spec, node_name=""),
    )


def awaited_pods(
    members: Sequence[AwaitedMembers], *, workload: str, name: str, created: str
) -> tuple[core.Pod, ...]:
    """The pods, under names that no other pod can have. `workload`: its UID; `created`: as the API has it."""
    templates = [each.pod for each in members for _ in range(each.count)]
    return tuple(
        replace(
            pod,
            metadata=replace(
                pod.metadata,
                name=f"{name}:{number}",
                uid=f"{_PREFIX}{workload}:{number}",
                creation_timestamp=created,
            ),
        )
        for number, pod in enumerate(templates)
    )
