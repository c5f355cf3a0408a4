"""Shapes of pods that do not exist yet: from the template in a workload, or from the requests in it.

Terms of affinity and volumes are left out: they count when the pods exist.
"""

import math
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import structs

from phalanx.model.api import core
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.conversion.requests import read_amounts
from phalanx.model.conversion.shapes import read_shape, shape_of_requests
from phalanx.model.gpu_shares import requests_share
from phalanx.model.pods import PodShape
from phalanx.model.workloads.kind import RequestPaths

_MIB: Final = 2**20
_UNITS: Final = {"k": 2**10, "m": _MIB, "g": 2**30, "t": 2**40, "p": 2**50}
_JAVA_SIZE: Final = re.compile(r"([0-9]{1,12})([kmgtp]?)b?")

SPARK_OVERHEAD_FACTOR: Final = 0.1
SPARK_OVERHEAD_LEAST: Final = 384 * _MIB
"""Defaults of Spark 4 for programs in Java: spark.executor.memoryOverheadFactor and its least amount."""
SPARK_MEMORY: Final = "1g"
"""The default of spark.executor.memory."""

Find = Callable[[str], Any]
"""The value at a path."""


def shape_of_template(spec: object) -> PodShape | None:
    """The shape of pods with this spec; None if it is none, or if its shape alone is not enough."""
    try:
        read = msgspec.convert(spec, core.PodSpec, strict=False)
    except msgspec.ValidationError:
        return None
    affinity = read.affinity and core.Affinity(node_affinity=read.affinity.node_affinity)
    read = structs.replace(read, affinity=affinity, volumes=(), topology_spread_constraints=())
    shape = read_shape(core.Pod(metadata=ObjectMeta(), spec=read))
    is_whole = not (shape.invalid or shape.unsupported or requests_share(shape.requests))
    return shape if is_whole else None


def shape_of_paths(paths: RequestPaths, find: Find) -> PodShape | None:
    """The shape of pods of which a workload states only the requests; None without any that can be read."""
    written: dict[str, Any] = {}
    cpu = next((value for path in paths.cpu if (value := find(path)) is not None), None)
    if isinstance(cpu, str | int) and not isinstance(cpu, bool):
        written["cpu"] = cpu
    if paths.java_memory:
        written["memory"] = _spark_memory(paths, find)
    name, count = find(paths.device_name), find(paths.device_count)
    if isinstance(name, str) and isinstance(count, int):
        written[name] = count
    wrong: list[str] = []
    amounts = read_amounts(written, "", wrong)
    return None if wrong or not amounts or requests_share(amounts) else shape_of_requests(amounts)


def _spark_memory(paths: RequestPaths, find: Find) -> int:
    memory = _bytes(find(paths.java_memory)) or _bytes(SPARK_MEMORY)
    overhead = _bytes(find(paths.java_overhead))
    if not overhead:
        part = _factor(find(paths.java_overhead_factor)) or SPARK_OVERHEAD_FACTOR
        overhead = max(math.ceil(memory * part), SPARK_OVERHEAD_LEAST)
    return memory + overhead


def _bytes(written: object) -> int:
    """A size as Java programs are given it; a number without a unit is in MiB. 0 if it is none."""
    found = _JAVA_SIZE.fullmatch(written.lower()) if isinstance(written, str) else None
    return int(found[1]) * _UNITS[found[2] or "m"] if found is not None else 0


def _factor(written: object) -> float:
    try:
        part = float(written) if isinstance(written, str) else 0.0
    except ValueError:
        return 0.0
    return part if 0 < part < 100 else 0.0
