"""The upper bound of throughput: a process that only sends binding POSTs, round-robin over the nodes.

It runs until SIGTERM, so that its resource usage can be read.
"""

import argparse
import asyncio
import itertools
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path

import msgspec
from msgspec import Struct
from phalanx.kube.connect import connect
from phalanx.kube.transport import HttpTransport

from bench.harness.gangs import PODS_PATH
from bench.harness.observation import Meta
from bench.harness.transports import closing

CONCURRENCY = 64
TIMEOUT_S = 30.0


class Item(Struct, frozen=True):
    """An object's name."""

    metadata: Meta


class Items(Struct, frozen=True):
    """The names in a list."""

    items: list[Item]


def _binding(pod: str, node: str) -> bytes:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    )


async def bind_all(*, kubeconfig: Path) -> None:
    """List pods and nodes, bind every pod, then wait for SIGTERM."""
    async with connect(kubeconfig=str(kubeconfig)) as cluster, closing(cluster.transport()) as transport:
        pods = await _names(transport, PODS_PATH)
        nodes = await _names(transport, "/api/v1/nodes")
        work = zip(pods, itertools.cycle(nodes), strict=False)
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(_bind_each(transport, work))
        await asyncio.Event().wait()


async def _names(transport: HttpTransport, path: str) -> list[str]:
    answer = await transport.request("GET", path, timeout=TIMEOUT_S)
    return [item.metadata.name for item in msgspec.json.decode(answer.body, type=Items).items]


async def _bind_each(transport: HttpTransport, work: Iterable[tuple[str, str]]) -> None:
    for pod, node in work:
        answer = await transport.request(
            "POST", f"{PODS_PATH}/{pod}/binding", body=_binding(pod, node), timeout=TIMEOUT_S
        )
        if answer.status != HTTPStatus.CREATED:
            raise SystemExit(f"bind of {pod} refused: {answer.body!r}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    asyncio.run(bind_all(kubeconfig=parser.parse_args().kubeconfig))


if __name__ == "__main__":
    main()
