"""A control plane and real nodes, inside the namespaces that `__main__` made."""

import asyncio
import contextlib
import hashlib
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from phalanx_controlplane.components import KubeScheduler
from phalanx_controlplane.controlplane import ControlPlane
from phalanx_controlplane.go_modules import Progress
from phalanx_controlplane.limits import CONTROL_PLANE_POLL_S
from phalanx_controlplane.nodes import archives, configuration, limits, programs
from phalanx_controlplane.nodes.configuration import Place, node_name
from phalanx_controlplane.nodes.node import Node, run
from phalanx_controlplane.nodes.relay import relay
from phalanx_controlplane.process import ComponentFailed

_SERVICE_ADDRESS: Final = "10.0.0.1"
"""The first address of the range of Services: that of the API server for pods."""

_SERVICE_PORT: Final = 443


class Wanted(Struct, frozen=True, kw_only=True):
    """What a cluster consists of."""

    nodes: int
    folder: Path
    images: tuple[Path, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(node_name(number) for number in range(1, self.nodes + 1))

    def cgroup(self, name: str) -> str:
        """The control group of a node. It is named after the folder, which only one cluster has."""
        return f"phalanx-{hashlib.sha256(bytes(self.folder)).hexdigest()[:8]}-{name}"


@asynccontextmanager
async def cluster(
    wanted: Wanted, *, listener: socket.socket, progress: Progress
) -> AsyncIterator[dict[str, Node]]:
    """Run a cluster while the context lasts; all nodes are Ready when it starts.

    Its API server is reached by `listener`.
    """
    found = programs.find_or_build(progress)
    _network()
    client = _client_certificate(wanted.folder)
    progress("starting the control plane")
    async with (
        ControlPlane.start(
            kwok=False,
            kube_scheduler=KubeScheduler(),
            real_nodes=wanted.names,
            node_lease_seconds=limits.NODE_LEASE_S,
            apiserver_flags=(
                f"--kubelet-client-certificate={client}.crt",
                f"--kubelet-client-key={client}.key",
                "--kubelet-preferred-address-types=InternalIP",
            ),
            controller_manager_flags=("--node-monitor-period=1s",),
        ) as plane,
        relay([listener, _service_listener()], port=plane.port),
    ):
        nodes = {node.place.name: node for node in _nodes(wanted, plane, found)}
        try:
            await _start(wanted, nodes, plane, progress)
            _write_kubeconfig(wanted, plane, port=listener.getsockname()[1])
            yield nodes
        finally:
            for node in nodes.values():
                await node.cut_power()
            shutil.rmtree(wanted.folder / "logs", ignore_errors=True)
            shutil.copytree(plane.logs_folder, wanted.folder / "logs")


def _network() -> None:
    run(["ip", "link", "set", "lo", "up"])
    run(["ip", "addr", "add", f"{_SERVICE_ADDRESS}/32", "dev", "lo"])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    run(["mount", "--make-rshared", "/"])


def _service_listener() -> socket.socket:
    return socket.create_server((_SERVICE_ADDRESS, _SERVICE_PORT))


def _client_certificate(folder: Path) -> Path:
    """An authority, and a certificate by which kubelets know the API server. The path without its endings."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, client = folder / "authority", folder / "apiserver"
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    new += ["-noenc", "-x509", "-days", "365"]
    run([*new, "-subj", "/CN=kubelet-clients", "-keyout", f"{authority}.key", "-out", f"{authority}.crt"])
    run(
        [
            *(*new, "-subj", "/O=system:masters/CN=kube-apiserver"),
            *("-keyout", f"{client}.key", "-out", f"{client}.crt"),
            *("-CA", f"{authority}.crt", "-CAkey", f"{authority}.key"),
            *("-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=clientAuth"),
        ]
    )
    return client


def _nodes(wanted: Wanted, plane: ControlPlane, found: programs.NodePrograms) -> list[Node]:
    runc = shutil.which("runc") or "runc"
    places = [
        Place(
            number=number,
            folder=wanted.folder / name,
            cgroup=wanted.cgroup(name),
            runc=Path(runc),
            authority=wanted.folder / "authority.crt",
        )
        for number, name in enumerate(wanted.names, start=1)
    ]
    return [
        Node(place, programs=found, kubeconfig=plane.node_kubeconfig(place.name), logs=plane.logs_folder)
        for place in places
    ]


async def _start(wanted: Wanted, nodes: dict[str, Node], plane: ControlPlane, progress: Progress) -> None:
    found = programs.find_or_build(progress)
    pause = wanted.folder / "pause.tar"
    archives.write_image(pause, name=configuration.PAUSE_IMAGE, program=found.path("pause"))
    progress(f"starting {len(nodes)} nodes with containerd and kubelet")
    for node in nodes.values():
        node.prepare()
    await asyncio.gather(*(node.start([pause, *wanted.images]) for node in nodes.values()))
    progress("waiting until the nodes are Ready")
    try:
        await asyncio.wait_for(_all_ready(plane, nodes), limits.NODE_READY_TIMEOUT_S)
    except TimeoutError:
        logs = "\n".join(node.tail(15) for node in nodes.values())
        raise ComponentFailed(f"the nodes are not Ready\n{logs}") from None


async def _all_ready(plane: ControlPlane, nodes: dict[str, Node]) -> None:
    async with plane.session() as session:
        while True:
            async with session.get("/api/v1/nodes", raise_for_status=True) as answer:
                listed = (await answer.json())["items"]
            ready = {
                each["metadata"]["name"]
                for each in listed
                for condition in each["status"].get("conditions", ())
                if condition["type"] == "Ready" and condition["status"] == "True"
            }
            if ready >= set(nodes):
                return
            await asyncio.sleep(CONTROL_PLANE_POLL_S)


def _write_kubeconfig(wanted: Wanted, plane: ControlPlane, *, port: int) -> None:
    text = plane.kubeconfig_path.read_text().replace(f":{plane.port}\n", f":{port}\n")
    path = wanted.folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(text)


async def obey(nodes: dict[str, Node], *, report: Progress) -> None:
    """Obey standard input until it is closed: `stop NODE` cuts the power, `start NODE` restores it."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    )
    while line := (await reader.readline()).decode():
        verb, _, name = line.strip().partition(" ")
        with contextlib.suppress(KeyError):
            if verb == "stop":
                await nodes[name].cut_power()
            elif verb == "start":
                await nodes[name].start([])
        report(line.strip())
