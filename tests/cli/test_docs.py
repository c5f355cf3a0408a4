"""The examples of docs/decide.md: their files are written, their commands are run, the output is compared."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Phalanx

PAGE = Path(__file__).resolve().parents[2] / "docs" / "decide.md"
FILES = re.compile(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```console\n\$ phalanx (.*?)\n(.*?)```", re.DOTALL)


def examples() -> list[tuple[str, str]]:
    return COMMANDS.findall(PAGE.read_text())


@pytest.mark.parametrize(("command", "output"), examples(), ids=[command for command, _ in examples()])
def test_an_example_prints_the_documented_output(
    command: str, output: str, phalanx: Phalanx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in FILES.findall(PAGE.read_text()):
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    done = phalanx(*shlex.split(command))
    assert done.err + done.out == output


def test_the_page_has_examples() -> None:
    assert len(examples()) >= 4
