"""The examples of pages: their files are written, their commands are run, the output is compared."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Phalanx

DOCS = Path(__file__).resolve().parents[2] / "docs"
LEAST = {"decide.md": 4, "dialects/yunikorn.md": 4}
"""Pages, and how many examples they have at least."""

FILES = re.compile(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```console\n\$ phalanx (.*?)\n(.*?)```", re.DOTALL)


def examples(page: str) -> list[tuple[str, str]]:
    return COMMANDS.findall((DOCS / page).read_text())


ALL = [(page, *example) for page in LEAST for example in examples(page)]


@pytest.mark.parametrize(("page", "command", "output"), ALL, ids=[each[1] for each in ALL])
def test_an_example_prints_the_documented_output(
    page: str, command: str, output: str, phalanx: Phalanx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in FILES.findall((DOCS / page).read_text()):
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    done = phalanx(*shlex.split(command))
    assert done.err + done.out == output


@pytest.mark.parametrize("page", LEAST)
def test_the_page_has_examples(page: str) -> None:
    assert len(examples(page)) >= LEAST[page]
