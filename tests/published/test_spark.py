"""Spark queries whose drivers create their executors when they run, on one or two nodes of eight cores."""

from bench.published.places import OURS, POD_BY_POD, simulated
from bench.published.spark import Queries


def test_with_reserved_executors_all_queries_finish() -> None:
    played = simulated(Queries(6, "reserved executors", nodes=1), OURS)
    assert played.wrong == ()
    assert played.figures["queries finished"] == "6 of 6"
    assert played.figures["most drivers at once"] == 2


def test_without_a_reservation_drivers_use_all_cores() -> None:
    played = simulated(Queries(10, "nothing", nodes=1), POD_BY_POD)
    assert played.wrong == ("only 0 of 10 queries finished",)
    assert played.figures["most drivers at once"] == 8
    assert played.figures["most queries that work at once"] == 0


def test_a_node_for_drivers_keeps_cores_too() -> None:
    played = simulated(Queries(10, "a node for drivers", "two executor minutes", nodes=2), POD_BY_POD)
    assert played.wrong == ()
    assert played.figures["queries finished"] == "10 of 10"
