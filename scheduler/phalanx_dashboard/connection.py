"""A connection to the cluster that lasts: credentials expire, so it is opened again from time to time."""

from threading import Lock

from phalanx.cli.verbs.options import ClusterOptions
from phalanx.cli.verbs.runner import Session
from phalanx.clock import Clock

from phalanx_dashboard.limits import RECONNECT_PERIOD_S


class Connection:
    """Opens sessions of the user's kubeconfig, or of the pod's service account. Threads may share it."""

    def __init__(self, options: ClusterOptions, *, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._lock = Lock()
        self._session: Session | None = None
        self._opened = 0.0

    def session(self) -> Session:
        """The open session; a new one if there is none or it is old. Raises NoCluster or BadInput."""
        with self._lock:
            now = self._clock.monotonic()
            if self._session is None or now - self._opened > RECONNECT_PERIOD_S:
                # The old one is left to requests that still use it.
                self._session = Session(self._options, all_namespaces=not self._options.namespace)
                self._opened = now
            return self._session

    def close(self) -> None:
        """End all requests. The next session is a new one."""
        session, self._session = self._session, None  # without the lock: another thread may hold it
        if session is not None:
            session.client.stop()
            session.client.close()
