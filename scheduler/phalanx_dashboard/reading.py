"""Read everything that the pages show with one client, and keep it as one reading. This blocks."""

from typing import Final, Protocol

from msgspec.structs import replace
from phalanx.cli.verbs.events import FORBIDDEN, read_events
from phalanx.cli.verbs.jobs import SUSPENDED_KINDS
from phalanx.cli.verbs.nodes import EVERYWHERE, NODE_KINDS
from phalanx.cli.verbs.options import ClusterOptions
from phalanx.cli.verbs.runner import FAILURES, Question
from phalanx.cli.verbs.seen import Seen
from phalanx.clock import Clock
from phalanx.kube.blocking import BlockingClient
from phalanx.kube.garbage_collection import GarbageCollection

from phalanx_dashboard.connection import Connection
from phalanx_dashboard.facts import Event, Facts

KINDS: Final = (*NODE_KINDS, "Topology", *SUSPENDED_KINDS)


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
        self._name = options.scheduler_name
        self._collection = GarbageCollection()
        self._connection = Connection(options, clock=clock)

    def read(self) -> Facts:
        """See Reader. The kubeconfig is read again after a failure, and from time to time."""
        session = self._connection.session()
        events: list[Event] = []

        def with_events(client: BlockingClient, seen: Seen) -> Seen:
            found = read_events(client, namespace=session.namespace, scheduler_name=self._name)
            if found is None and not session.namespace:
                found = read_events(client, namespace=session.home, scheduler_name=self._name)
            events[:] = found or ()
            return seen if found is not None else replace(seen, notes=(*seen.notes, FORBIDDEN))

        question = Question(
            name="dashboard",
            kinds=KINDS,
            view=lambda seen: seen,
            lines=lambda _, __: (),
            everywhere=EVERYWHERE,
            quiet=frozenset({"PriorityClass", *SUSPENDED_KINDS}),
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
        self._connection.close()


def prepare(facts: Facts) -> None:
    """Make the views that pages need, so that the first page does not wait for them."""
    _ = (facts.entries, facts.node_by_name, facts.frame)
