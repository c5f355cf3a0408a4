"""Clusters and jobs of the benchmark, as plain data."""

import random
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final

from msgspec import Struct

CPU: Final = "cpu"
GPU: Final = "nvidia.com/gpu"
RACK: Final = "example.com/rack"
Amounts = Mapping[str, int]

PARAMETERS_MB: Final = 552
"""138 million parameters of 4 bytes: VGG-16 (Simonyan and Zisserman, 2015, table 2)."""


class Role(Struct, frozen=True):
    """So many pods with these requests."""

    name: str
    count: int
    requests: Amounts


class Flow(Struct, frozen=True):
    """Megabytes that each pod of a role sends to each other pod of a role in a step."""

    sender: str
    receiver: str
    megabytes: int


class Job(Struct, frozen=True):
    """A gang with traffic."""

    name: str
    roles: tuple[Role, ...]
    flows: tuple[Flow, ...]

    def pods(self) -> Iterator[tuple[str, Role]]:
        """Name and role of each pod, in the order in which they are created."""
        for role in self.roles:
            for index in range(role.count):
                yield f"{self.name}-{role.name}-{index}", role


class Node(Struct, frozen=True):
    """A node, and what pods of others take of it."""

    name: str
    rack: str
    capacity: Amounts
    taken: Amounts = {}


class Case(Struct, frozen=True):
    """A cluster and the jobs that arrive there, in this order."""

    name: str
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    at_once: bool = False
    """Whether the pods of all jobs are created in turn."""

    def arrivals(self) -> Iterator[tuple[str, Role]]:
        """Name and role of each pod in the order in which they are created."""
        lists = [list(job.pods()) for job in self.jobs]
        if not self.at_once:
            lists = [[pod for pods in lists for pod in pods]]
        for turn in zip_longest(*lists):
            yield from filter(None, turn)


def parameter_server_job(name: str, servers: int, workers: int, *, gpus: int) -> Job:
    """Each worker gets the parameters from all servers in a step, and sends as much back."""
    part = PARAMETERS_MB // servers
    ps = Role("ps", servers, {CPU: 1})
    worker = Role("worker", workers, {CPU: 1, GPU: 1} if gpus else {CPU: 1})
    return Job(name, (ps, worker), (Flow("ps", "worker", part), Flow("worker", "ps", part)))


def all_to_all_job(name: str, workers: int) -> Job:
    """Each worker sends its part of the parameters to each other one, as in a reduce-scatter."""
    worker = Role("worker", workers, {CPU: 1, GPU: 1})
    return Job(name, (worker,), (Flow("worker", "worker", 2 * PARAMETERS_MB // workers),))


def three_jobs() -> Iterator[Case]:
    """Three jobs of 2 parameter servers and 4 workers.

    On three nodes that hold six pods each, and on five nodes that hold four pods each.
    """
    jobs = tuple(parameter_server_job(f"job-{number}", 2, 4, gpus=0) for number in range(3))
    for count, size in ((3, 6), (5, 4)):
        nodes = tuple(Node(f"n{index}", "a", {CPU: size}) for index in range(count))
        yield Case(f"three jobs, {count} nodes, one by one", nodes, jobs)
        yield Case(f"three jobs, {count} nodes, at once", nodes, jobs, at_once=True)


def many_jobs(seed: int, *, racks: int = 8, per_rack: int = 8, jobs: int = 24) -> Case:
    """Jobs of three kinds on nodes with 8 GPUs, of which pods of others take a part."""
    rng = random.Random(seed)
    nodes = []
    for number in range(racks * per_rack):
        taken = {GPU: rng.choice((0, 0, 0, 1, 2, 4)), CPU: rng.choice((0, 2, 4))}
        capacity = {CPU: 16, GPU: 8}
        nodes.append(Node(f"n{number:02}", f"r{number // per_rack}", capacity, taken))
    made = []
    for number in range(jobs):
        name = f"job-{number:02}"
        kind = rng.choice(("small", "small", "large", "all"))
        if kind == "all":
            made.append(all_to_all_job(name, 16))
        else:
            servers, workers = (2, 4) if kind == "small" else (4, 12)
            made.append(parameter_server_job(name, servers, workers, gpus=1))
    return Case(f"{jobs} jobs, seed {seed}", tuple(nodes), tuple(made))


def requests_of(amounts: Amounts) -> dict[str, Any]:
    """As a manifest states them."""
    return {name: str(amount) for name, amount in amounts.items()}
