"""Releases of the chart on a real API server, with a gang that exists all the time: `make chart`."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml
from phalanx_controlplane.controlplane import ControlPlane

from tests.crds import api
from tests.crds.files import API_VERSION
from tests.deploy.installers import ALL_POLICIES, CHART, EVERYTHING, NAMESPACE, RELEASE, Helm, kustomize
from tests.deploy.manifests import DEPLOY, Document
from tests.deploy.policies import active, open_namespace, policies, send

pytestmark = [pytest.mark.chart, pytest.mark.asyncio(loop_scope="module")]

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ControlPlane]:
    """A control plane of its own: releases own cluster-wide objects."""
    async with ControlPlane.start() as plane:
        yield plane


@pytest_asyncio.fixture(loop_scope="module")
async def session(plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    async with plane.session() as session:
        yield session


def older_chart(folder: Path) -> Path:
    """An older version: no field startBy in the CRD of PodGroups, and one replica."""
    chart = folder / "older"
    shutil.copytree(CHART, chart)
    definition = yaml.safe_load((chart / "files" / "crds" / "podgroups.yaml").read_text())
    (version,) = definition["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["startBy"]
    (chart / "files" / "crds" / "podgroups.yaml").write_text(yaml.safe_dump(definition, sort_keys=False))
    for name, old, new in (
        ("Chart.yaml", "version: 0.1.0\n", "version: 0.0.9\n"),
        ("values.yaml", "replicas: 2\n", "replicas: 1\n"),
    ):
        text = (chart / name).read_text()
        assert old in text
        (chart / name).write_text(text.replace(old, new))
    return chart


def gang(**spec: Any) -> Document:
    meta = {"name": "train", "namespace": "default"}
    return {"apiVersion": API_VERSION, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 2, **spec}}


async def read(session: aiohttp.ClientSession, path: str) -> Document:
    async with session.get(path, raise_for_status=True) as answer:
        found: Document = await answer.json()
        return found


async def replicas(session: aiohttp.ClientSession) -> int:
    found = await read(session, f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/phalanx")
    return int(found["spec"]["replicas"])


async def spec_fields(session: aiohttp.ClientSession) -> set[str]:
    found = await read(session, f"{CRDS}/podgroups.scheduling.phalanx.dev")
    (version,) = found["spec"]["versions"]
    return set(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


async def test_policies_without_their_parameters_admit_pods(session: aiohttp.ClientSession) -> None:
    """Before the CRDs are installed, or after they were removed, nothing may stop the pods of the cluster."""
    namespace, queue = "no-crds", {"scheduling.phalanx.dev/queue": "vision"}
    await open_namespace(session, namespace, {})
    refused = pod(namespace, {"scheduling.phalanx.dev/min-member": "0"})
    installed = policies("queues", "topology-levels", "pod-groups", "gang-labels")
    async with active(session, installed, namespace, [refused]):
        assert await send(session, pod(namespace, queue)) == (201, "")


def pod(namespace: str, labels: dict[str, str]) -> Document:
    spec = {"schedulerName": "phalanx", "containers": [{"name": "main", "image": "train:1"}]}
    meta = {"name": "p", "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


async def test_install_upgrade_rollback_uninstall(
    plane: ControlPlane, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """A gang exists all the time: nothing that Helm does to the CRDs may lose it, or its status."""
    helm = Helm(tmp_path, plane.kubeconfig_path)
    release, older = RELEASE[0], older_chart(tmp_path)
    helm("install", release, str(older), "--namespace", NAMESPACE, "--create-namespace")
    group = f"{api.collection(gang())}/train"
    await api.established(session, "podgroups.scheduling.phalanx.dev")
    await api.apply(session, gang())
    await set_status(session, group)
    uid = (await read(session, group))["metadata"]["uid"]
    assert (await replicas(session), "startBy" in await spec_fields(session)) == (1, False)

    helm("upgrade", *RELEASE)
    assert (await replicas(session), "startBy" in await spec_fields(session)) == (2, True)
    await api.apply(session, gang(startBy="2100-01-01T00:00:00Z"))
    await is_kept(session, group, uid, startBy="2100-01-01T00:00:00Z")

    helm("rollback", release, "1", "--namespace", NAMESPACE)
    assert (await replicas(session), "startBy" in await spec_fields(session)) == (1, False)
    await is_kept(session, group, uid)

    everything = tmp_path / "everything.yaml"
    everything.write_text(yaml.safe_dump(EVERYTHING))
    helm("upgrade", *RELEASE, "--values", str(everything))
    assert (await replicas(session), "startBy" in await spec_fields(session)) == (3, True)
    await is_kept(session, group, uid, startBy="2100-01-01T00:00:00Z")
    history = yaml.safe_load(helm("history", release, "--namespace", NAMESPACE, "--output", "yaml"))
    assert [each["status"] for each in history] == ["superseded"] * 3 + ["deployed"]

    assert await installed_policies(session) == {f"phalanx-{name}" for name in ALL_POLICIES}

    helm("uninstall", release, "--namespace", NAMESPACE)
    assert await installed_policies(session) == set()
    await is_kept(session, group, uid, startBy="2100-01-01T00:00:00Z")
    async with session.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/phalanx") as answer:
        assert answer.status == 404

    helm("install", *RELEASE)
    assert await replicas(session) == 2
    await is_kept(session, group, uid, startBy="2100-01-01T00:00:00Z")


async def installed_policies(session: aiohttp.ClientSession) -> set[str]:
    """The admission policies of Phalanx that have a binding."""
    found = await read(session, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings")
    return {
        each["metadata"]["name"] for each in found["items"] if each["metadata"]["name"].startswith("phalanx")
    }


async def set_status(session: aiohttp.ClientSession, group: str) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    body = {"status": {"phase": "Running"}}
    async with session.patch(f"{group}/status", json=body, headers=headers, raise_for_status=True):
        pass


async def is_kept(session: aiohttp.ClientSession, group: str, uid: str, **spec: Any) -> None:
    found = await read(session, group)
    assert found["metadata"]["uid"] == uid
    assert found["spec"] == {"minMember": 2, **spec}
    assert found["status"] == {"phase": "Running"}


async def test_helm_takes_over_what_kubectl_has_applied(
    plane: ControlPlane, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    helm = Helm(tmp_path, plane.kubeconfig_path)
    installed = helm("list", "--namespace", NAMESPACE, "--short").split()
    for release in installed:
        helm("uninstall", release, "--namespace", NAMESPACE)
    for document in kustomize(DEPLOY / "base"):
        await api.apply(session, document)
    refused = helm.run("install", *RELEASE)
    assert refused.returncode != 0
    assert "invalid ownership metadata" in refused.stderr
    helm("install", *RELEASE, "--take-ownership", "--force-conflicts")
    assert await replicas(session) == 2
    helm("uninstall", RELEASE[0], "--namespace", NAMESPACE)
    assert "startBy" in await spec_fields(session)
