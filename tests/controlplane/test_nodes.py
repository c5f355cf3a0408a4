"""What `python -m phalanx_controlplane.nodes` refuses. `tests/cluster` starts clusters."""

import sys
from pathlib import Path

import pytest
from phalanx_controlplane.nodes.__main__ import main


def test_a_folder_whose_path_is_too_long_for_sockets_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kubelet would log `bind: invalid argument` and end."""
    folder = Path("/tmp") / ("x" * 60)
    monkeypatch.setattr(sys, "argv", ["nodes", "up", f"--folder={folder}"])
    assert main() == 2
    assert capsys.readouterr().err == f"{folder}: longer than 60 bytes; use --folder\n"
