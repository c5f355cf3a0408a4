"""Reading a cluster: Ctrl-C while the server does not answer."""

from collections.abc import Mapping
from threading import Event

import pytest
from phalanx.cli.verbs.read import Wanted, read_cluster
from phalanx.kube.blocking import BlockingClient
from phalanx.kube.kubeconfig import Access
from phalanx.ports import OutcomeUnknown


class SilentServer(BlockingClient):
    """No request for nodes is answered; during the one for pods, the user presses Ctrl-C."""

    def __init__(self) -> None:
        super().__init__(Access("http://127.0.0.1:1"))
        self.asked, self.stopped = Event(), Event()

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        if path.endswith("/pods"):
            assert self.asked.wait(60)
            raise KeyboardInterrupt
        self.asked.set()
        assert self.stopped.wait(20), "it waits for the answer of the server"
        raise OutcomeUnknown("stopped")

    def stop(self) -> None:
        self.stopped.set()


def test_ctrl_c_ends_the_requests_of_all_threads() -> None:
    client = SilentServer()
    with pytest.raises(KeyboardInterrupt):
        read_cluster(client, Wanted(kinds=("Pod", "Node"), namespace=""), now_ms=0)
    assert client.stopped.is_set()
