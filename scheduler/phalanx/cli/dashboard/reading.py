"""Read everything that the pages show with one client, and keep it as one reading. This blocks."""

from typing import Final, Protocol

from msgspec.structs import replace

from phalanx.cli.dashboard.facts import Event, Facts
from phalanx.cli.dashboard.limits import RECONNECT_PERIOD_S
from phalanx.cli.verbs.events import FORBIDDEN, read_events
from phalanx.cli.verbs.nodes import EVERYWHERE, NODE_KINDS
from phalanx.cli.verbs.options import ClusterOptions
from phalanx.cli.verbs.runner import FAILURES, Question, Session
from phalanx.cli.verbs.seen import Seen
from phalanx.clock import Clock
from phalanx.kube.blocking import BlockingClient
from phalanx.kube.garbage_collection import GarbageCollection

KINDS: Final = (*NODE_KINDS, "Topology")


class Reader(Protocol):
    """Reads the cluster."""

    def read(self) -> Facts:
        """The facts of now. Raises one of FAILURES, NoCluster or BadInput."""
        ...

    def close(self) -> None:
        """End all requests."""
        ...


class ClusterReader:
    """Reads a cluster as the commands do, with the rights of the user."""

    def __init__(self, options: ClusterOptions, *, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._collection = GarbageCollection()
        self._session: Session | None = None
        self._opened = 0.0

    def read(self) -> Facts:
        """See Reader. The kubeconfig is read again after a failure, and from time to time."""
        session = self._open()
        events: list[Event] = []

        def with_events(client: BlockingClient, seen: Seen) -> Seen:
            name = self._options.scheduler_name
            found = read_events(client, namespace=session.namespace, scheduler_name=name)
            if found is None and not session.namespace:
                found = read_events(client, namespace=session.home, scheduler_name=name)
            events[:] = found or ()
            return seen if found is not None else replace(seen, notes=(*seen.notes, FORBIDDEN))

        question = Question(
            name="dashboard",
            kinds=KINDS,
            view=lambda seen: seen,
            lines=lambda _, __: (),
            everywhere=EVERYWHERE,
            quiet=frozenset({"PriorityClass"}),
            enrich=with_events,
        )
        try:
            with self._collection.paused():
                facts = Facts(session.read(question), events)
                prepare(facts)
                return facts
        except FAILURES:
            self.close()
            raise

    def close(self) -> None:
        """See Reader."""
        session, self._session = self._session, None  # another thread may close it at the same time
        if session is not None:
            session.client.stop()
            session.client.close()

    def _open(self) -> Session:
        now = self._clock.monotonic()
        if self._session is not None and now - self._opened > RECONNECT_PERIOD_S:
            self.close()
        if self._session is None:
            self._session = Session(self._options, all_namespaces=not self._options.namespace)
            self._opened = now
        return self._session


def prepare(facts: Facts) -> None:
    """Make the views that pages need, so that the first page does not wait for them."""
    _ = (facts.entries, facts.node_by_name, facts.frame)
