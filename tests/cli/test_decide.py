"""`phalanx decide`: output format, determinism, time, exit codes, tables."""

import json
import random
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests import fast_yaml
from tests.cli.conftest import Phalanx
from tests.hash_seeds import printed

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"
ALL = sorted(path for path in SCENARIOS.glob("*.yaml") if not path.name.endswith(".expect.yaml"))
SCHEMA = json.loads(files("phalanx.cli").joinpath("decide.schema.json").read_text())


def objects_of(name: str) -> list[dict[str, Any]]:
    return fast_yaml.safe_load((SCENARIOS / f"{name}.yaml").read_text())["items"]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_the_output_follows_its_schema(path: Path, phalanx: Phalanx) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(phalanx("decide", "-f", path).out))


def test_the_schema_is_valid_and_closed() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"cycles": [], "more": 1}, SCHEMA)


@pytest.mark.parametrize(
    "name", ["weighted-dominant-share", "five-jobs-nine-slots", "two-roles-three-levels"]
)
def test_every_process_makes_the_same_decision(name: str, phalanx: Phalanx) -> None:
    words = ("decide", "-f", str(SCENARIOS / f"{name}.yaml"))
    first, second = (printed("-m", "phalanx.cli", *words, hash_seed=seed) for seed in ("1", "2"))
    assert first == second == phalanx(*words).out.encode()


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_the_order_of_documents_does_not_matter_if_timestamps_are_given(path: Path, phalanx: Phalanx) -> None:
    items = objects_of(path.stem)
    for second, item in enumerate(items):
        item["metadata"] = {"creationTimestamp": f"2026-11-01T00:{second // 60:02}:{second % 60:02}Z"} | item[
            "metadata"
        ]
    outputs = set()
    for seed in range(3):
        outputs.add(phalanx("decide", "-f", "-", stdin=fast_yaml.safe_dump_all(items)).out)
        random.Random(seed).shuffle(items)
    assert len(outputs) == 1


def test_the_binds_of_a_gang_are_in_one_cycle(phalanx: Phalanx) -> None:
    cycles = phalanx("decide", "-f", SCENARIOS / "elastic-surplus.yaml").cycles
    for gang in ("elastic", "rigid"):
        with_its_minimum = [
            cycle
            for cycle in cycles
            if {f"default/{gang}-0", f"default/{gang}-1"} <= {b["pod"] for b in cycle["binds"]}
        ]
        assert len(with_its_minimum) == 1


def test_the_last_cycle_decides_nothing(phalanx: Phalanx) -> None:
    cycles = phalanx("decide", "-f", SCENARIOS / "swap.yaml").cycles
    assert len(cycles) == 2
    assert cycles[-1] == {"binds": [], "evictions": [], "nominations": [], "verdicts": [], "certificates": []}


def test_exit_code_3_at_the_limit_of_cycles(phalanx: Phalanx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.cli.static_cluster.DECIDE_CYCLES_MAX", 1)
    done = phalanx("decide", "-f", SCENARIOS / "swap.yaml")
    assert done.code == 3
    assert len(done.binds) == 2
    assert done.err == "decide did not converge after 100 cycles\n"


def test_the_time_is_the_latest_in_the_input_or_the_option(
    phalanx: Phalanx, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    cluster = "phalanx.cli.decide.StaticCluster"
    from phalanx.cli.decide import StaticCluster

    def watched(objects: Any, *, config: Any, now: int) -> StaticCluster:
        seen.append(now)
        return StaticCluster(objects, config=config, now=now)

    monkeypatch.setattr(cluster, watched)
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "spec": {"leavesAt": "2030-01-01T00:00:00Z"},
    }
    group = {
        "apiVersion": "scheduling.phalanx.dev/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "a", "creationTimestamp": "2026-11-01T00:00:00Z"},
        "spec": {"minMember": 1, "startBy": "2030-01-01T00:00:00Z"},
    }
    heard = {
        **node,
        "status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": "2026-11-01T00:00:05Z"}]},
    }
    for items, arguments in (
        ([node], ()),
        ([node, group], ()),
        ([heard, group], ()),
        ([heard, group], ("--now", "2026-11-01T02:00:00+01:00")),
    ):
        assert phalanx("decide", "-f", "-", *arguments, stdin=fast_yaml.safe_dump_all(items)).code == 0
    start_of_2000, november = 946_684_800_000, 1_793_491_200_000
    assert seen == [start_of_2000, november, november + 5_000, november + 3_600_000]


def test_the_table_shows_placed_and_waiting_gangs(phalanx: Phalanx) -> None:
    done = phalanx("decide", "-o", "table", "-f", SCENARIOS / "foreign-pods-count.yaml")
    assert done.code == 0
    assert "default/train" in done.out
    assert "proven optimal" in done.out
    assert "1 waiting pods belong to scheduler default-scheduler" in done.out
    assert "1 waiting pods belong to scheduler volcano" in done.out
    waits = phalanx("decide", "-o", "table", "-f", SCENARIOS / "required-rack-too-small.yaml")
    assert "AboveDomainCapacity" in waits.out
    nothing = phalanx("decide", "-o", "table", "-f", "-", stdin="{kind: List, apiVersion: v1, items: []}")
    assert nothing.out == "Nothing to decide: no waiting pod has the name of this scheduler.\n"
