"""Ctrl-C in the middle of a study: it ends at once, and what had finished is not played again."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

START_S = 300
"""How long the first run may take on a loaded machine."""

VARIANTS = 60
"""So many that a loaded machine does not play all before this test sees that the first has finished."""


@pytest.mark.slow
def test_an_interrupted_study_ends_and_keeps_its_finished_runs(tmp_path: Path) -> None:
    jobs = [f"2026-01-05 {at // 10:02}:{at % 10:02}:00,{3600 + 60 * at},{1 + at % 8},q" for at in range(60)]
    history, finished = tmp_path / "jobs.csv", tmp_path / "finished"
    history.write_text("\n".join(["timestamp,duration,num_gpus,cluster", *jobs, ""]))
    words = ["lab", "--history", str(history), "--format", "philly", "--nodes", "2", "-j", "1"]
    for variant in range(1, VARIANTS):
        words += ["--variant", f"more-{variant}={{addNodes: {variant}}}"]
    words += ["--resume", str(finished)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-m", "phalanx.cli", *words],
        stdout=pipe,
        stderr=pipe,
        text=True,
        # shells start background jobs with it ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as command:
        deadline = time.monotonic() + START_S
        while not list(finished.glob("*.json")) and time.monotonic() < deadline:
            time.sleep(0.01)
        command.send_signal(signal.SIGINT)
        out, err = command.communicate()  # returns when the last process that could write has ended
    assert (command.returncode, out) == (130, ""), err
    assert "Traceback" not in err
    kept = {path.name: path.stat().st_mtime_ns for path in finished.iterdir()}
    assert 1 <= len(kept) < VARIANTS
    assert all(name.endswith(".json") for name in kept)
