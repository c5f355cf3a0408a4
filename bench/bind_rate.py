"""Binds per second and CPU per bind: bare POSTs, `Client.bind`, the binder; on one real control plane.

    python -m bench.bind_rate [--pods 3000] [--gang 100]

All three use the same transport and the same number of connections; the pods are created before the clock
runs.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

import msgspec
from phalanx.kube.binder import Binder
from phalanx.kube.binding import BinderCallbacks, BindOutcome, Bound
from phalanx.kube.client import Client
from phalanx.kube.connect import connect
from phalanx.limits import WRITE_CONCURRENCY, WRITE_TIMEOUT_S
from phalanx.model.decisions import Bind, Certificate, Placement
from phalanx.model.names import GangId, NodeName, PodUid
from phalanx.observe.logs import configure_logs
from phalanx.observe.metrics import Metrics
from phalanx.ports import Transport
from phalanx_controlplane.controlplane import ControlPlane

from tests.fake_objects import create_many, fake_node, fake_pod, namespace
from tests.write_context import write_context

NODES = 100
Run = Callable[[Transport, list[Bind]], Awaitable[None]]


class EveryPlanHolds:
    """A placement check that accepts every placement at no cost."""

    def gang(self, placement: Placement) -> str | None:
        return None

    def bind(self, placement: Placement, bind: Bind) -> str | None:
        return None


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--gang", type=int, default=100)
    arguments = parser.parse_args()
    configure_logs(level="warning")

    async def gangs(transport: Transport, binds: list[Bind]) -> None:
        await through_the_binder(transport, binds, gang=arguments.gang)

    runs: dict[str, Run] = {"bare POSTs": bare, "Client.bind": through_the_client, "binder": gangs}
    async with ControlPlane.start(controller_manager=False, kwok=False) as plane:
        async with plane.session() as session:
            await create_many(session, (fake_node(f"n{number}") for number in range(NODES)))
        for name, run in runs.items():
            binds = await pending_pods(
                plane, space=name.lower().replace(" ", "-").replace(".", "-"), count=arguments.pods
            )
            async with connect(kubeconfig=str(plane.kubeconfig_path)) as cluster:
                transport = cluster.transport()
                await measure(name, run, transport, binds)
                await transport.close()


async def pending_pods(plane: ControlPlane, *, space: str, count: int) -> list[Bind]:
    async with plane.session() as session:
        await create_many(session, [namespace(space)])
        await create_many(session, (fake_pod(f"p{number}", namespace=space) for number in range(count)))
        async with session.get(f"/api/v1/namespaces/{space}/pods") as answer:
            pods = msgspec.json.decode(await answer.read())["items"]
    names = ((pod["metadata"]["uid"], pod["metadata"]["name"]) for pod in pods)
    return [
        Bind(PodUid(uid), space, name, NodeName(f"n{index % NODES}"))
        for index, (uid, name) in enumerate(names)
    ]


async def measure(name: str, run: Run, transport: Transport, binds: list[Bind]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    await run(transport, binds)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    count = len(binds)
    print(f"{name:12} {count / wall:8.0f} binds/s  {1e6 * cpu / count:6.0f} µs CPU per bind  {wall:.2f} s")


async def bare(transport: Transport, binds: list[Bind]) -> None:
    requests = [
        (
            f"/api/v1/namespaces/{bind.namespace}/pods/{bind.name}/binding",
            msgspec.json.encode(
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": bind.name, "uid": bind.pod},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
                }
            ),
        )
        for bind in binds
    ]
    waiting = iter(requests)

    async def work() -> None:
        for path, body in waiting:
            answer = await transport.request("POST", path, body=body, timeout=WRITE_TIMEOUT_S)
            assert answer.status == 201, answer.body

    await asyncio.gather(*(work() for _ in range(WRITE_CONCURRENCY)))


async def through_the_client(transport: Transport, binds: list[Bind]) -> None:
    client, waiting = Client(transport), iter(binds)

    async def work() -> None:
        for bind in waiting:
            await client.bind(bind, timeout=WRITE_TIMEOUT_S)

    await asyncio.gather(*(work() for _ in range(WRITE_CONCURRENCY)))


async def through_the_binder(transport: Transport, binds: list[Bind], *, gang: int) -> None:
    bound = 0

    def note(_: Placement, outcome: BindOutcome) -> None:
        nonlocal bound
        bound += isinstance(outcome, Bound)

    binder = Binder(
        write_context(transport, reports=Metrics()),
        BinderCallbacks(check=EveryPlanHolds(), on_outcome=note),
    )
    task = asyncio.create_task(binder.run())
    for placement in placements(binds, gang=gang):
        binder.submit(placement)
    await binder.idle.wait()
    task.cancel()
    await asyncio.wait((task,))
    assert bound == len(binds), bound


def placements(binds: list[Bind], *, gang: int) -> Iterator[Placement]:
    certificate = Certificate(terms=(), objective=(), bound=(), proven=True, by="bench")
    for start in range(0, len(binds), gang):
        yield Placement(
            gang=GangId(str(start)),
            group=f"bench/{start}",
            cycle=1,
            cause="start",
            binds=tuple(binds[start : start + gang]),
            certificate=certificate,
        )


if __name__ == "__main__":
    asyncio.run(main())
