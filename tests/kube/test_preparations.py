"""A supply of another distribution writes something before pods are bound: a licence server in memory."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from phalanx.kube.binding import BindAborted, BinderCallbacks, BindRefused, Bound
from phalanx.kube.flow_control import RateLimiter
from phalanx.kube.preparation import Preparation, Preparer, Progress, Unprepared
from phalanx.kube.preparers import preparers
from phalanx.kube.writing import WriteContext
from phalanx.model.decisions import Bind, Placement
from phalanx.model.names import PodUid

from tests.kube.faults import FaultyTransport
from tests.kube.test_binder import binding
from tests.kube.world import World


class Server:
    """A licence server: pods get licences one by one, and it may be slow or refuse one."""

    def __init__(self, *, delays: int = 0, refuses: str = "") -> None:
        self.given: list[str] = []
        self.delays = delays
        self.refuses = refuses
        self.released = 0
        self.resumes: list[Callable[[], None]] = []


class Licences(Preparation):
    precedes_record: ClassVar[bool] = False
    what: ClassVar[str] = "the licences"

    def __init__(self, server: Server, resume: Callable[[], None]) -> None:
        self._server = server
        self._resume = resume

    async def advance(self, binds: Sequence[Bind]) -> Progress:
        if self._server.delays:
            self._server.delays -= 1
            self._server.resumes.append(self._resume)
            return Progress.LATER
        for bind in binds:
            if bind.name == self._server.refuses:
                raise Unprepared(f"no licence for {bind.name}", bind=bind, reason="NoLicence")
            self._server.given.append(bind.pod)
        return Progress.DONE

    @property
    def has_written(self) -> bool:
        return bool(self._server.given)

    async def release(self) -> None:
        self._server.released += 1

    def may_hold(self, pod: PodUid) -> bool:
        return pod in self._server.given

    async def give_back(self, bind: Bind) -> None:
        self._server.given.remove(bind.pod)


def served_by(server: Server) -> Any:
    class LicencePreparer(Preparer):
        def __init__(self, context: WriteContext, callbacks: BinderCallbacks, limiter: RateLimiter) -> None:
            pass

        def prepare(self, placement: Placement, resume: Callable[[], None], log: Any) -> Preparation:
            return Licences(server, resume)

    return (*preparers(), LicencePreparer)


def test_another_distribution_brings_one_by_an_entry_point(tmp_path: Path) -> None:
    info = tmp_path / "acme-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[phalanx.preparers]\nacme = acme:Acme\n")
    (tmp_path / "acme.py").write_text("class Acme: pass\n")
    code = "from phalanx.kube.preparers import preparers; print(preparers()[-1].__name__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "Acme\n", done.stderr


async def test_pods_are_bound_when_they_are_prepared(world: World, transport: FaultyTransport) -> None:
    server = Server()
    async with binding(world, transport, preparers=served_by(server)) as bench:
        plan = await bench.gang("a", "b")
        bench.binder.submit(plan)
        await bench.settled()
        assert bench.outcomes == {bind.name: Bound(bind) for bind in plan.binds}
    assert server.given == [bind.pod for bind in plan.binds]


async def test_no_pod_is_bound_while_a_preparation_waits(world: World, transport: FaultyTransport) -> None:
    server = Server(delays=1)
    async with binding(world, transport, preparers=served_by(server)) as bench:
        bench.binder.submit(await bench.gang("a", "b"))
        async with asyncio.timeout(60):
            await bench.binder.none_due.wait()
        assert (server.given, transport.sent) == ([], [])
        server.resumes.pop()()
        await bench.settled()
        assert [await world.node_of(name) for name in "ab"] == ["n1"] * 2


async def test_all_is_given_back_of_a_gang_that_cannot_be_prepared(
    world: World, transport: FaultyTransport
) -> None:
    server = Server(refuses="b")
    async with binding(world, transport, preparers=served_by(server)) as bench:
        plan = await bench.gang("a", "b")
        bench.binder.submit(plan)
        await bench.settled()
        first, second = plan.binds
        assert bench.outcomes["a"] == BindAborted(first, "no licence for b")
        assert bench.outcomes["b"] == BindRefused(second, "NoLicence", "no licence for b")
    assert (server.given, server.released) == ([], 1)


async def test_what_a_pod_holds_is_given_back_if_its_bind_is_refused(
    world: World, transport: FaultyTransport
) -> None:
    server = Server()
    async with binding(world, transport, preparers=served_by(server)) as bench:
        plan = await bench.gang("a", "b")
        await world.delete_pod("b")
        bench.binder.submit(plan)
        await bench.settled()
        assert isinstance(bench.outcomes["b"], BindRefused)
    assert server.given == [plan.binds[0].pod]
