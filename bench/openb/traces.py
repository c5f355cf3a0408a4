"""The protocol of the published runs: node and pod lists, the order of arrival, the demand of 130 %.

From the simulator of "Beware of Fragmentation" (USENIX ATC'23): pods are sorted by name and shuffled, then
pods sampled from the list are appended until the next would exceed 130 % of all GPUs; from a longer list,
random pods are removed. Nodes are renamed in a random order, and the smallest name wins a tie.
The simulator uses the random generator of Go, this module that of Python: single runs differ, but means are
comparable.
"""

import csv
import random
from collections.abc import Sequence
from pathlib import Path

from phalanx.model.supplies.gpu_shares.devices import WHOLE_DEVICE

from bench.openb.shapes import Machine, Shape

MIB = 1 << 20
NODES = "openb_node_list_gpu_node.csv"
TUNED_PERCENT = 130


def machines_of(folder: Path) -> tuple[Machine, ...]:
    """The nodes in the order of their names."""
    with (folder / NODES).open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["sn"])
    return tuple(
        Machine(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]) * MIB, int(row["gpu"]), row["model"])
        for row in rows
    )


def pods_of(folder: Path, name: str) -> tuple[Shape, ...]:
    """The requests of the pods of a list, sorted by pod name. Not all lists restrict models."""
    with (folder / f"openb_pod_list_{name}.csv").open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["name"])
    return tuple(
        Shape(
            cpu=int(row["cpu_milli"]),
            memory=int(row["memory_mib"]) * MIB,
            gpus=int(row["num_gpu"]),
            milli=int(row["gpu_milli"]),
            models=tuple(sorted(set((row.get("gpu_spec") or "").split("|")) - {""})),
        )
        for row in rows
    )


def arrivals(pods: Sequence[Shape], *, capacity: int, rng: random.Random) -> list[Shape]:
    """The pods in order of arrival, with a total demand of 130 % of `capacity` (thousandths of devices)."""
    target = capacity * TUNED_PERCENT // 100
    order = list(pods)
    rng.shuffle(order)
    requested = sum(pod.demand for pod in order)
    while requested > target:
        requested -= order.pop(rng.randrange(len(order))).demand
    while requested < target:
        drawn = pods[rng.randrange(len(pods))]
        # The simulator counts only one device of the sampled pod here, whatever their number.
        if requested + drawn.milli > target:
            break
        requested += drawn.demand
        order.append(drawn)
    return order


def renamed(machines: Sequence[Machine], rng: random.Random) -> tuple[Machine, ...]:
    """The nodes in random order."""
    order = list(machines)
    rng.shuffle(order)
    return tuple(order)


def capacity_of(machines: Sequence[Machine]) -> int:
    """The sum of all devices in thousandths."""
    return sum(machine.gpus for machine in machines) * WHOLE_DEVICE
