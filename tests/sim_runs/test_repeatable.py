"""The same seed gives the same run in any process, and another seed gives another run."""

import json
from typing import Any

import pytest

from tests.hash_seeds import printed

pytestmark = pytest.mark.xdist_group("repeatable")

COMMAND = ["-m", "phalanx.cli", "simulate", "--nodes", "8", "--hours", "0.1", "-o", "json"]


def simulated(seed: int, hash_seed: str) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(printed(*COMMAND, "--seed", str(seed), hash_seed=hash_seed))
    return summary


@pytest.fixture(scope="module")
def seven() -> dict[str, Any]:
    return simulated(7, "1")


def test_two_processes_give_the_same_summary(seven: dict[str, Any]) -> None:
    assert simulated(7, "2") == seven
    assert len(seven["decisionHash"]) == 64
    assert seven["cycles"] > 10


def test_another_seed_gives_other_decisions(seven: dict[str, Any]) -> None:
    assert simulated(8, "1")["decisionHash"] != seven["decisionHash"]
