"""Act 1 on two real control planes: the real kube-scheduler beside Phalanx."""

import re
import subprocess
import sys

import pytest

from tests.controlplane_fixture import require_binaries

SECONDS_MAX = 300
"""Much longer than the demo takes, so that a hanging demo does not block the tests."""


@pytest.mark.controlplane
@pytest.mark.xdist_group("demo on kwok")
def test_the_real_kube_scheduler_deadlocks_and_phalanx_finishes_all_jobs() -> None:
    require_binaries()
    command = [sys.executable, "-m", "phalanx.cli", "demo", "--cluster", "kwok", "--act", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "kube-scheduler, pod by pod" in done.stdout
    assert re.search(
        r"^pod by pod: 0 of 5 jobs finished, 9 of 9 slots held by incomplete jobs; "
        r"Phalanx: 5 of 5 in [\d.]+ s$",
        done.stdout,
        re.MULTILINE,
    )
