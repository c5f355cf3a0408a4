"""A fake Go tool: it records its arguments, prints the folder of one module, and writes empty programs."""

import stat
from pathlib import Path

import pytest

_SCRIPT = """#!/bin/sh
echo "$*" >> "{journal}"
if [ "$1" = list ]; then echo "{source}"; exit; fi
for word; do
  if [ "$last" = -o ]; then touch "$word"; chmod +x "$word"; fi
  last=$word
done
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *, source: Path) -> Path:
    """Put the fake on PATH, with an empty build cache; it records its arguments in the file `journal`."""
    tool = folder / "tools" / "go"
    tool.parent.mkdir()
    tool.write_text(_SCRIPT.format(journal=folder / "journal", source=source))
    tool.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return tool
