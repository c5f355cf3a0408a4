"""Releases of the chart on real kubelets while a gang runs: takeover, test, upgrade, rollback."""

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from deploy.image import build
from tests.cluster.gangs import finished, gang, running
from tests.cluster.installation import helm, kustomize_install, leader, ready
from tests.cluster.real_cluster import RealCluster, real_cluster
from tests.deploy.manifests import DEPLOY, REPOSITORY

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("real nodes"),
    pytest.mark.asyncio(loop_scope="session"),
]

TAKEOVER = ("--take-ownership", "--force-conflicts", "--wait")


async def test_helm_takes_over_and_upgrades_while_a_gang_runs(cluster: RealCluster, tmp_path: Path) -> None:
    await kustomize_install(cluster)
    await cluster.apply(*gang("kept", members=3))
    before = await running(cluster, "kept", count=3)

    await helm(cluster, tmp_path, "install", *TAKEOVER)
    await ready(cluster)
    tested = await helm(cluster, tmp_path, "test", "--logs")
    assert "leads, and renewed its Lease" in tested

    await helm(cluster, tmp_path, "upgrade", "--set", "podAnnotations.release=second", "--wait")
    await ready(cluster)
    assert await running(cluster, "kept", count=3) == before
    await helm(cluster, tmp_path, "rollback", "1", "--wait")
    await ready(cluster)
    assert await running(cluster, "kept", count=3) == before

    await cluster.apply(*gang("new", members=2))
    await running(cluster, "new", count=2)
    await finished(cluster, "new")
    await finished(cluster, "kept")
    await helm(cluster, tmp_path, "uninstall", "--wait")


def exported(folder: Path, commit: str) -> Path:
    """The files of an older commit, which today's Dockerfile can build."""
    archive = subprocess.run(
        ["git", "archive", commit], cwd=REPOSITORY, capture_output=True, check=True, timeout=60
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    (folder / "deploy" / "nodes").mkdir(exist_ok=True)
    shutil.copytree(DEPLOY / "image", folder / "deploy" / "image", dirs_exist_ok=True)
    return folder


async def test_an_upgrade_from_the_previous_commit_takes_its_state_over(
    image: build.Image, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Labels, statuses and the Lease stay; the gang of the older version ends under the new one."""
    folder = tmp_path_factory.mktemp("upgrade")
    previous = build.build(
        lambda _line: None, tag="previous", repository=exported(folder / "source", "HEAD~1")
    )
    older = ("--set", "image.tag=previous")
    chart = folder / "source" / "deploy" / "chart"
    async with real_cluster(folder / "cluster", previous.archive, image.archive, nodes=1) as cluster:
        await helm(cluster, folder, "install", "--create-namespace", *older, "--wait", chart=chart)
        await ready(cluster)
        await cluster.apply(*gang("older", members=3))
        before = await running(cluster, "older", count=3)
        status = (await cluster.get("podgroups.scheduling.phalanx.dev", "older"))["status"]
        held_by = await leader(cluster)

        await helm(cluster, folder, "upgrade", "--wait")
        await ready(cluster)
        assert await leader(cluster) not in ("", held_by)
        assert await running(cluster, "older", count=3) == before
        found = (await cluster.get("podgroups.scheduling.phalanx.dev", "older"))["status"]
        assert (found["phase"], found.get("placement")) == (status["phase"], status.get("placement"))
        await finished(cluster, "older")
