"""Times the commands that look at a cluster, beside `kubectl get pods`, on a real API server.

    python -m bench.cli_verbs [--pods 10000] [--nodes 1000] [--gang 100] [--rounds 3] [--only TEXT]

Real etcd and kube-apiserver, without controllers and kubelets: the objects stay as they are created. Nine of
ten gangs have nodes. Half of them are in the namespace of a tenant with the roles view and edit there. Each
command is a process of its own; the table has the medians over the rounds of the seconds until the first
byte of its output, until its end, and of its CPU. `as tenant` has the tenant's rights and reads its namespace
alone. Commands and kubectl take turns, so that other work on the machine slows both. Writes
bench/results/cli_verbs.json.
"""

import argparse
import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct
from phalanx_controlplane.controlplane import ControlPlane

from bench.record import record
from tests.crds import api
from tests.crds.files import definitions
from tests.deploy.manifests import base
from tests.fake_objects import Manifest, collection_path, create_many, fake_node, fake_pod, namespace

RESULTS: Final = Path(__file__).parent / "results" / "cli_verbs.json"
VERSION: Final = "scheduling.phalanx.dev/v1alpha1"
GROUP: Final = "scheduling.phalanx.dev/pod-group"
SPACES: Final = ("vision", "speech")
ROLES: Final = ("system:aggregate-to-view", "phalanx-view", "phalanx-edit")
GPUS: Final = 8

COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "kubectl get pods -A": ("kubectl", "get", "pods", "-A"),
    "kubectl get nodes": ("kubectl", "get", "nodes"),
    "kubectl get podgroups -A": ("kubectl", "get", "podgroups.scheduling.phalanx.dev", "-A"),
    "queues": ("phalanx", "queues"),
    "jobs -A": ("phalanx", "jobs", "-A"),
    "why": ("phalanx", "why", "gang-0", "-n", "vision"),
    "nodes": ("phalanx", "nodes"),
    "topo": ("phalanx", "topo"),
    "drain-plan": ("phalanx", "drain-plan", "-l", "rack=rack-0"),
    "what-if --drain": ("phalanx", "what-if", "--drain", "node-0"),
    "top (one frame)": ("phalanx", "top", "-A"),
    "hold": ("phalanx", "hold", "gang-waits", "-n", "vision"),
    "completion of why": ("phalanx", "__complete", "why", "-n", "vision", "gang-1"),
    "kubectl get pods, as tenant": ("kubectl", "get", "pods"),
    "jobs, as tenant": ("phalanx", "jobs"),
    "why, as tenant": ("phalanx", "why", "gang-0"),
}


class Run(Struct, frozen=True):
    """One run of a command, in seconds."""

    first_byte: float
    wall: float
    cpu: float
    lines: int
    code: int


