"""The client without an event loop: kubeconfigs, errors and pages."""

import asyncio
import base64
import json
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from phalanx.kube.blocking import BlockingClient
from phalanx.kube.errors import NotFound, Unauthorized
from phalanx.kube.kubeconfig import Access, NoCluster, Source, contexts
from phalanx.limits import READ_TIMEOUT_S
from phalanx.ports import OutcomeUnknown, RequestNotSent
from phalanx_controlplane.controlplane import ControlPlane

from tests.embedded_fixture import EmbeddedApi


def access_of(path: str | None, context: str | None) -> Access:
    return Source(path, context).read()


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
    assert access_of(file, None) == expected
    assert access_of(file, "two") == Access("http://127.0.0.1:1", namespace="other")
    (tmp_path / "token").write_text("from a file\n")
    file = kubeconfig(tmp_path / "config", user={"tokenFile": "token"})
    access = access_of(file, None)
    assert access.authorization == "Bearer from a file"
    assert contexts(file) == ["one", "two"]


def test_the_default_file_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "config", namespace="team"))
    access = access_of(None, None)
    assert access.namespace == "team"


def test_a_user_name_and_a_password(tmp_path: Path) -> None:
    user = {"username": "a", "password": "b"}
    access = access_of(kubeconfig(tmp_path / "config", user=user), None)
    assert access.authorization == "Basic " + base64.b64encode(b"a:b").decode()


def test_the_token_of_an_auth_provider(tmp_path: Path) -> None:
    """As it is in the file: plugins renew tokens."""
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": "x.y.z"}}}
    assert access_of(kubeconfig(tmp_path / "config", user=user), None).authorization == "Bearer x.y.z"


def test_a_proxy_and_the_name_of_the_server(tmp_path: Path) -> None:
    cluster = {"proxy-url": "http://127.0.0.1:2", "tls-server-name": "other"}
    access = access_of(kubeconfig(tmp_path / "config", cluster=cluster), None)
    assert (access.proxy, access.server_name) == ("http://127.0.0.1:2", "other")


def test_of_several_files_the_first_that_names_something_counts(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "token").write_text("from beside the file")
    first = {"users": [{"name": "u", "user": {"tokenFile": "token"}}]}
    (tmp_path / "a" / "config").write_text(yaml.safe_dump(first))
    second = kubeconfig(tmp_path / "config", user={"token": "other"}, namespace="team")
    files = f"{tmp_path / 'missing'}:{tmp_path / 'a' / 'config'}:{second}"
    access = access_of(files, None)
    assert (access.namespace, access.authorization) == ("team", "Bearer from beside the file")
    assert contexts(files) == ["one", "two"]


def plugin(path: Path, status: Any, *, version: str = "client.authentication.k8s.io/v1") -> dict[str, Any]:
    """A user whose plugin answers so, and counts its runs in `path`."""
    answer = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    script = f"open({str(path)!r}, 'a').write('x'); print({answer!r})"
    asked = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", script],
    }
    return {"exec": asked}


@pytest.mark.parametrize(
    ("until", "runs"), [("2999-01-01T00:00:00Z", 1), ("2020-01-01T00:00:00Z", 2), ("", 2)]
)
def test_a_plugin_runs_again_when_its_answer_has_expired(until: str, runs: int, tmp_path: Path) -> None:
    status = {"token": "granted", **({"expirationTimestamp": until} if until else {})}
    source = Source(kubeconfig(tmp_path / "config", user=plugin(tmp_path / "runs", status)), None)
    assert [source.read().authorization for _ in range(2)] == ["Bearer granted"] * 2
    assert (tmp_path / "runs").read_text() == "x" * runs
    source.read(refused=True)
    assert (tmp_path / "runs").read_text() == "x" * (runs + 1)


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"exec": {"command": "x"}}, "'apiVersion' is missing"),
        ({"exec": {"apiVersion": "v1", "command": "/none"}}, "/none"),
        ({"exec": {"apiVersion": "v1", "command": "false"}}, "false failed with 1"),
        (plugin(Path("/dev/null"), {}), "without a token and without a certificate"),
        (plugin(Path("/dev/null"), {"token": "x"}, version="v2"), "in version v2, not client"),
        ({"tokenFile": "none"}, "No such file"),
    ],
)
def test_credentials_that_cannot_be_had(user: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match=message):
        access_of(kubeconfig(tmp_path / "config", user=user), None)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of the name `other` that is its own authority, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    paths = (tmp_path / "crt", tmp_path / "key")
    options = [
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=other",
    ]
    names = [
        "-subj",
        "/CN=other",
        "-addext",
        "subjectAltName=DNS:other",
        "-out",
        str(paths[0]),
        "-keyout",
        str(paths[1]),
    ]
    subprocess.run(["openssl", "req", *options, *names], check=True, capture_output=True)
    return paths


