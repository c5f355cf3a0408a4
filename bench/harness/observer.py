"""A process of its own that watches pods and notes when each is first seen bound.

Condition times are no use here, they have steps of one second. The clock is CLOCK_MONOTONIC, which all
processes of a machine share, so that the starter may subtract its own readings.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.harness.gangs import PODS_PATH
from bench.harness.transports import closing
from phalanx.kube.connect import connect


class Meta(Struct, rename="camel", frozen=True):
    """As much of an object's metadata as is needed."""

    name: str = ""
    resource_version: str = ""


class Spec(Struct, rename="camel", frozen=True):
    """As much of a pod's spec as is needed."""

    node_name: str = ""


class Seen(Struct, frozen=True):
    """As much of a pod as is needed."""

    metadata: Meta = Meta()
    spec: Spec = Spec()


class Line(Struct, frozen=True):
    """One line of the watch."""

    type: str
    object: Seen


class Observation(Struct, frozen=True):
    """When (monotonic seconds) each pod was first seen bound, in that order; `nodes` in the same order.

    `watches` is how many watches it took: the API server closes those of a reader that it finds too slow.
    """

    bound_at: list[float]
    nodes: list[str]
    watches: int


async def observe(*, kubeconfig: Path, expected: int, idle_timeout: float) -> Observation:
    """Watch from the present until `expected` pods are bound. Prints a line once it watches."""
    bound: dict[str, tuple[float, str]] = {}
    query, watches = {"watch": "true"}, 0
    async with connect(kubeconfig=str(kubeconfig)) as cluster, closing(cluster.transport()) as transport:
        while len(bound) < expected:
            async with transport.stream(PODS_PATH, query=query, idle_timeout=idle_timeout) as (_, lines):
                if watches == 0:
                    print("watching", flush=True)
                version = await _note_binds(lines, bound, expected=expected)
            query, watches = {"watch": "true", "resourceVersion": version}, watches + 1
    times, nodes = [t for t, _ in bound.values()], [n for _, n in bound.values()]
    return Observation(bound_at=times, nodes=nodes, watches=watches)


async def _note_binds(
    lines: AsyncIterator[bytes], bound: dict[str, tuple[float, str]], *, expected: int
) -> str:
    """Until all are bound or the watch ends; returns the last resource version seen."""
    decode = msgspec.json.Decoder(Line).decode
    version = ""
    async for raw in lines:
        pod = decode(raw).object
        version = pod.metadata.resource_version
        if pod.spec.node_name and pod.metadata.name not in bound:
            bound[pod.metadata.name] = (time.monotonic(), pod.spec.node_name)
            if len(bound) == expected:
                break
    return version


def main() -> None:
    """Command line: what to watch, and where the observation goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--expected", type=int, required=True)
    parser.add_argument("--idle-timeout", type=float, default=120.0)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    seen = asyncio.run(
        observe(kubeconfig=args.kubeconfig, expected=args.expected, idle_timeout=args.idle_timeout)
    )
    args.output.write_bytes(msgspec.json.encode(seen))
    sys.exit(0 if len(seen.bound_at) == args.expected else 1)


if __name__ == "__main__":
    main()
