"""Write the parallelism of Jobs that may be started with fewer pods.

The patch carries the resourceVersion that the decision is based on: a Job that has changed since is decided
again.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from phalanx.kube.background_writer import BackgroundWriter
from phalanx.kube.client import Patch
from phalanx.kube.writing import WriteContext
from phalanx.model.api.kinds import KINDS
from phalanx.model.names import ANNOTATION_FULL_PARALLELISM
from phalanx.model.workloads.job import JOB

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class JobSize(Struct, frozen=True):
    """A parallelism that a Job gets instead of the one that it has."""

    namespace: str
    name: str
    uid: str
    version: str
    """The resourceVersion that it is decided for."""
    parallelism: int
    full: int | None
    """The parallelism that is restored later; None if this write restores it."""
    message: str


class JobSizeWriter:
    """Requests writes. Every method returns at once; `writer` sends."""

    def __init__(self, context: WriteContext, *, writer: BackgroundWriter) -> None:
        self._context = context
        self._writer = writer

    def put(self, size: JobSize, *, on_written: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Set the parallelism, and the annotation that says what it was before or is removed.

        `on_lost` is called if it could not be written.
        """
        path = KINDS[JOB.name].path(namespace=size.namespace, name=size.name)
        annotations = {ANNOTATION_FULL_PARALLELISM: None if size.full is None else str(size.full)}
        meta = {"uid": size.uid, "resourceVersion": size.version, "annotations": annotations}
        body = _encode({"metadata": meta, "spec": {"parallelism": size.parallelism}})

        async def write() -> None:
            await self._context.client.patch(path, body, how=Patch.MERGE, timeout=self._context.timeout())
            on_written()

        self._writer.put(_key(size.uid), write, on_lost=on_lost)

    def try_acquire(self, uid: str) -> bool:
        """Drop the pending write about a Job of which a pod is to be bound; False while one is in flight."""
        return self._writer.drop(_key(uid))


def _key(uid: str) -> tuple[str, str]:
    return ("parallelism", uid)
