"""Checks that gangs on a real control plane get the placements that `phalanx decide` proves offline.

    python -m bench.as_proven [--nodes N] [--gangs N]

The gangs have two roles and require a rack. The same manifests are given to `phalanx decide`, which needs no
cluster, and to a control plane with KWOK on which `phalanx run` schedules. Both must place every gang with
the same proven certificate; on the control plane each gang must be in one rack, and no node over-committed.
Writes bench/results/as_proven.json.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
from phalanx.model.names import API_VERSION
from phalanx_controlplane.controlplane import ControlPlane

from bench.harness import contenders
from bench.harness.cluster import nodes_usable, served
from bench.harness.dialects import LEASE_NAMESPACE
from bench.harness.gangs import NAMESPACE, PODS_PATH
from bench.record import record
from tests.fake_objects import create_many, fake_node, namespace

RESULTS = Path(__file__).parent / "results"
POD_GROUPS_PATH = f"/apis/{API_VERSION}/podgroups"
RACK, ZONE = "cloud.provider.com/topology-rack", "topology.kubernetes.io/zone"
ROLES = {"worker": (6, {"cpu": "20", "nvidia.com/gpu": "8"}), "helper": (4, {"cpu": "5"})}
NODES_PER_RACK = 16
LOOK_S = 0.5
PATIENCE_S = 90.0
"""The time limit for all placements in seconds; about ten are needed on idle cores."""

Manifest = dict[str, Any]


def nodes(count: int) -> list[Manifest]:
    """Racks of 16 nodes with 8 GPUs and 32 cores; a third has the load of daemons, the memory differs."""
    return [
        fake_node(
            f"node-{i:05d}",
            labels={ZONE: f"zone-{i // 256}", RACK: f"rack-{i // NODES_PER_RACK}"},
            allocatable={
                "cpu": str(32 - 2 * (i % 3 == 0)),
                "memory": f"{256 * 1024**2 - 4 * (i % 97)}Ki",
                "nvidia.com/gpu": "8",
            },
        )
        for i in range(count)
    ]


def gangs(count: int) -> list[Manifest]:
    """PodGroups, each followed by its pods: six workers of whole nodes, four helpers beside them."""
    made: list[Manifest] = []
    total = sum(members for members, _ in ROLES.values())
    for number in range(count):
        name = f"gang-{number:04d}"
        spec = {
            "minMember": total,
            "roles": [{"name": role, "count": members} for role, (members, _) in ROLES.items()],
            "topology": {"required": "rack"},
        }
        metadata = {"name": name, "namespace": NAMESPACE}
        kind = {"apiVersion": "scheduling.phalanx.dev/v1alpha1", "kind": "PodGroup"}
        made.append({**kind, "metadata": metadata, "spec": spec})
        for role, (members, requests) in ROLES.items():
            made += [_pod(name, role, index, requests) for index in range(members)]
    return made


def _pod(gang: str, role: str, index: int, requests: dict[str, str]) -> Manifest:
    labels = {"scheduling.phalanx.dev/pod-group": gang, "scheduling.phalanx.dev/role": role}
    resources = {"requests": requests, "limits": requests}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{gang}-{role}-{index}", "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "schedulerName": "phalanx",
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        },
    }


def offline(manifests: list[Manifest]) -> dict[str, tuple[Any, ...]]:
    """The certificate of each gang that `phalanx decide` places."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "manifests.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
        words = [sys.executable, "-m", "phalanx.cli", "decide", "-f", str(path)]
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    cycles = json.loads(done.stdout)["cycles"]
    return {each["group"].split("/")[1]: _terms(each) for cycle in cycles for each in cycle["certificates"]}


