"""The page of the laboratory: its studies are accepted, and its example prints what the page shows."""

import re
import shlex
from pathlib import Path

import pytest
from phalanx.cli.app import main
from phalanx_simulator.lab.study.study import parse_study

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "lab.md").read_text()
FILES = re.findall(r"<!-- file: (\S+) -->\n```(?:yaml|csv)\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"```console\n\$ phalanx (.*?)\n(.*?)```", PAGE, re.DOTALL)


def test_every_study_of_the_page_is_accepted() -> None:
    studies = [text for name, text in FILES if name.endswith(".yaml")]
    assert len(studies) == 2
    for text in studies:
        parse_study(text)


def test_the_example_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    ((command, output),) = COMMANDS
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out == output
