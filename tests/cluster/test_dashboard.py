"""The pages as a pod of the chart, behind TLS, for users who sign in with tokens of Kubernetes."""

import asyncio
import re
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from tests.cluster.gangs import finished, gang, running
from tests.cluster.installation import IN, helm, memory, ready, removed
from tests.cluster.real_cluster import Document, RealCluster, until
from tests.deploy.installers import NAMESPACE

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("real nodes"),
    pytest.mark.asyncio(loop_scope="session"),
]

NAME: Final = "phalanx-dashboard"
TLS: Final = ("--set", "dashboard.enabled=true", "--set", f"dashboard.tlsSecret={NAME}")
OWN: Final = ("--take-ownership", "--force-conflicts", "--wait")
LIMIT: Final = 2 << 30
"""The memory limit of the chart."""


async def test_the_pages_run_in_a_pod_and_show_each_user_what_they_may_list(
    cluster: RealCluster, tmp_path: Path
) -> None:
    await removed(cluster)
    certificate = await with_certificate(cluster, tmp_path)
    await helm(cluster, tmp_path, "install", *OWN, *TLS)
    await ready(cluster)
    await cluster.apply(*gang("shown", members=2), *viewer("reader"), account("stranger"))
    await running(cluster, "shown", count=2)

    async with forwarded(cluster, certificate) as pages:
        assert (await pages.get("/")).status == 200
        assert (await pages.get("/api/gangs")).status == 401
        reader, stranger = await token(cluster, "reader"), await token(cluster, "stranger")
        seen = ("shown", "Running")
        await until("the reader sees the gang", lambda: gangs(pages, reader), lambda found: seen in found)
        assert await gangs(pages, stranger) == []
        await signs_in_as_a_browser_does(pages, reader)
    [pod] = await cluster.pods(*IN, "-l", f"app.kubernetes.io/name={NAME}")
    limit, peak = await memory(cluster, pod["metadata"]["name"])
    assert (limit, peak < LIMIT) == (LIMIT, True)
    assert [each["restartCount"] for each in pod["status"]["containerStatuses"]] == [0]

    await finished(cluster, "shown")
    await helm(cluster, tmp_path, "uninstall", "--wait")


async def with_certificate(cluster: RealCluster, folder: Path) -> Path:
    """The Secret that the pod reads, with a certificate for the end of a port forwarding; its file."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-subj", f"/CN={NAME}", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True, timeout=60)
    await cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await cluster.kubectl("delete", "secret", NAME, *IN, "--ignore-not-found")
    await cluster.kubectl("create", "secret", "tls", NAME, *IN, f"--cert={certificate}", f"--key={key}")
    return certificate


def account(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}


def viewer(name: str) -> tuple[Document, Document]:
    """An account that may read its namespace, by the role `view` of every cluster."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    return account(name), binding


async def token(cluster: RealCluster, name: str) -> str:
    return (await cluster.kubectl("create", "token", name)).strip()


@asynccontextmanager
async def forwarded(cluster: RealCluster, certificate: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the Service, through `kubectl port-forward`, that trusts the certificate only."""
    process = await asyncio.create_subprocess_exec(
        *(cluster.programs.path("kubectl"), f"--kubeconfig={cluster.kubeconfig}"),
        *("port-forward", *IN, f"service/{NAME}", ":443"),
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found is not None, line
        trust = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=certificate))
        address = f"https://127.0.0.1:{found.group(1)}"
        # A cookie jar keeps cookies of addresses only with this option.
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(address, connector=trust, cookie_jar=jar) as session:
            yield session
    finally:
        process.terminate()
        await process.wait()


async def gangs(pages: aiohttp.ClientSession, secret: str) -> list[tuple[str, str]]:
    """Name and state of each gang that this user sees."""
    page = await view(pages, "gangs", secret)
    return [(gang["name"], gang["state"]) for gang in page["gangs"]]


async def view(pages: aiohttp.ClientSession, name: str, secret: str) -> Document:
    async with pages.get(f"/api/{name}", headers={"Authorization": f"Bearer {secret}"}) as answer:
        assert answer.status == 200, await answer.text()
        page: Document = (await answer.json())["page"]
        return page


async def signs_in_as_a_browser_does(pages: aiohttp.ClientSession, secret: str) -> None:
    """The form leaves a cookie, which opens the pages and is for encrypted connections and no script."""
    async with pages.post("/sign-in", data={"token": secret}, allow_redirects=False) as answer:
        assert answer.status == 303
        cookie = answer.headers["Set-Cookie"]
        assert {"HttpOnly", "Secure"} <= {part.strip() for part in cookie.split(";")}
    assert (await pages.get("/api/gangs")).status == 200
