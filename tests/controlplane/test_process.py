"""What a component gets from the process that starts it."""

from pathlib import Path

import pytest
from phalanx_controlplane.process import Process


def test_a_component_gets_few_variables_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOGC", "400")
    monkeypatch.setenv("KUBECONFIG", "/of/the/user")
    command = ["/usr/bin/env"]
    process = Process(
        name="env", command=command, log=tmp_path / "log", home=tmp_path, environment={"MORE": "1"}
    )
    process._popen.wait()
    found = dict(line.split("=", 1) for line in process.tail(99).splitlines())
    assert found.keys() == {"HOME", "PATH", "GOGC", "MORE"}
    assert found["GOGC"] == "400"
