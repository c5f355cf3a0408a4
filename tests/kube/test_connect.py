"""Every way to name a cluster leads to it, and credentials are renewed as they should be."""

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx.kube import access
from phalanx.kube.access import plain_kubeconfig
from phalanx.kube.connect import Cluster, NoCluster, connect


async def status_of(cluster: Cluster) -> int:
    transport = cluster.transport(connections=1)
    try:
        return (await transport.request("GET", "/api/v1/namespaces", timeout=10)).status
    finally:
        await transport.close()


def changed(kubeconfig: Path, folder: Path, user: dict[str, Any]) -> str:
    """The same cluster with another way to say who we are."""
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
    """In a pod: address from the environment, token and certificate from files."""
    if not cluster.base_url.startswith("https"):
        pytest.skip("a service account speaks TLS")
    config = yaml.safe_load(await asyncio.to_thread(kubeconfig.read_text))
    authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])
    (tmp_path / "ca.crt").write_bytes(authority)
    (tmp_path / "token").write_text(token_in(kubeconfig) + "\n")
    host, port = cluster.base_url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", tmp_path)
    async with connect() as inside:
        assert inside.base_url == cluster.base_url
        assert await status_of(inside) == 200


@pytest.mark.parametrize("content", [None, "", "nonsense", "clusters: []\n"])
async def test_no_usable_kubeconfig_is_told_plainly(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(NoCluster, match=str(path)):
        async with connect(kubeconfig=str(path)):
            pass


AUTHORITY = "-----BEGIN CERTIFICATE-----\n"
SERVER = {"server": "https://there:6443/"}
PLAIN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (SERVER, {"token": "secret"}),
    ({**SERVER, "certificate-authority": "ca.crt"}, {"tokenFile": "token"}),
    ({**SERVER, "certificate-authority-data": base64.b64encode(AUTHORITY.encode()).decode()}, {"token": "t"}),
    ({**SERVER, "insecure-skip-tls-verify": True, "tls-server-name": "name"}, {"token": "t"}),
    (
        {"server": "http://there:80", "proxy-url": "http://proxy", "certificate-authority": "no"},
        {"token": "t"},
    ),
]
NOT_PLAIN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (SERVER, {}),
    (SERVER, {"token": "t", "tokenFile": "token"}),
    (SERVER, {"token": "t", "exec": {"command": "true"}}),
    (SERVER, {"client-certificate": "cert", "client-key": "key"}),
    (SERVER, {"username": "me", "password": "secret"}),
    (SERVER, {"tokenFile": "missing"}),
    (SERVER, {"token": 7}),
    ({**SERVER, "extensions": []}, {"token": "t"}),
    ({**SERVER, "certificate-authority": "missing"}, {"token": "t"}),
    ({**SERVER, "certificate-authority-data": "?"}, {"token": "t"}),
]


def kubeconfig_of(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    """Two contexts, of which the second is the current one and the first leads nowhere."""
    (folder / "ca.crt").write_text(AUTHORITY)
    (folder / "token").write_text("from the file\n")
    config = {
        "clusters": [
            {"name": "c", "cluster": cluster},
            {"name": "other", "cluster": {"server": "http://no"}},
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "first", "context": {"cluster": "other", "user": "nobody"}},
            {"name": "second", "context": {"cluster": "c", "user": "u", "namespace": "n"}},
        ],
        "current-context": "second",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize(("cluster", "user"), PLAIN)
async def test_a_plain_kubeconfig_is_read_as_the_library_reads_it(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    from kubernetes_asyncio import config
    from kubernetes_asyncio.client import Configuration

    path, expected = kubeconfig_of(tmp_path, cluster, user), Configuration()
    await config.load_kube_config(config_file=str(path), client_configuration=expected, persist_config=False)
    plain = plain_kubeconfig(str(path), None)
    assert plain is not None
    assert plain.host == expected.host
    assert plain.header == expected.api_key["BearerToken"].strip()
    authority = Path(expected.ssl_ca_cert).read_text() if expected.ssl_ca_cert else None
    file = plain.authority_file
    assert (Path(file).read_text() if file else plain.authority) == authority
    assert plain.verifies == expected.verify_ssl
    assert (plain.server_name, plain.proxy) == (expected.tls_server_name, expected.proxy)


@pytest.mark.parametrize(("cluster", "user"), NOT_PLAIN)
def test_what_is_not_plain_is_left_to_the_library(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    assert plain_kubeconfig(str(kubeconfig_of(tmp_path, cluster, user)), None) is None


@pytest.mark.parametrize("context", ["first", "third"])
def test_a_context_that_leads_nowhere_is_left_to_the_library(tmp_path: Path, context: str) -> None:
    assert plain_kubeconfig(str(kubeconfig_of(tmp_path, SERVER, {"token": "t"})), context) is None
