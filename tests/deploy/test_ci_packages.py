"""`.ci/packages` on machines with and without root, Go, apt-get and a network, which are fakes here."""

import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec import Struct

from tests.deploy.manifests import DEPLOY, REPOSITORY

SCRIPT = REPOSITORY / ".ci" / "packages"
PACKAGES = (DEPLOY / "nodes" / "packages.txt").read_text().split()
NO_NETWORK = "E: Failed to fetch http://deb.debian.org/x.deb  Temporary failure resolving 'deb.debian.org'"


class Machine(Struct, frozen=True):
    """A folder with fakes of the programs that the script runs. dpkg knows no package."""

    folder: Path

    def program(self, name: str, script: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/bash\necho {name} $* >> {self.folder}/journal\n{script}\n")
        path.chmod(0o755)

    def run(self) -> tuple[int, str, list[str]]:
        """Exit code, what is printed, and the calls of apt-get."""
        done = subprocess.run(
            ["/bin/bash", SCRIPT], env={"PATH": str(self.folder)}, capture_output=True, text=True, check=False
        )
        calls = (self.folder / "journal").read_text().splitlines()
        return done.returncode, done.stdout + done.stderr, [each for each in calls if "apt-get" in each]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    for name in ("cat", "dirname", "tail"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    for name, script in {"id": "echo 0", "go": "", "apt-get": "", "dpkg": "exit 1"}.items():
        machine.program(name, script)
    return machine


def test_packages_are_installed_and_none_is_removed(machine: Machine) -> None:
    code, printed, (update, install) = machine.run()
    assert (code, printed) == (0, "")
    assert update.split()[1] == "update"
    assert {"install", "--no-remove", *PACKAGES} <= set(install.split())


def test_without_a_network_one_line_says_so_and_nothing_fails(machine: Machine) -> None:
    machine.program("apt-get", f'echo trying; echo "{NO_NETWORK}" >&2; exit 100')
    code, printed, _ = machine.run()
    assert code == 0
    assert printed == f"not installed: {' '.join(PACKAGES)}: {NO_NETWORK}\n"


@pytest.mark.parametrize("name", ["go", "apt-get"])
def test_without_go_or_apt_nothing_is_tried(machine: Machine, name: str) -> None:
    (machine.folder / name).unlink()
    assert machine.run() == (0, "", [])


def test_without_root_nothing_is_tried(machine: Machine) -> None:
    machine.program("id", "echo 1000")
    assert machine.run() == (0, "", [])


def test_what_is_there_is_not_installed_again(machine: Machine) -> None:
    """A program may come from another package, such as runc from that of Docker."""
    machine.program("runc", "")
    machine.program("dpkg", '[ "$2" != openssl ] || exit 1')
    assert machine.run()[2][1].split()[-1:] == ["openssl"]
    machine.program("dpkg", "")
    (machine.folder / "journal").unlink()
    assert machine.run() == (0, "", [])
