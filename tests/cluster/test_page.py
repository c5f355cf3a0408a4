"""docs/bare-machine.md from `make cluster` on: Helm, again kustomize, each with a gang of real containers."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deploy.image.build import Image
from tests.cluster.page import play
from tests.cluster.real_cluster import RealCluster
from tests.deploy.manifests import REPOSITORY

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("real nodes")]


_OF_OUTER_MAKE = ("ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS")
"""What `make cluster-test ARGS=...` hands down to a `make` that tests run."""


@asynccontextmanager
async def make_cluster(folder: Path) -> AsyncIterator[RealCluster]:
    """`make cluster`, ended from another terminal."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_OUTER_MAKE}
    process = await asyncio.create_subprocess_exec(
        *("make", "cluster", f"CLUSTER={folder}"),
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    cluster = RealCluster(folder, process)
    try:
        await cluster.until_ready()
        yield cluster
    finally:
        down = ["make", "cluster-down", f"CLUSTER={folder}"]
        subprocess.run(down, cwd=REPOSITORY, env=environment, check=True, timeout=120)
        await process.wait()
    assert not (folder / "kubeconfig").exists()


async def test_each_command_prints_what_the_page_shows(image: Image, in_memory: Path) -> None:
    async with make_cluster(in_memory / "made") as cluster:
        await play("Install by Helm", cluster, helm=True)
        await play("A gang", cluster)
        await play("Remove what Helm installed", cluster, helm=True)
        await play("Install by kustomize", cluster)
        await play("A gang", cluster)
