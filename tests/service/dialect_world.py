"""Simulated worlds with PodGroups of other projects, and the requests that schedulers send there."""

from phalanx_simulator.embedded import manifests
from phalanx_simulator.embedded.store import Key, Object
from phalanx_simulator.invariants.calls import Call, Stage
from phalanx_simulator.invariants.check import Check
from phalanx_simulator.runs.world import World

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


def serve(world: World, *crds: Object) -> None:
    """Let the API server of the world serve these kinds."""
    for crd in crds:
        world.client.create(CRDS, "", crd)


def pods(
    name: str,
    count: int,
    *,
    labels: Object | None = None,
    annotations: Object | None = None,
    scheduler: str = "phalanx",
) -> list[Object]:
    """Pods with one GPU each, and with these labels and annotations."""
    made = [manifests.pod(f"{name}-{number}") for number in range(count)]
    for each in made:
        each["metadata"].update(labels=labels or {}, annotations=annotations or {})
        each["spec"]["schedulerName"] = scheduler
    return made


def found(world: World, resource: str, name: str) -> Object:
    """An object in the namespace default, which exists."""
    item = world.client.get(Key(resource, "default", name))
    assert item is not None, name
    return item


def message(world: World, pod: str) -> str:
    """The message of the first condition of a pod."""
    return str(found(world, "pods", pod)["status"]["conditions"][0].get("message", ""))


def bound(world: World, prefix: str) -> int:
    """How many pods have nodes whose names begin so."""
    names = [key.name for key in world.client.keys("pods") if key.name.startswith(prefix)]
    return sum(bool(found(world, "pods", name)["spec"].get("nodeName")) for name in names)


def recorder(calls: list[tuple[str, Key]]) -> type[Check]:
    """A check that records verb and object of each write."""

    class Record(Check):
        name = "record"

        def on_call(self, call: Call) -> None:
            if call.stage is Stage.SENT and call.is_write:
                calls.append((call.verb, call.key))

    return Record


def writes_to(calls: list[tuple[str, Key]], resource: str) -> list[str]:
    """Names of the objects of a resource that were written, one for each write."""
    return [key.name for _, key in calls if key.resource == resource]
