"""Negative results that outlive a cycle: what was refused is not solved again until something has changed."""

import hashlib

import msgspec
from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.framework.session import Session
from phalanx.model.gangs import Gang
from phalanx.model.memory import Refusal

DIGEST_BYTES = 16


class Refusals:
    """The fingerprints of one cycle: of the demand, the capacity, the queues and the settings."""

    def __init__(self, session: Session) -> None:
        self._known = session.snapshot.memory.refusals
        retry_key = msgspec.json.encode(session.retry_key, order="deterministic")
        settings = msgspec.json.encode(session.config, order="deterministic")
        self._base = b"%d %d %s %s" % (
            session.snapshot.capacity_version,
            session.snapshot.seed,
            settings,
            retry_key,
        )
        self._queues = session.queues

    def recall(self, demand: Demand) -> Refusal | None:
        """What an earlier cycle said of exactly this, None when something changed since."""
        refusal = self._known.get(demand.gang.id)
        return refusal if refusal and refusal.fingerprint == self.fingerprint(demand) else None

    def fingerprint(self, demand: Demand) -> str:
        """Digest of all that the answer depends on."""
        path = [replace(queue, past=None) for queue in self._queues.path(demand.gang.queue)]
        content = msgspec.json.encode((demand.cause, path), order="deterministic")
        whole = b"\n".join((self._base, content, _content(demand.gang)))
        return hashlib.blake2b(whole, digest_size=DIGEST_BYTES).hexdigest()


def _content(gang: Gang) -> bytes:
    head = (gang.id, gang.resource_version, gang.queue, gang.min_member, gang.priority, gang.started)
    wish = (gang.roles, gang.topology, gang.subgroups, gang.min_subgroups)
    members = [
        (
            pod.uid,
            pod.shape.key,
            pod.node,
            pod.is_waiting,
            pod.counts_for_gang,
            pod.gated,
            pod.role,
            pod.subgroup,
            pod.priority,
        )
        for pod in gang.members
    ]
    return msgspec.json.encode((head, wish, members))
