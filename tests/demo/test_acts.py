"""The whole demo on the embedded cluster, through the real command: what it shows and leaves behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LINES_MAX, COLUMNS_MAX = 40, 100
SECONDS_MAX = 180
"""Much longer than the demo takes, so that a hanging demo does not block the tests."""


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Environment with `folder` for temporary files and without settings of the caller's terminal."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    return {**kept, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8", **more}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "phalanx.cli", "demo", *arguments]


def screens(output: str) -> dict[int, list[str]]:
    """The lines of each act, by its number; what follows the last act belongs to it."""
    parts = re.split(r"^ Act (\d) of 3 ", output, flags=re.MULTILINE)[1:]
    return {
        int(number): text.rstrip().splitlines() for number, text in zip(parts[::2], parts[1::2], strict=True)
    }


@contextmanager
def playing(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A running demo, killed at the end if it still runs."""
    process = subprocess.Popen(
        command(*arguments),
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_as_in_a_terminal,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _as_in_a_terminal() -> None:
    """A shell starts background processes with SIGINT ignored, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def until_act_starts(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(" Act "):
            return
    pytest.fail("no act has started")


def children(pid: int) -> list[int]:
    """The child processes, as Linux lists them."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in lists for child in path.read_text().split()]


IN_ONE_PROCESS = pytest.mark.xdist_group("demo")
"""For the tests of one run of the whole demo, so that it is played once."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple["subprocess.CompletedProcess[str]", Path]:
    """One run of all three acts, and its folder for temporary files."""
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        command(), env=environment(folder), capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    return done, folder


Whole = tuple["subprocess.CompletedProcess[str]", Path]


@IN_ONE_PROCESS
def test_every_act_succeeds(whole: Whole) -> None:
    done, folder = whole
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(screens(done.stdout)) == [1, 2, 3]
    assert re.search(r"^Every act had the expected result; \d+ s with set-up\.$", done.stdout, re.MULTILINE)
    assert list(folder.iterdir()) == []


@IN_ONE_PROCESS
def test_every_act_fits_a_screen(whole: Whole) -> None:
    output = whole[0].stdout
    assert {number: len(lines) for number, lines in screens(output).items() if len(lines) > LINES_MAX} == {}
    assert [line for line in output.splitlines() if len(line.rstrip()) > COLUMNS_MAX] == []


@IN_ONE_PROCESS
def test_output_without_a_terminal_is_plain_text(whole: Whole) -> None:
    assert "\x1b" not in whole[0].stdout


@IN_ONE_PROCESS
def test_jobs_deadlock_pod_by_pod_and_finish_as_gangs(whole: Whole) -> None:
    screen = screens(whole[0].stdout)[1]
    verdict = next(line for line in screen if line.startswith("pod by pod: "))
    assert re.fullmatch(
        r"pod by pod: 0 of 5 jobs finished, 9 of 9 slots held by incomplete jobs; "
        r"Phalanx: 5 of 5 in [\d.]+ s",
        verdict,
    )
    charts = screen[screen.index(next(line for line in screen if "whole gangs or nothing" in line)) + 1 :][:9]
    left, right = ("".join(line[start : start + 49][7:] for line in charts) for start in (0, 51))
    assert set("ABCDE") <= set(right)
    assert not set("ABCDE") & set(left)
    assert set("abcde") <= set(left)


@IN_ONE_PROCESS
def test_the_certificate_matches_the_placement(whole: Whole) -> None:
    screen = screens(whole[0].stdout)[2]
    racks = [line for line in screen if re.match(r"  rack-", line)]
    assert sum(line.partition("trainer")[0].count("T") for line in racks) == 6 * 8
    assert sum(line.partition("trainer")[0].count("S") for line in racks) == 4 * 4
    used = [line for line in racks if re.search(r"[TS]", line)]
    verdict = next(line for line in screen if line.startswith("All 64 GPUs are in spine-"))
    assert f"1 spine, {len(used)} racks: proven by " in verdict


@IN_ONE_PROCESS
def test_the_waiting_gang_reports_why_and_runs_after_the_advice_is_followed(whole: Whole) -> None:
    screen = "\n".join(screens(whole[0].stdout)[3])
    before, advice, after = re.split(r"^(\$ kubectl patch .*)$", screen, flags=re.MULTILINE)
    assert '"required":"spine"' in advice
    assert "WWWWWWWW" not in before
    assert after.count("WWWWWWWW") == 4
    for word in ("NoDomainFits", "the best fits 3", "FailedScheduling", "nextStep:"):
        assert word in before
    assert "Done as advised: all 4 workers run in spine-" in after


def test_one_act_can_be_played_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        command("--act", "3"),
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(screens(done.stdout)) == [3]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux lists them")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with playing(tmp_path, "--act", "1") as process:
        until_act_starts(process)
        started = children(process.pid)
        process.send_signal(number)
        assert process.wait(timeout=SECONDS_MAX) == 130
        assert started
        assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux lists them")
def test_the_exit_of_the_scheduler_is_reported_and_its_log_is_kept(tmp_path: Path) -> None:
    with playing(tmp_path, "--act", "1") as process:
        until_act_starts(process)
        (scheduler,) = children(process.pid)
        os.kill(scheduler, signal.SIGKILL)
        _, told = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 1
    assert "act 1 failed: the scheduler has ended" in told
    (folder,) = tmp_path.iterdir()
    assert str(folder) in told
    assert (folder / "scheduler.log").read_text()


def test_missing_go_is_reported(tmp_path: Path) -> None:
    empty = {"PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        command("--cluster", "kwok"),
        env=environment(tmp_path, **empty),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs Go" in done.stderr
    assert list(tmp_path.iterdir()) == []
