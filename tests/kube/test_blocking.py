"""The client without an event loop: kubeconfigs, errors, pages, and the library for unusual kubeconfigs."""

import asyncio
import base64
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from phalanx.kube.blocking import BlockingClient, access_of
from phalanx.kube.errors import NotFound, Unauthorized
from phalanx.kube.kubeconfig import Access, NoCluster, contexts, read_access
from phalanx.limits import READ_TIMEOUT_S
from phalanx.ports import OutcomeUnknown, RequestNotSent
from phalanx_controlplane.controlplane import ControlPlane

from tests.embedded_fixture import EmbeddedApi


def kubeconfig(path: Path, *, cluster: Any = None, user: Any = None, **context: Any) -> str:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u", **context}},
            {"name": "two", "context": {"cluster": "c", "namespace": "other"}},
        ],
        "current-context": "one",
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_server_namespace_and_token(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", user={"token": "secret"}, namespace="team")
    expected = Access("http://127.0.0.1:1", namespace="team", authorization="Bearer secret")
    assert read_access(file, None) == expected
    assert read_access(file, "two") == Access("http://127.0.0.1:1", namespace="other")
    (tmp_path / "token").write_text("from a file\n")
    file = kubeconfig(tmp_path / "config", user={"tokenFile": "token"})
    access = read_access(file, None)
    assert access is not None
    assert access.authorization == "Bearer from a file"
    assert contexts(file) == ["one", "two"]


def test_the_default_file_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "config", namespace="team"))
    access = read_access(None, None)
    assert access is not None
    assert access.namespace == "team"


@pytest.mark.parametrize(
    "fields",
    [
        {"user": {"exec": {"command": "x"}}},
        {"user": {"username": "a", "password": "b"}},
        {"cluster": {"proxy-url": "http://127.0.0.1:2"}},
        {"cluster": {"server": "unix:///x"}},
    ],
)
def test_what_only_the_library_can_read(fields: Any, tmp_path: Path) -> None:
    assert read_access(kubeconfig(tmp_path / "config", **fields), None) is None


def test_files_that_are_missing_broken_or_several(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("{")
    assert read_access(str(broken), None) is None
    assert read_access(str(tmp_path / "none"), None) is None
    assert read_access(kubeconfig(tmp_path / "config"), "missing context") is None
    assert read_access(f"{broken}:{broken}", None) is None
    with pytest.raises(NoCluster, match="broken"):
        access_of(str(broken), None)


def test_the_library_reads_the_rest_and_says_the_namespace(tmp_path: Path) -> None:
    """A user name and a password are a form that is left to it."""
    file = kubeconfig(tmp_path / "config", user={"username": "a", "password": "b"}, namespace="team")
    access = access_of(file, None)
    assert (access.server, access.namespace) == ("http://127.0.0.1:1", "team")
    assert access.authorization == "Basic " + base64.b64encode(b"a:b").decode()


async def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    access = read_access(kubeconfig(tmp_path / "config"), None)
    assert access is not None
    with closing(BlockingClient(access)) as client, pytest.raises(RequestNotSent, match=r"127\.0\.0\.1:1"):
        client.get("/version")


def test_a_client_that_is_stopped_waits_for_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:
        client = BlockingClient(Access(f"http://127.0.0.1:{server.getsockname()[1]}"))
        answer = threads.submit(client.get, "/version")
        connection, _ = server.accept()
        with closing(connection):
            assert connection.recv(1)
            client.stop()
            with pytest.raises(OutcomeUnknown):
                answer.result(timeout=READ_TIMEOUT_S / 2)
        with pytest.raises(OutcomeUnknown, match="stopped"):
            client.get("/version")


async def test_pages_and_errors(embedded_api: EmbeddedApi) -> None:
    def use() -> list[str]:
        access = read_access(str(embedded_api.kubeconfig), None)
        assert access is not None
        with closing(BlockingClient(access)) as client:
            pages = list(client.pages("/api/v1/namespaces"))
            names = [
                item["metadata"]["name"] for page in pages for item in msgspec.json.decode(page)["items"]
            ]
            with pytest.raises(NotFound):
                client.get("/api/v1/namespaces/none")
            body = client.merge_patch("/api/v1/namespaces/default", {"metadata": {"labels": {"a": "b"}}})
            assert msgspec.json.decode(body)["metadata"]["labels"]["a"] == "b"
        wrong = Access(access.server, authorization="Bearer wrong")
        with closing(BlockingClient(wrong)) as client, pytest.raises(Unauthorized):
            client.get("/api/v1/namespaces")
        return names

    assert "default" in await asyncio.to_thread(use)


@pytest.mark.controlplane
@pytest.mark.asyncio(loop_scope="session")
async def test_tls_of_a_real_server(control_plane: ControlPlane) -> None:
    def use() -> str:
        access = read_access(str(control_plane.kubeconfig_path), None)
        assert access is not None
        assert access.tls is not None
        with closing(BlockingClient(access)) as client:
            return client.get("/version").decode()

    assert "gitVersion" in await asyncio.to_thread(use)
