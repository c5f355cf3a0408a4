"""Hostile objects in a simulated cluster with two schedulers, controllers and kubelets.

The embedded server accepts more of them than a real one, since it does not validate schemas.
"""

import asyncio
import json
from collections import Counter
from itertools import islice
from typing import Final

import pytest
from phalanx.model.api.kinds import KINDS
from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.runs.world import World, WorldSettings, in_world

from tests.examples import examples
from tests.hostile.generator import MutatedObject, mutated_objects
from tests.hostile.harness import SAFE
from tests.hostile.valid import NAMESPACES

OBJECTS: Final = 400
GANGS: Final = 4
MEMBERS: Final = 4
PAUSE_S: Final = 0.5
REST_S: Final = 120
LABEL: Final = "healthy"


@pytest.mark.properties
@pytest.mark.parametrize("seed", range(max(2, examples(2) // 100)))
def test_schedulers_stay_alive_and_healthy_gangs_run(seed: int) -> None:
    taken = Counter[str]()

    async def play(world: World) -> None:
        world.create(
            [
                manifests.queue(LABEL),
                manifests.priority_class(LABEL, 0),
                *map(manifests.namespace, NAMESPACES),
            ]
        )
        world.create(manifests.node(f"{LABEL}-{n}", gpus=0, **{SAFE: "8"}) for n in range(4))
        world.start()
        for number, item in enumerate(islice(mutated_objects(seed), OBJECTS)):
            taken[item.kind] += written(world, item)
            if number % (OBJECTS // GANGS) == 0:
                add_gang(world, f"{LABEL}-{number}")
            await asyncio.sleep(PAUSE_S)
        await asyncio.sleep(REST_S)
        assert running(world) == GANGS * MEMBERS
        assert [replica.starts for replica in world.replicas] == [1, 1]

    in_world(WorldSettings(seed=seed), play)
    assert taken.total() > OBJECTS // 4
    assert all(taken[kind] for kind in ("Pod", "Node", "PodGroup", "Queue", "Topology"))


def written(world: World, item: MutatedObject) -> bool:
    """Whether the server accepted the object; its status is written too."""
    kind = KINDS[item.kind]
    namespace = json.loads(item.original)["metadata"].get("namespace", "")
    body = _as_submitted(item.body)
    if world.server.handle(Request("POST", kind.path(namespace=namespace), body=body)).status != 201:
        return False
    one = kind.path(namespace=namespace, name=item.name, subresource="status")
    patch = json.dumps({"status": json.loads(body).get("status")}).encode()
    world.server.handle(Request("PATCH", one, body=patch, content_type="application/merge-patch+json"))
    return True


def _as_submitted(body: bytes) -> bytes:
    """The object without fields that servers set, and without owners, since it would be garbage-collected."""
    try:
        document = json.loads(body)
        for field in ("uid", "resourceVersion", "creationTimestamp", "ownerReferences"):
            document["metadata"].pop(field, None)
        spec = document.get("spec", {})
        spec.pop("priority", None)
        for container in spec.get("containers", ()):
            container.setdefault("image", "train:1")
        return json.dumps(document).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return body


def add_gang(world: World, name: str) -> None:
    """A gang that fits on the healthy nodes."""
    world.create([manifests.pod_group(name, min_member=MEMBERS, queue=LABEL)])
    options = {"requests": {SAFE: "1"}, "run_s": 3600.0, "priorityClassName": LABEL}
    world.create([manifests.job(name, members=MEMBERS, group=name, **options)])


def running(world: World) -> int:
    """Number of healthy members that run."""
    found = [world.client.get(key) for key in world.client.keys("pods") if key.name.startswith(LABEL)]
    return sum(pod is not None and pod["status"].get("phase") == "Running" for pod in found)
