"""Published workload controllers: builds, CRDs and webhooks; a small program runs in place of one."""

import asyncio
import base64
import sys
from pathlib import Path

import aiohttp
import pytest
import yaml
from phalanx_controlplane import __main__ as command
from phalanx_controlplane import run_folder
from phalanx_controlplane.controllers import api, catalog, crds, webhooks
from phalanx_controlplane.controllers.catalog import CONTROLLERS, UnknownController
from phalanx_controlplane.controllers.definition import Controller, Manifest, Place
from phalanx_controlplane.controllers.running import Reachable, refuse_reachable, running
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_controlplane.process import ComponentFailed
from phalanx_controlplane.programs import Built
from phalanx_controlplane.resources import module_dir

from tests import fake_go

SCHEMA = {
    "description": "a text",
    "type": "object",
    "properties": {"description": {"type": "string", "description": "a text"}},
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "examples.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"kind": "Example", "plural": "examples", "singular": "example"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}},
        ],
    },
}


def webhook(name: str, path: str) -> Manifest:
    """A webhook as it is published: of a service, for Examples."""
    return {
        "name": f"{name}.example.org",
        "clientConfig": {"service": {"name": "webhook-service", "namespace": "system", "path": path}},
        "rules": [
            {
                "apiGroups": ["example.org"],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["examples"],
            }
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }


HOOKS = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "mutating"},
    "webhooks": [webhook("first", "/first"), webhook("second", "/second")],
}


def arguments(place: Place) -> list[str]:
    """What the program in place of a controller is started with."""
    certificates = place.certificates
    return [
        *("-c", SERVER, str(place.health_port), str(place.webhook_port)),
        *(str(certificates / "tls.crt"), str(certificates / "tls.key")),
    ]


def controller(**more: object) -> Controller:
    """A controller of Examples."""
    fields = {
        "name": "example",
        "module": "workloads",
        "source": "sigs.k8s.io/jobset",
        "package": "example.org/example",
        "namespace": "example-system",
        "crds": ("crd.yaml",),
        "webhooks": "webhooks.yaml",
        "webhook_patches": ("*-patch.yaml",),
        "command": arguments,
        **more,
    }
    return Controller(**fields)  # type: ignore[arg-type]


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """The files of its module; Python is the program."""
    operation = {"op": "replace", "path": "/webhooks/1", "value": webhook("patched", "/patched")}
    files: dict[str, object] = {"crd": CRD, "webhooks": HOOKS, "mutating-patch": [operation]}
    for name, content in files.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return Built(program=Path(sys.executable), files=tmp_path)


def test_a_controller_comes_after_those_that_it_needs() -> None:
    assert [each.name for each in catalog.named(["trainer", "jobset"])] == ["jobset", "trainer"]


def test_an_unknown_controller_is_an_error_that_lists_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnknownController, match=r"no controller 'kueue'; there are jobset, "):
        catalog.named(["kueue"])
    monkeypatch.setattr(sys, "argv", ["phalanx_controlplane", "build", "--controllers", "kueue"])
    assert command.main() == 2
    assert "no controller 'kueue'" in capsys.readouterr().err


@pytest.mark.parametrize("controller", CONTROLLERS, ids=lambda each: each.name)
def test_every_controller_is_pinned_by_a_module_that_names_no_host(controller: Controller) -> None:
    module = module_dir("controllers") / controller.module
    assert controller.program.version.startswith("v")
    assert controller.package in (module / "go.mod").read_text()
    hosts = ("http://", "https://", "proxy.golang.org", "sum.golang.org")
    assert not any(host in path.read_text() for path in module.iterdir() for host in hosts)


def test_a_controller_that_is_not_built_is_built_or_the_reason_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    go = fake_go.install(tmp_path, monkeypatch, source=tmp_path / "source")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "")
    monkeypatch.setattr(command.releases, "find_or_build_release", lambda release, progress: None)
    monkeypatch.setattr(sys, "argv", ["phalanx_controlplane", "build", "--controllers", "mpi-operator"])
    (tmp_path / "source" / "manifests" / "base").mkdir(parents=True)
    (tmp_path / "source" / "manifests" / "base" / "kubeflow.org_mpijobs.yaml").write_text("kind: A\n")
    go.rename(go.with_suffix(".away"))
    assert command.main() == 2
    assert "install Go" in capsys.readouterr().err
    go.with_suffix(".away").rename(go)
    assert command.main() == 0
    assert "building mpi-operator v0.7.0" in capsys.readouterr().err
    assert command.main() == 0
    assert capsys.readouterr().err == ""


def test_crds_lose_descriptions_but_no_field(built: Built) -> None:
    [found] = crds.of(controller(), built)
    [version] = found["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {"description": {"type": "string"}},
    }


