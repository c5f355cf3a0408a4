"""What a study reports: differences, text, plots, and a page that shows hostile names as text."""

import re
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import msgspec
from phalanx_simulator.lab.engine.jobs import RecordedJob
from phalanx_simulator.lab.engine.outcome import Outcome
from phalanx_simulator.lab.history.history import History
from phalanx_simulator.lab.report.page import page_of
from phalanx_simulator.lab.report.plots import plots_of
from phalanx_simulator.lab.report.results import Results, results_of, sentences
from phalanx_simulator.lab.report.table import text_of
from phalanx_simulator.lab.study.runs import play_all
from phalanx_simulator.lab.study.study import Study, study_of
from phalanx_simulator.lab.study.variants import Plan, plan_of

HOUR_MS = 3_600_000
HISTORY = History(
    jobs=tuple(
        RecordedJob(f"j{index}", "red" if index % 2 else "blue", index * HOUR_MS, 3 * HOUR_MS, 1, 8, 1000)
        for index in range(6)
    ),
    notes=("a <b>note</b>",),
)
HOSTILE = "<script>alert(1)</script> $x^2$ \x1b[31m & 更多"


def study(second: str = "more") -> Study:
    settings: dict[str, Any] = {
        "history": {"path": "jobs.csv", "format": "philly"},
        "cluster": {"nodes": 1},
        "guarantees": "none",
        "variants": [{"name": "now"}, {"name": second, "addNodes": 2}],
    }
    return study_of(settings)


def play(plan: Plan, finished: Path | None = None) -> tuple[tuple[Outcome, ...], list[float]]:
    done: list[float] = []
    with TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        found = play_all(plan.cases, pool, finished=finished, advance=done.append, notes=Path(folder))
    return found, done


def results(second: str = "more") -> Results:
    plan = plan_of(study(second), HISTORY)
    return results_of(study(second), plan, play(plan)[0])


def test_more_nodes_shorten_the_wait() -> None:
    found = results()
    now, more = found.variants
    assert now.outcome.all_waits is not None
    assert now.outcome.all_waits.mean_s == sum(2 * index for index in range(6)) / 6 * 3600
    assert (more.nodes, more.gpus) == (3, 24)
    assert more.outcome.all_waits is not None
    assert more.outcome.all_waits.mean_s == 0.0
    ((name, lines),) = sentences(found)
    assert name == "more"
    assert lines[0] == "mean wait: 0.0 min instead of 5.0 h (-100 %), better"
    assert "note: a <b>note</b>" in text_of(found)
    assert re.search(r"^mean wait +5.0 h +0.0 min$", text_of(found), re.MULTILINE)


def test_finished_runs_are_not_played_again(tmp_path: Path) -> None:
    plan = plan_of(study(), HISTORY)
    folder = tmp_path / "finished"
    first, _ = play(plan, folder)
    second, done = play(plan, folder)
    assert second == first
    assert done == [2.0], "no run was waited for"
    files = sorted(folder.iterdir())
    assert len(files) == 2
    files[0].write_text("{")
    third, done = play(plan, folder)
    assert third == first, "a file that is cut off is played again"
    assert len(done) > 1


class Shown(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_whole_and_names_are_text() -> None:
    found = results(HOSTILE)
    page = page_of(found, plots_of(found.variants))
    shown = Shown(page)
    assert {tag for tag, _ in shown.tags} & {"script", "link", "iframe", "b"} == set()
    assert "<script>alert(1)</script> $x^2$" in shown.text
    assert "What would" in shown.text
    links = [value for _, attrs in shown.tags for key, value in attrs.items() if key in ("src", "href")]
    assert len(links) == 5
    prefix = "data:image/svg+xml;base64,"
    assert all(link is not None and link.startswith(prefix) for link in links)
    drawings = [b64decode(str(link).removeprefix(prefix)).decode() for link in links]
    assert all("&lt;script&gt;alert(1)&lt;/script&gt; $x^2$" in drawing for drawing in drawings)
    assert all("<script" not in drawing for drawing in drawings)
    assert all(ElementTree.fromstring(drawing).tag.endswith("svg") for drawing in drawings)
    assert not any("mathdefault" in drawing for drawing in drawings), "numbers of axes are no formulas"
    assert page == page_of(found, plots_of(found.variants)), "the same results give the same page"


def test_control_characters_do_not_reach_a_terminal() -> None:
    text = text_of(results(HOSTILE))
    assert "\x1b" not in text
    assert "\\x1b[31m" in text


def test_results_can_be_read_back() -> None:
    found = results()
    assert msgspec.json.decode(msgspec.json.encode(found), type=Results) == found
