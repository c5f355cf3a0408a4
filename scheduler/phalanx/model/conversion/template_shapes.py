"""Shapes of pods that do not exist yet: from the template in a workload, or from the requests in it.

Terms of affinity and volumes are left out: they count when the pods exist.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import structs

from phalanx.model.api import core
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.conversion.requests import read_amounts
from phalanx.model.conversion.shapes import read_shape, shape_of_requests
from phalanx.model.conversion.spark import MEMORY, OVERHEAD_FACTOR, factor, overhead, size
from phalanx.model.pods import PodShape
from phalanx.model.supplies.known import requests_parts
from phalanx.model.workloads.kind import RequestPaths

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
    is_whole = not (shape.invalid or shape.unsupported or requests_parts(shape.requests))
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
    return None if wrong or not amounts or requests_parts(amounts) else shape_of_requests(amounts)


def _spark_memory(paths: RequestPaths, find: Find) -> int:
    memory = size(find(paths.java_memory)) or size(MEMORY)
    beside = size(find(paths.java_overhead))
    part = factor(find(paths.java_overhead_factor)) or OVERHEAD_FACTOR
    return memory + (beside or overhead(memory, part))
