"""The configuration file that `phalanx run` follows."""

from pathlib import Path

import pytest
from phalanx.cli.run import _watched
from phalanx.framework.config import ConfigError


def test_the_file_is_read_again_through_the_symbolic_links_of_a_config_map(tmp_path: Path) -> None:
    """The kubelet writes a new folder, and then replaces the link to it."""
    for name, seed in (("first", 1), ("second", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(f"seed: {seed}")
    data, path = tmp_path / "..data", tmp_path / "config.yaml"
    data.symlink_to("first")
    path.symlink_to(Path("..data") / "config.yaml")
    file = _watched(path)
    assert file is not None
    assert file.parse(file.read()).seed == 1
    replacement = tmp_path / "..data_tmp"
    replacement.symlink_to("second")
    replacement.rename(data)
    assert file.parse(file.read()).seed == 2


def test_all_errors_of_the_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("seed: many\nactions: 3")
    file = _watched(path)
    assert file is not None
    with pytest.raises(ConfigError, match=r"line 1, column 1: seed: .*; line 2, column 1: actions: "):
        file.parse(file.read())


def test_there_is_nothing_to_follow_without_a_file() -> None:
    assert _watched(None) is None
    assert _watched(Path("/dev/stdin")) is None
