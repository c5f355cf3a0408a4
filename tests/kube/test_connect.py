"""Every way to configure a cluster connects to it, and credentials are renewed when needed."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from phalanx.kube.connect import Cluster, connect
from phalanx.kube.kubeconfig import NoCluster


async def status_of(cluster: Cluster) -> int:
    transport = cluster.transport(connections=1)
    try:
        return (await transport.request("GET", "/api/v1/namespaces", timeout=10)).status
    finally:
        await transport.close()


def changed(kubeconfig: Path, folder: Path, user: dict[str, Any]) -> str:
    """The same cluster with other credentials."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] = user
    path = folder / "changed"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def token_in(kubeconfig: Path) -> str:
    token: str = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    return token


async def test_a_kubeconfig(cluster: Cluster) -> None:
    assert await status_of(cluster) == 200


async def test_the_environment_names_a_kubeconfig(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    async with connect() as cluster:
        assert await status_of(cluster) == 200


async def test_an_exec_plugin(kubeconfig: Path, tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token_in(kubeconfig)},
    }
    script = f"print({json.dumps(answer)!r})"
    plugin = {"apiVersion": answer["apiVersion"], "command": sys.executable, "args": ["-c", script]}
    async with connect(kubeconfig=changed(kubeconfig, tmp_path, {"exec": plugin})) as cluster:
        assert await status_of(cluster) == 200


async def test_a_token_file_that_changes(kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("stale")
    path = changed(kubeconfig, tmp_path, {"tokenFile": str(file)})
    async with connect(kubeconfig=path) as cluster:
        assert await status_of(cluster) == 401
        file.write_text(token_in(kubeconfig))
        assert await status_of(cluster) == 200


async def test_a_service_account(
    kubeconfig: Path, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pod: the address comes from the environment, token and certificate from files."""
    if not cluster.base_url.startswith("https"):
        pytest.skip("a service account needs TLS")
    import base64

    config = yaml.safe_load(await asyncio.to_thread(kubeconfig.read_text))
    authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])
    (tmp_path / "ca.crt").write_bytes(authority)
    (tmp_path / "token").write_text(token_in(kubeconfig) + "\n")
    host, port = cluster.base_url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr("phalanx.kube.kubeconfig._SERVICE_ACCOUNT", tmp_path)
    async with connect() as inside:
        assert inside.base_url == cluster.base_url
        assert await status_of(inside) == 200


@pytest.mark.parametrize("content", [None, "", "nonsense", "clusters: []\n"])
async def test_an_unusable_kubeconfig_is_a_clear_error(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(NoCluster, match=str(path)):
        async with connect(kubeconfig=str(path)):
            pass
