"""docs/cli.md lists every command that looks at a cluster, every common option, and the exit codes."""

import re
from dataclasses import fields
from pathlib import Path

from phalanx.cli.commands import BUILT_IN
from phalanx.cli.exits import Exit
from phalanx.cli.verbs.options import ViewOptions

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text()


def cells(header: str) -> list[str]:
    """The first cells of the first table with this header."""
    table = re.findall(rf"^\| {header} \|.*\n\| ---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)[0]
    return [line.split("|")[1] for line in table.splitlines()]


def test_the_page_lists_every_command() -> None:
    listed = set(re.findall(r"phalanx ([a-z-]+)", " ".join(cells("command"))))
    views = {name for name, each in BUILT_IN.items() if "cli.verbs." in each.target}
    assert listed == views | {"completion", "dashboard"}


def test_the_page_lists_every_common_option() -> None:
    listed = " ".join(cells("option")) + PAGE.partition("## Rights")[0]
    missing = [
        field.name for field in fields(ViewOptions) if f"--{field.name.replace('_', '-')}" not in listed
    ]
    assert missing == ["output"]
    assert "`-o json`" in listed


def test_the_page_lists_the_exit_codes() -> None:
    codes = {int(cell) for cell in cells("exit code")}
    assert codes == {
        *(Exit.OK, Exit.FAILED, Exit.BAD_INPUT, Exit.NOT_FOUND, Exit.WAITS, Exit.INTERRUPTED),
    }


def test_the_pictures_exist() -> None:
    folder = Path(__file__).resolve().parents[3] / "docs"
    assert [name for name in re.findall(r"\]\((images/[^)]+)\)", PAGE) if not (folder / name).exists()] == []
