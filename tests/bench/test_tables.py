"""The table of a comparison, and the order of the runs."""

from pathlib import Path

import msgspec
import pytest

from bench import __main__ as command
from bench.harness.contenders import ALL, BARE, KUBE_SCHEDULER, PHALANX
from bench.harness.figures import Figures, figures
from bench.harness.machine import Machine
from bench.harness.observation import Observation, PodTimes
from bench.harness.processes import Used
from bench.harness.run import SCHEDULER, Run
from bench.harness.tables import Comparison, table
from bench.harness.workloads import BadWorkload
from bench.peers import PEERS
from tests.bench.builders import workload


def seen(last: float) -> Figures:
    pods = [
        PodTimes(f"gang-0000{g}-worker-0000{i}", f"gang-0000{g}", 0.0) for g in range(2) for i in range(2)
    ]
    for number, pod in enumerate(pods):
        pod.bound, pod.node = last - 3 + number, "node-00000"
    return figures(workload(), Observation(pods), started_at=0.0)


def run(name: str, number: int, *, last: float = 0.0, trouble: str = "") -> Run:
    used = {SCHEDULER: Used(cpu_s=last / 2, peak_mib=100)}
    return Run("few", name, number, trouble, figures=seen(last) if last else None, used=used)


def row(text: str, name: str) -> list[str]:
    [found] = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_a_row_has_the_median_and_the_range() -> None:
    text = table(
        workload(), [run("a", 1, last=4), run("b", 1, last=8), run("a", 2, last=6), run("a", 3, last=5)]
    )
    heads = row(text, "scheduler")
    cells = dict(zip(heads, row(text, "a"), strict=True))
    assert cells["runs"] == "3 of 3"
    assert cells["last bind s"] == "5.00 (4.00–6.00)"
    assert cells["CPU s"] == "2.5 (2.0–3.0)"
    assert dict(zip(heads, row(text, "b"), strict=True))["last bind s"] == "8.00"


def test_an_unfinished_run_is_reported_without_figures() -> None:
    text = table(
        workload(),
        [run("a", 1, last=4), run("a", 2, trouble="not finished in 5 s"), run("b", 1, trouble="x")],
    )
    assert row(text, "a")[1:3] == ["1 of 2", "1.00"]
    assert row(text, "b")[1:3] == ["0 of 1", "-"]
    assert "- a, round 2: not finished in 5 s" in text


def test_a_busy_machine_is_reported() -> None:
    quiet, busy = (msgspec.structs.replace(run("a", 1, last=4), busy_before=share) for share in (0.1, 0.5))
    assert "others used" not in table(workload(), [quiet])
    assert "- a, round 1: others used 50% of the machine" in table(workload(), [busy])


def comparison() -> Comparison:
    runs = [run("a", 1, last=4), run("b", 1, trouble="not finished"), run("a", 2, last=6)]
    ended = workload(runSeconds=5)
    machine = Machine("2026-11-22", "a processor", 2, 8, "Linux", {"etcd": "v3"})
    return Comparison(machine, {"a": "", "b": "other limits"}, {"few": ended}, runs)


def test_a_comparison_is_written_and_can_be_read_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    whole = comparison()
    command.write(whole, tmp_path / "new" / "side")
    written = (tmp_path / "new" / "side.json").read_bytes()
    assert msgspec.json.decode(written, type=Comparison) == whole
    assert "- b: other limits" in (tmp_path / "new" / "side.md").read_text()
    assert (tmp_path / "new" / "side.png").read_bytes().startswith(b"\x89PNG")


def test_schedulers_take_turns() -> None:
    plan = [(workload(), 2), (workload(clock="live"), 1)]
    order = [(contender, number) for _, contender, number in command.in_turn(plan, [BARE, PHALANX])]
    assert order == [(BARE, 1), (PHALANX, 1), (BARE, 2), (PHALANX, 2), (PHALANX, 1)]


def test_contenders_are_selected_by_part_of_their_names() -> None:
    assert command.chosen([], []) == list(ALL)
    assert command.chosen([], ["all"]) == [*ALL, *PEERS]
    assert command.chosen([KUBE_SCHEDULER.name], []) == [KUBE_SCHEDULER]
    assert command.chosen(["bare", "phal"], []) == [BARE, PHALANX]
    for only, peers in ((["nobody"], []), ([], ["nobody"])):
        with pytest.raises(command.NoSuchScheduler, match="nobody"):
            command.chosen(only, peers)


def test_planned_workloads_and_rounds() -> None:
    assert {load.name: rounds for load, rounds in command.planned([], None)} == command.DEFAULT_ROUNDS
    assert [rounds for _, rounds in command.planned(["deadlock", "churn"], 5)] == [5, 5]
    with pytest.raises(BadWorkload):
        command.planned(["nothing"], None)
