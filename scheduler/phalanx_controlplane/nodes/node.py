"""One real node: containerd and a kubelet."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

import yaml

from phalanx_controlplane import limits as shared_limits
from phalanx_controlplane.nodes import cgroups, configuration, limits
from phalanx_controlplane.nodes.configuration import Place
from phalanx_controlplane.nodes.programs import NodePrograms
from phalanx_controlplane.process import ComponentFailed, Process


class Node:
    """A node that can be started, lose its power, and be started again."""

    def __init__(self, place: Place, *, programs: NodePrograms, kubeconfig: Path, logs: Path) -> None:
        self.place = place
        self._programs = programs
        self._kubeconfig = kubeconfig
        self._logs = logs
        self._processes: list[Process] = []

    def prepare(self) -> None:
        """Write the configuration, and make the address of the node."""
        place = self.place
        for folder in (place.folder, place.static_pods, place.folder / "network"):
            folder.mkdir(parents=True)
        (place.folder / "containerd.toml").write_text(configuration.containerd(place))
        (place.folder / "kubelet.yaml").write_text(yaml.safe_dump(configuration.kubelet(place)))
        (place.folder / "network" / "pods.conflist").write_text(json.dumps(configuration.network(place)))
        for command in (
            f"link add {place.bridge} type bridge",
            f"addr add {place.address}/24 dev {place.bridge}",
            f"link set {place.bridge} up",
        ):
            run(["ip", *command.split()])

    async def start(self, images: Iterable[Path]) -> None:
        """Start containerd, import the images, start the kubelet."""
        cgroups.create(self.place.cgroup)
        self.place.socket.unlink(missing_ok=True)
        runtime = self._process("containerd", ["--config", str(self.place.folder / "containerd.toml")])
        await self._answers(runtime)
        for image in images:
            await asyncio.to_thread(self._import, image)
        self._process(
            "kubelet",
            [
                f"--config={self.place.folder / 'kubelet.yaml'}",
                f"--kubeconfig={self._kubeconfig}",
                f"--hostname-override={self.place.name}",
                f"--root-dir={self.place.folder / 'kubelet'}",
                f"--cert-dir={self.place.folder / 'kubelet-pki'}",
                f"--node-ip={self.place.address}",
            ],
        )

    async def cut_power(self) -> None:
        """Kill everything of this node at once: kubelet, containerd, its shims and all containers."""
        for process in reversed(self._processes):
            await process.kill()
        self._processes = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limits.NODE_STOP_TIMEOUT_S
        while cgroups.kill(self.place.cgroup) | self._kill_shims():
            if loop.time() >= deadline:
                raise ComponentFailed(f"processes of {self.place.name} do not end")
            await asyncio.sleep(shared_limits.CONTROL_PLANE_POLL_S)

    def tail(self, lines: int) -> str:
        """The ends of its logs."""
        return "\n".join(f"--- {process.name}\n{process.tail(lines)}" for process in self._processes)

    def _process(self, program: str, arguments: list[str]) -> Process:
        name = f"{self.place.name}-{program}"
        process = Process(
            name=name,
            command=[str(self._programs.path(program)), *arguments],
            log=self._logs / f"{name}.log",
            home=self.place.folder,
            environment={"PATH": f"{self._programs.folder}:{os.environ.get('PATH', os.defpath)}:/usr/sbin"},
        )
        self._processes.append(process)
        return process

    async def _answers(self, runtime: Process) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + shared_limits.CONTROL_PLANE_START_TIMEOUT_S
        while not await asyncio.to_thread(self._ctr, "plugins", "ls", "id==images"):
            if not runtime.running or loop.time() >= deadline:
                raise ComponentFailed(f"{runtime.name} does not answer:\n{runtime.tail(20)}")
            await asyncio.sleep(shared_limits.CONTROL_PLANE_POLL_S)

    def _import(self, archive: Path) -> None:
        if not self._ctr("images", "import", "--local", str(archive)):
            raise ComponentFailed(f"{self.place.name} cannot import {archive}")

    def _ctr(self, *arguments: str) -> bool:
        command = [
            str(self._programs.path("ctr")),
            "--address",
            str(self.place.socket),
            "--namespace",
            "k8s.io",
            *arguments,
        ]
        done = subprocess.run(
            command, capture_output=True, timeout=limits.IMAGE_IMPORT_TIMEOUT_S, check=False, cwd="/"
        )
        return done.returncode == 0

    def _kill_shims(self) -> bool:
        """Kill the shims of this node's containerd. Whether there were any."""
        found = False
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"shim" in words[0] and str(self.place.socket).encode() in words:
                os.kill(int(folder.name), signal.SIGKILL)
                found = True
        return found


def run(command: list[str]) -> None:
    """Run a program to its end. Raises ComponentFailed."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=limits.COMMAND_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise ComponentFailed(f"{' '.join(command)}: {done.stderr.strip()}")