def test_webhooks_call_the_controller_by_url_after_the_patches_of_its_installation(built: Built) -> None:
    authority = built.files / "authority"
    authority.write_text("a certificate")
    [found] = webhooks.configurations(controller(), built, url="https://127.0.0.1:1", authority=authority)
    assert found["metadata"]["name"] == "example-mutating"
    bundle = base64.b64encode(b"a certificate").decode()
    first, second, probe = found["webhooks"]
    assert first["clientConfig"] == {"url": "https://127.0.0.1:1/first", "caBundle": bundle}
    assert second["name"] == "patched.example.org"
    assert second["clientConfig"]["url"] == "https://127.0.0.1:1/patched"
    assert webhooks.urls(found) == ["https://127.0.0.1:1/first", "https://127.0.0.1:1/patched"]
    assert probe["objectSelector"]["matchLabels"] == webhooks.probe_object(found)["metadata"]["labels"]


def test_a_patch_that_is_not_understood_is_an_error(built: Built) -> None:
    operation = {"op": "remove", "path": "/webhooks/1"}
    (built.files / "mutating-patch.yaml").write_text(yaml.safe_dump([operation]))
    with pytest.raises(ValueError, match="not implemented"):
        webhooks.configurations(controller(), built, url="", authority=built.files / "crd.yaml")


def test_a_fixed_port_is_taken_once() -> None:
    lease = run_folder.reserve(1)
    [port] = lease.ports
    lease.release()
    with run_folder.reserve_port(port), pytest.raises(run_folder.PortsTaken, match=str(port)):
        run_folder.reserve_port(port)
    run_folder.reserve_port(port).release()


SERVER = """
import http.server, json, ssl, sys, threading

class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

class Webhook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        uid = body.get("request", {}).get("uid", "")
        answer = {"uid": uid, "allowed": self.path == "/first", "status": {"message": "by the controller"}}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        self.send_response(404 if self.path == "/probe" else 200)
        self.end_headers()
        self.wfile.write(json.dumps(review).encode())

health, port = int(sys.argv[1]), int(sys.argv[2])
checks = http.server.HTTPServer(("127.0.0.1", health), Health)
threading.Thread(target=checks.serve_forever, daemon=True).start()
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[3], sys.argv[4])
server = http.server.HTTPServer(("127.0.0.1", port), Webhook)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
"""A controller that does nothing, and whose second webhook refuses."""

EXAMPLE = {
    "apiVersion": "example.org/v1",
    "kind": "Example",
    "metadata": {"name": "one", "namespace": "default"},
}


@pytest.fixture
def only_controller(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue has the controller of Examples only."""
    monkeypatch.setattr(catalog, "CONTROLLERS", (controller(),))
    monkeypatch.setattr("phalanx_controlplane.programs.Program.built", lambda _program: built)


@pytest.mark.controlplane
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("only_controller")
async def test_webhooks_are_called_while_a_controller_runs(control_plane: ControlPlane) -> None:
    async with control_plane.session() as session:
        async with running(control_plane, ["example"]):
            process = control_plane.pid("example")
            assert Path(f"/proc/{process}").exists()
            with pytest.raises(api.Refused, match="by the controller"):
                await api.apply(session, EXAMPLE)
        assert not Path(f"/proc/{process}").exists()
        await api.apply(session, EXAMPLE)
        await api.delete(session, EXAMPLE)
        await api.delete(session, EXAMPLE)
        await api.delete(session, CRD)
        await gone(session, CRD)


async def gone(session: aiohttp.ClientSession, manifest: Manifest) -> None:
    """Wait until the object is deleted: a CRD that is applied before is deleted all the same."""
    path = await api.path_of(session, manifest)
    async with asyncio.timeout(60):
        while True:
            async with session.get(path) as answer:
                if answer.status == 404:
                    return
            await asyncio.sleep(0.05)


@pytest.mark.controlplane
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("only_controller")
async def test_a_controller_that_ends_is_an_error_with_the_end_of_its_log(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = controller(command=lambda _place: ["-c", "print('no such flag'); raise SystemExit(1)"])
    monkeypatch.setattr(catalog, "CONTROLLERS", (ends,))
    with pytest.raises(ComponentFailed, match=r"example ended:(.|\n)*no such flag"):
        async with running(control_plane, ["example"]):
            pytest.fail("it does not run")


def test_a_controller_on_all_addresses_runs_only_beside_loopback() -> None:
    exposed, local = catalog.named(["mpi-operator"])[0], catalog.named(["jobset"])[0]
    refuse_reachable([exposed, local], ["lo"])
    refuse_reachable([local], ["lo", "eth0"])
    with pytest.raises(Reachable, match=r"mpi-operator: listens on all addresses"):
        refuse_reachable([exposed, local], ["lo", "eth0"])