@contextmanager
def secure_server(certificate: tuple[Path, Path]) -> Iterator[str]:
    """The address of a server that wants a certificate of the client, and answers each request with {}."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate[0]))
    tls.load_cert_chain(*certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:

        def answer() -> None:
            with tls.wrap_socket(server.accept()[0], server_side=True) as connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        answered = threads.submit(answer)
        yield f"https://127.0.0.1:{server.getsockname()[1]}"
        answered.result(timeout=READ_TIMEOUT_S)


@pytest.mark.parametrize("form", ["files", "data", "plugin"])
def test_tls_with_a_certificate_of_the_client(
    form: str, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    written, key = (path.read_text() for path in certificate)
    data = [base64.b64encode(text.encode()).decode() for text in (written, key)]
    cluster = {"certificate-authority": "crt"}
    user: dict[str, Any] = {"client-certificate": "crt", "client-key": "key"}
    if form == "data":
        cluster = {"certificate-authority-data": data[0]}
        user = {"client-certificate-data": data[0], "client-key-data": data[1]}
    elif form == "plugin":
        user = plugin(tmp_path / "runs", {"clientCertificateData": written, "clientKeyData": key})
    with secure_server(certificate) as server:
        cluster |= {"server": server, "tls-server-name": "other"}
        access = access_of(kubeconfig(tmp_path / "config", cluster=cluster, user=user), None)
        with closing(BlockingClient(access)) as client:
            assert client.get("/version") == b"{}"


def test_the_service_account_of_a_pod(
    certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate[0].rename(tmp_path / "ca.crt")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("phalanx.kube.kubeconfig._SERVICE_ACCOUNT", tmp_path)
    source = Source(None, None)
    with pytest.raises(NoCluster, match=r"the pod's service account: .*No such file"):
        source.read()
    for token in ("first", "second"):
        (tmp_path / "token").write_text(f"{token}\n")
        access = source.read()
        assert (access.server, access.authorization) == ("https://[fd00::1]:443", f"Bearer {token}")
        assert access.tls is not None
    (tmp_path / "token").write_text("")
    with pytest.raises(NoCluster, match="the token is empty"):
        source.read()


def test_files_that_are_missing_or_broken(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("{")
    with pytest.raises(NoCluster, match="broken"):
        access_of(str(broken), None)
    with pytest.raises(NoCluster, match="there is no such file"):
        access_of(str(tmp_path / "none"), None)
    with pytest.raises(NoCluster, match="there is no context missing"):
        access_of(kubeconfig(tmp_path / "config"), "missing")
    with pytest.raises(NoCluster, match="unix:///x is not an address"):
        access_of(kubeconfig(tmp_path / "config", cluster={"server": "unix:///x"}), None)
    assert contexts(str(broken)) == []


async def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    access = access_of(kubeconfig(tmp_path / "config"), None)
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
        access = access_of(str(embedded_api.kubeconfig), None)
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
        access = access_of(str(control_plane.kubeconfig_path), None)
        assert access.tls is not None
        with closing(BlockingClient(access)) as client:
            return client.get("/version").decode()

    assert "gitVersion" in await asyncio.to_thread(use)
