"""`phalanx install`: what it prints, and what it changes at an API server."""

import asyncio
from pathlib import Path

import pytest
import yaml
from phalanx.cli.app import main
from phalanx_controlplane.controlplane import ControlPlane

from tests.cli.conftest import Phalanx
from tests.embedded_fixture import EmbeddedApi

NAMES = [f"{plural}.scheduling.phalanx.dev" for plural in ("podgroups", "queues", "topologies")]


def test_the_printed_crds_are_manifests(phalanx: Phalanx) -> None:
    done = phalanx("install", "--crds", "--print")
    assert done.code == 0
    assert [document["metadata"]["name"] for document in yaml.safe_load_all(done.out)] == NAMES


def test_an_option_that_selects_what_to_install_is_required(phalanx: Phalanx) -> None:
    assert phalanx("install").err == "install: expected --crds or --print, found neither\n"


async def test_crds_are_created_and_then_updated(
    embedded_api: EmbeddedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["install", "--crds", "--kubeconfig", str(embedded_api.kubeconfig)]
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAMES[0]}"
    async with embedded_api.session() as session, session.delete(path) as answer:
        assert answer.status == 200
    assert await asyncio.to_thread(main, command) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{NAMES[0]} created",
        f"{NAMES[1]} updated",
        f"{NAMES[2]} updated",
    ]


@pytest.mark.controlplane
async def test_a_real_api_server_accepts_them_twice(
    control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["install", "--crds", "--kubeconfig", str(control_plane.kubeconfig_path)]
    for _ in range(2):
        assert await asyncio.to_thread(main, command) == 0
    assert capsys.readouterr().out.splitlines()[3:] == [f"{name} updated" for name in NAMES]


def test_no_cluster(phalanx: Phalanx, tmp_path: Path) -> None:
    done = phalanx("install", "--crds", "--kubeconfig", tmp_path / "none")
    assert done.code == 1
    assert done.err.startswith("install: no cluster to connect to")