async def online(cluster: list[Manifest], work: list[Manifest]) -> dict[str, Any]:
    """The state of the control plane when every pod is bound."""
    pods = sum(one["kind"] == "Pod" for one in work)
    async with ControlPlane.start() as plane, plane.session() as session:
        definitions = contenders.PHALANX.dialect.crds()
        await create_many(session, definitions)
        await create_many(session, [namespace(NAMESPACE), namespace(LEASE_NAMESPACE)])
        await create_many(session, cluster)
        await nodes_usable(session, expected=len(cluster))
        await served(session, definitions, path="")
        await create_many(session, work)
        async with contenders.PHALANX.start(plane), asyncio.timeout(PATIENCE_S):
            bound: list[Manifest] = []
            while len(bound) < pods:
                await asyncio.sleep(LOOK_S)
                bound = [pod for pod in await _items(session, PODS_PATH) if pod["spec"].get("nodeName")]
            return _seen(cluster, bound, await _settled_groups(session))


async def _settled_groups(session: aiohttp.ClientSession) -> list[Manifest]:
    """All PodGroups, when each has a placement in its status."""
    while True:
        groups = await _items(session, POD_GROUPS_PATH)
        if all((group.get("status") or {}).get("certificate") for group in groups):
            return groups
        await asyncio.sleep(LOOK_S)


async def _items(session: aiohttp.ClientSession, path: str) -> list[Manifest]:
    async with session.get(path) as answer:
        found: list[Manifest] = (await answer.json())["items"]
        return found


def _seen(cluster: list[Manifest], bound: list[Manifest], groups: list[Manifest]) -> dict[str, Any]:
    racks = {node["metadata"]["name"]: _rack(node) for node in cluster}
    racks_by_gang: dict[str, set[str]] = {}
    gpus: Counter[str] = Counter()
    for pod in bound:
        node = pod["spec"]["nodeName"]
        gang = pod["metadata"]["labels"]["scheduling.phalanx.dev/pod-group"]
        racks_by_gang.setdefault(gang, set()).add(racks[node])
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        gpus[node] += int(requests.get("nvidia.com/gpu", 0))
    return {
        "certificates": {one["metadata"]["name"]: _terms(one["status"]["certificate"]) for one in groups},
        "gangsInSeveralRacks": sum(len(found) > 1 for found in racks_by_gang.values()),
        "overcommittedNodes": sum(count > 8 for count in gpus.values()),
        "gangsByRack": Counter(rack for found in racks_by_gang.values() for rack in found),
    }


def _rack(node: Manifest) -> str:
    rack: str = node["metadata"]["labels"][RACK]
    return rack


def _terms(certificate: Manifest) -> tuple[Any, ...]:
    return (certificate["proven"], tuple(certificate["objective"]), tuple(certificate["bound"]))


def main() -> int:
    """Exit code 1 when the two differ, a gang is unproven or in several racks, or a node over-committed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gangs", type=int, default=100)
    options = parser.parse_args()
    cluster, work = nodes(options.nodes), gangs(options.gangs)
    planned = offline([*cluster, *work])
    seen = asyncio.run(online(cluster, work))
    equal = sum(seen["certificates"].get(gang) == each for gang, each in planned.items())
    result = {
        "nodes": options.nodes,
        "gangs": options.gangs,
        "placedOffline": len(planned),
        "placedOnline": len(seen["certificates"]),
        "sameCertificate": equal,
        "provenOnline": sum(each[0] for each in seen["certificates"].values()),
        "gangsInSeveralRacks": seen["gangsInSeveralRacks"],
        "overcommittedNodes": seen["overcommittedNodes"],
    }
    for name, value in result.items():
        print(f"{name:<20} {value}")
    by_rack = {rack: seen["gangsByRack"][rack] for rack in sorted({_rack(node) for node in cluster})}
    record(RESULTS / "as_proven.json", {**result, "gangsByRack": by_rack})
    whole = {result[name] for name in ("placedOffline", "placedOnline", "sameCertificate", "provenOnline")}
    broken = result["gangsInSeveralRacks"] or result["overcommittedNodes"]
    return int(whole != {options.gangs} or bool(broken))


if __name__ == "__main__":
    sys.exit(main())
