"""The page of results, and the exit codes of the commands."""

import re
from pathlib import Path

import pytest

from bench.published.__main__ import PLACES, main
from bench.published.catalog import TOPICS, Case
from bench.published.knavigator.__main__ import main as play_files
from bench.published.places import Scheduler
from bench.published.report import Row, markdown
from bench.published.site import Played

NO_TEMPLATE = """
- {id: a, type: RegisterObj, params: {template: none}}
- {id: b, type: SubmitObj, params: {refTaskId: a}}
"""


def row(place: str, scheduler: str, figure: str, *wrong: str) -> Row:
    figures: dict[str, float | int | str] = {"steps finished": figure}
    return Row(
        topic="workflow", case="3 forecasts", place=place, scheduler=scheduler, figures=figures, wrong=wrong
    )


def test_each_figure_is_beside_those_of_the_other_clusters() -> None:
    rows = [row("real", "kube-scheduler", "2 of 21", "only 2"), row("simulated", "Phalanx", "21 of 21")]
    page = markdown(TOPICS, rows)
    assert "| 3 forecasts | steps finished | 21 of 21 | – | – | 2 of 21 |" in page
    assert "|  | what went wrong | nothing | – | – | only 2 |" in page
    assert "## Dependent jobs of a workflow tool" in page
    assert "## 104 Spark queries" not in page


def test_a_cluster_that_could_not_be_played_is_named() -> None:
    trouble = Row(
        topic="workflow", case="3 forecasts", place="real", scheduler="Phalanx", trouble="no such port"
    )
    assert "Not played: 3 forecasts, Phalanx, real: no such port" in markdown(TOPICS, [trouble])


def test_every_topic_says_what_was_published_and_where() -> None:
    assert all(topic.published and topic.source and topic.remarks for topic in TOPICS)


@pytest.mark.parametrize(
    ("who", "code"), [("Phalanx", 1), ("kube-scheduler", 0)], ids=["wrong with Phalanx", "with another"]
)
def test_the_command_writes_the_page(
    who: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails if a case goes wrong with Phalanx; what goes wrong with another scheduler is a result."""

    def play(_case: Case, scheduler: Scheduler) -> Played:
        return Played(figures={"steps finished": 7}, wrong=("late",) if scheduler.title == who else ())

    monkeypatch.setitem(PLACES, "simulated", play)
    assert main(["--only", "workflow", "--place", "simulated", "--output", str(tmp_path / "out")]) == code
    assert "| 3 forecasts | steps finished | 7 | 7 | – | – |" in (tmp_path / "out.md").read_text()
    assert '"late"' in (tmp_path / "out.json").read_text()
    assert re.search(r"\*\*Measured:\*\* .* cores; .*Phalanx \w+", (tmp_path / "out.md").read_text())


def test_topics_that_are_not_played_keep_their_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = iter(range(100))

    def play(_case: Case, _scheduler: Scheduler) -> Played:
        return Played(figures={"played": f"number {next(count)}"})

    monkeypatch.setitem(PLACES, "simulated", play)
    command = ["--place", "simulated", "--output", str(tmp_path / "out")]
    main([*command, "--only", "workflow", "--only", "queues"])
    main([*command, "--only", "workflow"])
    page = (tmp_path / "out.md").read_text()
    assert "| weights | played | number 0 | number 1 | – | – |" in page
    assert "| 3 forecasts | played | number 6 | number 7 | – | – |" in page
    assert "number 4" not in page


@pytest.mark.parametrize(
    ("tasks", "code"),
    [
        ("- {id: a, type: Sleep, params: {timeout: 1s}}", 0),
        ("- {id: a, type: UpdateNodes, params: {selectors: [{pool: none}], state: {spec: {}}}}", 1),
        (NO_TEMPLATE, 2),
        ("- {id: a, type: Explode}", 2),
    ],
)
def test_exit_codes_of_workflow_files(tasks: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    path.write_text(f"name: test\ntasks:\n{tasks}\n")
    assert play_files(["--templates", str(tmp_path), str(path)]) == code
