"""What the executors of a SparkApplication request, as docs/workloads.md says.

The oracle computes in MiB from the words of Spark's documentation, and shares no code with the product.
"""

from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.model.gangs import Gang

from tests.examples import holds
from tests.model.gangs_of_workloads import gang_of, minimums
from tests.model.test_workloads_in_parts import executors_of, spark, spark_driver

MIB = 2**20
OURS = {"schedulerName": "phalanx"}

sizes = st.sampled_from([None, "512m", "1g", "11g", "4096", "300000k"])
IN_MIB = {"512m": 512, "1g": 1024, "11g": 11264, "4096": 4096, "300000k": Fraction(300000, 1024)}
factors = st.sampled_from([None, "0.1", "0.25", "1", "0"])


def application(**found: Any) -> Gang:
    return gang_of(spark(**found), spark_driver())


def present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def memory_in_mib(written: dict[str, Any]) -> int:
    """The heap, and what is used beside it."""
    heap = IN_MIB[written["memory"] or written["conf memory"] or "1g"]
    explicit = written["overhead"] or written["conf overhead"]
    factor = next((each for each in written["factors"] if each not in (None, "0")), None)
    factor = factor or ("0.4" if written["type"] in ("Python", "R") else "0.1")
    beside = IN_MIB[explicit] if explicit else max(ceil(heap * Fraction(factor)), 384)
    if written["off heap"]:
        beside += 2
    if written["type"] == "Python" and written["python"]:
        beside += IN_MIB[written["python"]]
    return heap + ceil(beside)  # type: ignore[no-any-return]


applications = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["Java", "Scala", "Python", "R"]),
        "memory": sizes,
        "conf memory": sizes,
        "overhead": sizes,
        "conf overhead": sizes,
        "factors": st.lists(factors, min_size=3, max_size=3),
        "off heap": st.booleans(),
        "python": sizes,
    }
)


@holds(100)
@given(applications)
def test_memory_is_that_of_the_heap_and_of_what_is_used_beside_it(written: dict[str, Any]) -> None:
    conf = present(
        **{
            "spark.executor.memory": written["conf memory"],
            "spark.executor.memoryOverhead": written["conf overhead"],
            "spark.executor.memoryOverheadFactor": written["factors"][0],
            "spark.kubernetes.memoryOverheadFactor": written["factors"][2],
            "spark.executor.pyspark.memory": written["python"],
            "spark.memory.offHeap.enabled": "true" if written["off heap"] else None,
            "spark.memory.offHeap.size": str(2 * MIB),
        }
    )
    executor = {
        **OURS,
        "instances": 1,
        **present(memory=written["memory"], memoryOverhead=written["overhead"]),
    }
    factor = present(memoryOverheadFactor=written["factors"][1])
    gang = application(type=written["type"], executor=executor, sparkConf=conf, **factor)
    assert executors_of(gang)[1]["memory"] == ceil(memory_in_mib(written) * MIB)


@pytest.mark.parametrize(
    ("executor", "conf", "cpu"),
    [
        ({"coreRequest": "500m", "cores": 2}, {"spark.kubernetes.executor.request.cores": "3"}, 500),
        ({"cores": 2}, {"spark.kubernetes.executor.request.cores": "3"}, 3000),
        ({"cores": 2}, {"spark.executor.cores": "4"}, 2000),
        ({}, {"spark.executor.cores": "4"}, 4000),
        ({}, {}, 1000),
    ],
)
def test_cores_of_the_application_go_before_those_of_the_configuration(
    executor: dict[str, Any], conf: dict[str, str], cpu: int
) -> None:
    gang = application(executor={**OURS, "instances": 1, **executor}, sparkConf=conf)
    assert executors_of(gang)[1]["cpu"] == cpu


ENABLED = {"spark.dynamicAllocation.enabled": "true"}


@pytest.mark.parametrize(
    ("spec", "conf", "least", "count"),
    [
        ({"instances": 2}, {"spark.executor.instances": "5"}, 2, 2),
        ({}, {"spark.executor.instances": "5"}, 5, 5),
        ({}, {}, 1, 1),
        ({}, {"spark.executor.instances": "many"}, 1, 1),
        ({"instances": 4}, {**ENABLED, "spark.dynamicAllocation.minExecutors": "2"}, 2, 4),
        ({"instances": 1}, {**ENABLED, "spark.dynamicAllocation.minExecutors": "2"}, 2, 2),
        ({}, {**ENABLED, "spark.dynamicAllocation.initialExecutors": "3"}, 0, 3),
        ({}, ENABLED, 0, 0),
        ({"instances": 3}, {"spark.dynamicAllocation.enabled": "false"}, 3, 3),
    ],
)
def test_the_number_of_executors(spec: dict[str, Any], conf: dict[str, str], least: int, count: int) -> None:
    gang = application(executor={**OURS, **spec}, sparkConf=conf)
    assert minimums(gang)["executor"] == least
    assert next(role.count for role in gang.roles if role.name == "executor") == count


def test_a_minimum_of_the_application_goes_before_that_of_the_configuration() -> None:
    conf = {"spark.dynamicAllocation.minExecutors": "5"}
    allocation = {"enabled": True, "minExecutors": 2}
    gang = application(executor=OURS, sparkConf=conf, dynamicAllocation=allocation)
    assert minimums(gang)["executor"] == 2


def test_devices_of_the_configuration_have_the_name_of_their_vendor() -> None:
    conf = {"spark.executor.resource.gpu.amount": "2", "spark.executor.resource.gpu.vendor": "nvidia.com"}
    gang = application(executor={**OURS, "instances": 1}, sparkConf=conf)
    assert executors_of(gang)[1]["nvidia.com/gpu"] == 2
    ours = {**OURS, "instances": 1, "gpu": {"name": "amd.com/gpu", "quantity": 1}}
    requests = executors_of(application(executor=ours, sparkConf=conf))[1]
    assert (requests.get("nvidia.com/gpu"), requests["amd.com/gpu"]) == (None, 1)