def main() -> None:
    """Create the cluster, measure, print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--gang", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    asyncio.run(bench(parser.parse_args()))


async def bench(arguments: argparse.Namespace) -> None:
    """Run everything on one control plane."""
    if shutil.which("kubectl") is None:
        sys.exit("kubectl is not in the PATH")
    async with ControlPlane.start(kwok=False, controller_manager=False) as plane:
        tenant = await create_cluster(plane, arguments)
        wanted = {name: command for name, command in COMMANDS.items() if arguments.only in name}
        runs: dict[str, list[Run]] = {name: [] for name in wanted}
        for _ in range(arguments.rounds):
            for name, command in wanted.items():
                file = tenant if name.endswith("as tenant") else plane.kubeconfig_path
                runs[name].append(await asyncio.to_thread(measure, command, file))
    rows = {name: median(each) for name, each in runs.items()}
    print(f"{'command':<30}{'first byte s':>13}{'end s':>9}{'CPU s':>9}{'lines':>8}{'code':>6}")
    for name, row in rows.items():
        print(f"{name:<30}{row.first_byte:>13.2f}{row.wall:>9.2f}{row.cpu:>9.2f}{row.lines:>8}{row.code:>6}")
    settings = {"pods": arguments.pods, "nodes": arguments.nodes, "gang": arguments.gang}
    settings |= {"rounds": arguments.rounds, "kubectl": kubectl_version()}
    record(RESULTS, {**settings, "rows": {name: msgspec.to_builtins(row) for name, row in rows.items()}})


def kubectl_version() -> str:
    """The version of the client that is compared with."""
    done = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True, check=False
    )
    return str(json.loads(done.stdout or "{}").get("clientVersion", {}).get("gitVersion", "unknown"))


def measure(command: tuple[str, ...], kubeconfig: Path) -> Run:
    """Run the command with its output in a pipe."""
    program = Path(sys.executable).parent / command[0]
    words = [str(program) if command[0] == "phalanx" else command[0], *command[1:]]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        assert process.stdout is not None
        start = process.stdout.read(1)
        first = time.monotonic() - begin
        rest = process.stdout.read()
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(first, wall, cpu, (start + rest).count(b"\n"), process.returncode)


def median(runs: list[Run]) -> Run:
    """The median of each time."""
    return Run(
        first_byte=statistics.median(run.first_byte for run in runs),
        wall=statistics.median(run.wall for run in runs),
        cpu=statistics.median(run.cpu for run in runs),
        lines=runs[-1].lines,
        code=runs[-1].code,
    )


async def create_cluster(plane: ControlPlane, arguments: argparse.Namespace) -> Path:
    """Create all objects; return the kubeconfig of the tenant."""
    async with plane.session() as session:
        await api.install(session, list(definitions().values()))
        for name in ("phalanx-view", "phalanx-edit"):
            await api.apply(session, base("ClusterRole", name))
        await create_many(session, (namespace(space) for space in SPACES))
        await create_many(session, cluster_objects(arguments))
        await create_many(session, pod_objects(arguments))
        for item in statuses(arguments):
            path = f"{collection_path(item)}/{item['metadata']['name']}/status"
            headers = {"Content-Type": "application/merge-patch+json"}
            async with session.patch(path, json={"status": item["status"]}, headers=headers) as answer:
                answer.raise_for_status()
        file = await plane.service_account_kubeconfig(SPACES[0], "tenant")
        await create_many(session, bindings())
    config = yaml.safe_load(file.read_text())
    config["contexts"][0]["context"]["namespace"] = SPACES[0]
    own = Path(tempfile.mkdtemp()) / "tenant"
    own.write_text(yaml.safe_dump(config))
    return own


def cluster_objects(arguments: argparse.Namespace) -> Iterator[Manifest]:
    """Nodes in racks of 16, queues, a topology."""
    for number in range(arguments.nodes):
        labels = {"rack": f"rack-{number // 16}", "spine": f"spine-{number // 256}"}
        yield fake_node(f"node-{number}", labels=labels, allocatable={"nvidia.com/gpu": str(GPUS)})
    levels = [{"name": name, "nodeLabel": name} for name in ("spine", "rack")]
    yield ours("Topology", "default", {"levels": levels})
    for space in SPACES:
        yield ours("Queue", space, {"guarantee": {"nvidia.com/gpu": 100}})


def pod_objects(arguments: argparse.Namespace) -> Iterator[Manifest]:
    """Gangs and their pods; one of ten gangs waits."""
    gangs = arguments.pods // arguments.gang
    place = 0
    for number in range(gangs):
        name = "gang-waits" if number == gangs - 2 else f"gang-{number}"
        space = SPACES[number % 2]
        yield ours("PodGroup", name, {"minMember": arguments.gang, "queue": space}, space)
        for index in range(arguments.gang):
            pod = fake_pod(
                f"{name}-{index}",
                namespace=space,
                labels={GROUP: name},
                requests={"cpu": "1", "nvidia.com/gpu": "1"},
            )
            pod["spec"]["tolerations"] = [{"operator": "Exists"}]
            if number % 10 < 9 and name != "gang-waits" and place < arguments.nodes * GPUS:
                pod["spec"]["nodeName"] = f"node-{place // GPUS}"
                place += 1
            yield pod


def statuses(arguments: argparse.Namespace) -> Iterator[Manifest]:
    """What a scheduler has written: phases, and a verdict for the gangs that wait."""
    for number in range(arguments.pods // arguments.gang):
        name = f"gang-{number}"
        if number == arguments.pods // arguments.gang - 2:
            continue
        verdict: dict[str, Any] = {"phase": "Running"}
        if number % 10 == 9:
            verdict = {
                "phase": "Pending",
                "reason": "InsufficientCapacity",
                "queuePosition": number // 10 + 1,
            }
        item = ours("PodGroup", name, {"minMember": 1}, SPACES[number % 2])
        yield {**item, "status": verdict}


def bindings() -> Iterator[Manifest]:
    """The roles of the tenant in its namespace."""
    for role in ROLES:
        yield {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role.replace(":", "-"), "namespace": SPACES[0]},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": SPACES[0]}],
        }


def ours(kind: str, name: str, spec: Manifest, space: str = "") -> Manifest:
    """An object of the API group of Phalanx."""
    metadata = {"name": name, **({"namespace": space} if space else {})}
    return {"apiVersion": VERSION, "kind": kind, "metadata": metadata, "spec": spec}


if __name__ == "__main__":
    main()
