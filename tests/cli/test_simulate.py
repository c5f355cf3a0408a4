"""`phalanx simulate` and `phalanx drill`: their output, and their errors on bad input."""

import json
import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace
from phalanx.cli.app import main
from phalanx_simulator.commands.drill import command_of
from phalanx_simulator.commands.simulate import command
from phalanx_simulator.drills.catalogue import plans_of
from phalanx_simulator.runs.scenarios import Request


@pytest.fixture(autouse=True)
def logs_stay_configured(quiet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands disable logs of the whole process permanently; this prevents it."""
    monkeypatch.setattr("phalanx.observe.logs.configure_logs", lambda **_settings: None)


SHORT = ["--nodes", "4", "--hours", "0.05"]


def test_one_seed_prints_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "3", "--faults", "none", *SHORT]) == 0
    output = capsys.readouterr().out
    assert output.startswith("seed 3: ")
    assert "violations  0" in output


def test_one_seed_as_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "3", "-o", "json", *SHORT]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert {"decisionHash", "violations", "faults", "outcomes"} <= set(summary)
    assert summary["violations"] == []


def test_the_twin_run_is_compared_with_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["simulate", "--seed", "3", "--faults", "none", "--twin", *SHORT]
    assert main([*asked, "-o", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["twin"] == summary["outcomes"]
    assert summary["cost"]["jobs"] == summary["cost"]["gpu_hours_lost"] == 0
    assert main(asked) == 0
    assert "the faults  cost 0 jobs, 0 breaks of gangs, 0 pods, 0.0 GPU hours" in capsys.readouterr().out


def test_results_of_many_seeds_are_added_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "1..3", "--jobs", "2", "-o", "json", *SHORT]) == 0
    totals = json.loads(capsys.readouterr().out)
    assert totals["seeds"] == 3
    assert totals["violationCount"] == 0
    assert totals["violations"] == []
    assert totals["gangsBroken"] >= totals["restarts"]


def test_the_command_to_repeat_a_run_has_its_workload() -> None:
    request = Request(seed=3, nodes=4, hours=0.05, faults="none", load=1.0)
    assert "--workload" not in command(request, None)
    assert command(replace(request, workload="queues"), None).endswith("--load 1.0 --workload queues")


def test_events_are_printed_one_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "1", "--faults", "storm", "--events", *SHORT]) == 0
    assert " places " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--faults", "everything"], "--faults: expected one of none, calm, "),
        (
            ["--workload", "work"],
            "--workload: expected one of plain, claims, prepared, shares, queues, native, volcano, yunikorn",
        ),
        (["--workload", "queues", "--trace", "t.csv"], "--workload: expected plain with --trace"),
        (["--nodes", "0"], "--nodes: expected a number above 0, found 0"),
        (["--hours", "-1"], "--hours: expected a number above 0"),
        (["--hours", "nan"], "--hours: expected a number above 0, found nan"),
        (["--load", "inf"], "--load: expected a number above 0, found inf"),
        (["--seeds", "9..3"], "--seeds: expected FIRST..LAST such as 1..100, found 9..3"),
        (["--seeds", "1..2", "--seed", "1"], "--seed, --seeds: expected one of them, found both"),
        (["--trace", "/nowhere.csv"], "--trace: expected a readable file, found /nowhere.csv"),
    ],
)
def test_bad_input_is_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_trace_without_a_job_that_fits_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "large.csv"
    trace.write_text("timestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,60,640,a\n")
    assert main(["simulate", "--trace", str(trace), *SHORT]) == 2
    assert "--trace: expected a job of at most 32 GPUs, all that 4 nodes have" in capsys.readouterr().err


def test_the_full_option_is_for_load_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "--full"]) == 2
    assert "--full: only load has sizes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["crashes", "--operation", "dance"], "expected one of bind, "),
        (["load", "--operation", "bind"], "leave it out"),
    ],
)
def test_an_unknown_operation(words: list[str], output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", *words]) == 2
    assert output in capsys.readouterr().err


def test_one_operation_of_a_drill_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "races", "--operation", "member-lost", "-o", "json"]) == 0
    (tally,) = json.loads(capsys.readouterr().out)
    assert 0 < tally["played"] < 20


def test_the_command_of_a_plan_runs_only_this_plan(capsys: pytest.CaptureFixture[str]) -> None:
    plan = list(plans_of("races", seed=3, checks=(), operations=("member-lost",)))[1]
    program, *words = shlex.split(command_of(plan, drill="races", seed=3, full=False))
    assert program == "phalanx"
    assert main([*words, "-o", "json"]) == 0
    [tally] = json.loads(capsys.readouterr().out)
    assert tally["played"] == 1


def test_an_unknown_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "races", "--operation", "member-lost", "--plan", "dance"]) == 2
    assert "--plan: found no plan named dance" in capsys.readouterr().err


def test_a_part_of_a_drill_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    operations = ["--operation", "bind", "--operation", "member-lost"]
    assert main(["drill", "views", *operations, "--every", "200", "-o", "json"]) == 0
    [tally] = json.loads(capsys.readouterr().out)
    assert tally["drill"] == "views"
    assert 1 < tally["played"] < 10
    assert tally["failed"] == {}


@pytest.mark.parametrize("hours", [1 / 3, 0.1 + 0.2, 1e-7, 24.0])
def test_the_command_to_repeat_a_run_keeps_numbers_and_paths(hours: float) -> None:
    request = Request(seed=1, nodes=2, hours=hours, faults="all", load=hours)
    trace = Path("my jobs/it's; rm $HOME.csv")
    words = shlex.split(command(request, trace))
    output = dict(zip(words[2::2], words[3::2], strict=True))
    assert (float(output["--hours"]), float(output["--load"])) == (hours, hours)
    assert output["--trace"] == str(trace)
