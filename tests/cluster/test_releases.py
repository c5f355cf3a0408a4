"""Releases of the chart on real kubelets while a gang runs: takeover, test, upgrade, rollback."""

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from deploy.image import build
from deploy.image.build import NAME
from tests.cluster.availability import TAG
from tests.cluster.gangs import finished, gang, running
from tests.cluster.installation import IN, OVERLAY, helm, kustomize_install, leader, ready
from tests.cluster.real_cluster import RealCluster, real_cluster, until
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


async def install_older(cluster: RealCluster, folder: Path, source: Path) -> None:
    """By its chart; by kustomize if it is so old that it has none."""
    if (chart := source / "deploy" / "chart").exists():
        options = ("--create-namespace", "--set", "image.tag=previous", "--wait")
        await helm(cluster, folder, "install", *options, chart=chart)
    else:
        overlay = yaml.safe_load((OVERLAY / "kustomization.yaml").read_text())
        overlay["resources"] = [os.path.relpath(source / "deploy" / "base", folder / "overlay")]
        overlay["images"][0]["newTag"] = "previous"
        (folder / "overlay").mkdir()
        (folder / "overlay" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        await cluster.kubectl("apply", "--server-side", "-k", str(folder / "overlay"))
    await ready(cluster)


async def upgrade(cluster: RealCluster, folder: Path, source: Path) -> None:
    """In the way in which it was installed."""
    if (source / "deploy" / "chart").exists():
        await helm(cluster, folder, "upgrade", "--wait")
    else:
        await kustomize_install(cluster)
    await until("all replicas are new", lambda: images(cluster), lambda found: found == {f"{NAME}:{TAG}"})
    await ready(cluster)


async def images(cluster: RealCluster) -> set[str]:
    """The images of all replicas that there are."""
    replicas = await cluster.pods(*IN, "-l", "app.kubernetes.io/name=phalanx")
    return {container["image"] for pod in replicas for container in pod["spec"]["containers"]}


async def test_an_upgrade_from_the_previous_commit_takes_its_state_over(
    image: build.Image, in_memory: Path, tmp_path: Path
) -> None:
    """Labels, statuses and the Lease stay; the gang of the older version ends under the new one."""
    source = exported(tmp_path / "source", os.environ.get("PHALANX_PREVIOUS", "HEAD~1"))
    previous = build.build(lambda _line: None, tag="previous", repository=source)
    async with real_cluster(in_memory / "older", previous.archive, image.archive, nodes=1) as cluster:
        await install_older(cluster, tmp_path, source)
        await cluster.apply(*gang("older", members=3))
        before = await running(cluster, "older", count=3)
        found = await cluster.get("podgroups.scheduling.phalanx.dev", "older")
        held_by = await leader(cluster)

        await upgrade(cluster, tmp_path, source)
        assert await leader(cluster) not in ("", held_by)
        assert await running(cluster, "older", count=3) == before
        kept = await cluster.get("podgroups.scheduling.phalanx.dev", "older")
        assert kept["metadata"]["uid"] == found["metadata"]["uid"]
        assert kept["status"]["phase"] == "Running"
        assert kept["status"].get("placement") == found["status"].get("placement")
        await cluster.apply(*gang("newer", members=2))
        await running(cluster, "newer", count=2)
        await finished(cluster, "newer")
        await finished(cluster, "older")
