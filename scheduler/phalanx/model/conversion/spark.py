"""What the Spark operator and Spark make of a SparkApplication: its executors, and what they request.

The fields of the application go before `sparkConf`, as in the operator. Spark adds to the memory of the Java
program what is used beside it: the overhead, memory outside of the heap, and the memory of Python.
"""

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

_MIB: Final = 2**20
_UNITS: Final = {"k": 2**10, "m": _MIB, "g": 2**30, "t": 2**40, "p": 2**50}
_SIZE: Final = re.compile(r"([0-9]{1,12})([kmgtp]?)b?")
_FACTOR_MAX: Final = 100

OVERHEAD_FACTOR: Final = Fraction(1, 10)
"""The default of spark.executor.memoryOverheadFactor for programs in Java and Scala."""

_OTHER_OVERHEAD_FACTOR: Final = Fraction(4, 10)
"""The same for programs in Python and R."""

OVERHEAD_LEAST: Final = 384 * _MIB
"""The default of spark.executor.minMemoryOverhead."""

MEMORY: Final = "1g"
"""The default of spark.executor.memory."""

Fields = Mapping[str, Any]


def size(written: object, *, unit: str = "m") -> int:
    """Bytes of a size as Spark reads it; 0 if it is none.

    `unit` is that of a number without one; empty for bytes.
    """
    found = _SIZE.fullmatch(written.lower()) if isinstance(written, str) else None
    return int(found[1]) * _UNITS.get(found[2] or unit, 1) if found is not None else 0


def factor(written: object) -> Fraction | None:
    """A part of the memory; None if it is none."""
    if not isinstance(written, str) or not re.fullmatch(r"[0-9]{0,4}\.?[0-9]{1,9}", written):
        return None
    part = Fraction(written)
    return part if 0 < part < _FACTOR_MAX else None


def overhead(memory: int, part: Fraction, least: int = OVERHEAD_LEAST) -> int:
    """The overhead of so many bytes, in whole MiB."""
    return max(math.ceil(memory * part / _MIB) * _MIB, least)


def completed_application(spec: Fields) -> Fields:
    """The spec with all that its executors request written in the fields of `executor`."""
    conf, executor = _fields(spec, "sparkConf"), dict(_fields(spec, "executor"))
    allocation = dict(_fields(spec, "dynamicAllocation"))
    _complete_numbers(executor, allocation, conf)
    cores = _first(executor.get("coreRequest"), conf.get("spark.kubernetes.executor.request.cores"))
    executor["coreRequest"] = _first(cores, executor.get("cores"), conf.get("spark.executor.cores"), 1)
    executor["memory"] = _first(executor.get("memory"), conf.get("spark.executor.memory"), MEMORY)
    memory = size(executor["memory"]) or size(MEMORY)
    executor["memoryOverhead"] = f"{-(-_beside(spec, executor, conf, memory) // _MIB)}m"
    if not executor.get("gpu") and (device := _device(conf)) is not None:
        executor["gpu"] = device
    return {**spec, "executor": executor, "dynamicAllocation": allocation}


def _complete_numbers(executor: dict[str, Any], allocation: dict[str, Any], conf: Fields) -> None:
    """How many executors there are at the start, and with dynamic allocation at least."""
    instances = _first(executor.get("instances"), _whole(conf.get("spark.executor.instances")))
    if allocation.get("enabled") is True or conf.get("spark.dynamicAllocation.enabled") == "true":
        least, first = (
            _first(
                allocation.get(f"{name}Executors"),
                _whole(conf.get(f"spark.dynamicAllocation.{name}Executors")),
            )
            for name in ("min", "initial")
        )
        allocation |= {"enabled": True, "minExecutors": least or 0}
        numbers = [each for each in (instances, least, first, 0) if isinstance(each, int)]
        instances = max(numbers)
    if instances is not None:
        executor["instances"] = instances


def _beside(spec: Fields, executor: Fields, conf: Fields, memory: int) -> int:
    """What an executor requests beside the memory of the Java program."""
    is_python = spec.get("type") == "Python"
    found = size(_first(executor.get("memoryOverhead"), conf.get("spark.executor.memoryOverhead")))
    if not found:
        parts = (
            conf.get("spark.executor.memoryOverheadFactor"),
            spec.get("memoryOverheadFactor"),
            conf.get("spark.kubernetes.memoryOverheadFactor"),
        )
        default = _OTHER_OVERHEAD_FACTOR if is_python or spec.get("type") == "R" else OVERHEAD_FACTOR
        part = next((each for written in parts if (each := factor(written)) is not None), default)
        found = overhead(memory, part, size(conf.get("spark.executor.minMemoryOverhead")) or OVERHEAD_LEAST)
    if conf.get("spark.memory.offHeap.enabled") == "true":
        found += size(conf.get("spark.memory.offHeap.size"), unit="")
    return found + (size(conf.get("spark.executor.pyspark.memory")) if is_python else 0)


def _device(conf: Fields) -> Fields | None:
    """The devices that the configuration requests for an executor, with the vendor's name in Kubernetes."""
    for key in sorted(conf):
        name = key.removeprefix("spark.executor.resource.").removesuffix(".amount")
        vendor, amount = conf.get(f"spark.executor.resource.{name}.vendor"), _whole(conf[key])
        if key == f"spark.executor.resource.{name}.amount" and vendor and amount:
            return {"name": f"{vendor}/{name}", "quantity": amount}
    return None


def _fields(value: Fields, name: str) -> Fields:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _whole(written: object) -> int | None:
    return int(written) if isinstance(written, str) and re.fullmatch("[0-9]{1,9}", written) else None
