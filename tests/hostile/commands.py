"""Mutated objects as manifests: `phalanx decide` decides or names the object, without a traceback."""

import contextlib
import io
import json
from pathlib import Path

from phalanx.cli.app import main

from tests.hostile.generator import MutatedObject


def decided(item: MutatedObject, path: Path) -> int:
    """The exit code for a file with only this object, after checking the output."""
    path.write_bytes(item.body)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["decide", "-f", str(path)])
    said = err.getvalue()
    assert code in (0, 2, 3), (code, said)
    assert "Traceback" not in said
    if code == 2:
        lines = said.splitlines()
        assert lines, "refused without a message"
        assert all(line.startswith((f"{path}: ", "and ")) for line in lines), said
        assert not any(len(line) > 2000 for line in lines), "a message of thousands of characters"
    else:
        json.loads(out.getvalue())
    return code
