"""Resource usage of running and ended processes; a scheduler that cannot be run is reported as a row."""

import os
import subprocess
import sys

import pytest

from bench.harness import machine, run
from bench.harness.contenders import PHALANX, Contender
from bench.harness.processes import Meter, used_by
from bench.harness.workloads import Workload
from tests.bench.builders import workload


def burn() -> None:
    """Use a few hundredths of a second of CPU."""
    before = os.times().user
    while os.times().user < before + 0.05:
        pass


def test_usage_of_a_running_process() -> None:
    used = used_by(os.getpid())
    assert used is not None
    assert used.cpu_s > 0
    assert used.peak_mib > 1


def test_usage_of_an_ended_process_is_kept() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        meter = Meter()
        meter.follow("child", child.pid, since_birth=True)
        before = meter.read()["child"]
        child.communicate(b"\n")
    assert used_by(child.pid) is None
    assert meter.read() == {"child": before}


def test_earlier_usage_counts_only_with_since_birth() -> None:
    burn()
    meter = Meter()
    meter.follow("late", os.getpid())
    meter.follow("whole", os.getpid(), since_birth=True)
    burn()
    used = meter.read()
    assert 0.03 < used["late"].cpu_s < used["whole"].cpu_s


async def test_the_busy_share_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([(1000, 700), (1200, 750)])
    monkeypatch.setattr(machine, "_ticks", lambda: next(ticks))
    monkeypatch.setattr(machine, "_LOOK_S", 0)
    assert await machine.busy_share() == 0.75


async def test_a_scheduler_that_cannot_be_run_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(contender: Contender, workload: Workload, *, number: int, report: run.Report) -> run.Run:
        raise ExceptionGroup("several", [FileNotFoundError("no such program\nand more")])

    monkeypatch.setattr(run, "run_once", fails)
    lines: list[str] = []
    row = await run.try_once(PHALANX, workload(), number=3, report=lines.append)
    assert row == run.Run("few", "phalanx", 3, trouble="could not be run: FileNotFoundError: no such program")
    assert "Traceback" in lines[0]
