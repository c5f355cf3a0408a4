"""A fake of Go: it notes what it is asked, names one module's folder, and only writes empty programs."""

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
    """Put it on PATH as the only program that a build knows, beside an empty cache; it notes in `journal`."""
    tool = folder / "tools" / "go"
    tool.parent.mkdir()
    tool.write_text(_SCRIPT.format(journal=folder / "journal", source=source))
    tool.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return tool
