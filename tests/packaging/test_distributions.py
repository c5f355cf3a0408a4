"""The editable install, the wheel and the sdist work in clean environments, outside the checkout.

Each environment contains the distribution only. Its dependencies come from the environment of the tests
through a path file, so that nothing is downloaded.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import Struct

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "tests" / "scenarios" / "five-jobs-nine-slots.yaml"
PACKAGES = ("phalanx", "phalanx_dashboard", "phalanx_dialects", "phalanx_plugins")
SIMULATOR = ROOT / "deploy" / "simulator"
SIMULATOR_PACKAGES = ("phalanx_controlplane", "phalanx_simulator")

pytestmark = pytest.mark.xdist_group("packaging")


class Environment(Struct, frozen=True):
    """A virtual environment, and an empty folder in which its programs run."""

    name: str
    folder: Path
    work: Path

    def run(self, *command: str) -> str:
        """Run a program of this environment and return what it prints."""
        program, *arguments = command
        ended = subprocess.run(
            [self.folder / "bin" / program, *arguments],
            cwd=self.work,
            env={"HOME": str(self.work), "PATH": os.environ["PATH"], "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def python(self, code: str) -> str:
        """Run Python code."""
        return self.run("python", "-c", code).strip()


def pip(*arguments: str | Path) -> None:
    """Run pip without an index, and without dependencies."""
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index")
    action, *rest = arguments
    subprocess.run([sys.executable, "-m", "pip", action, *options, *rest], check=True, cwd=ROOT)


def environment(folder: Path, name: str, *requirement: str | Path) -> Environment:
    """Create a virtual environment and install the distribution into it."""
    place = folder / name
    venv.create(place / "venv", with_pip=False, symlinks=True)
    work = place / "work"
    work.mkdir()
    made = Environment(name, place / "venv", work)
    site = Path(made.python("import sysconfig; print(sysconfig.get_path('purelib'))"))
    target = ("--prefix", str(made.folder), "--ignore-installed", "--no-compile")
    pip("install", *target, *requirement)
    (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in _dependencies(site)))
    return made


def _dependencies(site: Path) -> Sequence[str]:
    """Return the folders of the tests' environment that have libraries."""
    own = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    others = {path for path in sys.path if path.endswith("site-packages")}
    return sorted((own | others) - {str(site)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("distributions")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    """The wheel, built from the checkout."""
    pip("wheel", "--wheel-dir", folder / "from-checkout", ROOT)
    [built] = (folder / "from-checkout").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def simulator_wheel(folder: Path) -> Path:
    """The wheel of the simulator, built from the checkout."""
    pip("wheel", "--wheel-dir", folder / "simulator", SIMULATOR)
    [built] = (folder / "simulator").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def sdist(folder: Path) -> Path:
    """The source distribution."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    [built] = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def environments(folder: Path, wheel: Path, simulator_wheel: Path, sdist: Path) -> dict[str, Environment]:
    """One environment for each way to install, and one with the simulator."""
    return {
        "wheel": environment(folder, "wheel", wheel),
        "simulator": environment(folder, "simulator", wheel, simulator_wheel),
        "sdist": environment(folder, "sdist", sdist),
        "editable": environment(folder, "editable", "--editable", ROOT),
    }


WAYS = ("wheel", "sdist", "editable")


@pytest.mark.parametrize("way", WAYS)
def test_all_packages_come_from_the_same_folder(environments: dict[str, Environment], way: str) -> None:
    here = environments[way]
    code = f"import {', '.join(PACKAGES)} as _; print(*[m.__file__ for m in ({', '.join(PACKAGES[:-1])}, _)])"
    found = here.python(code).split()
    home = ROOT if way == "editable" else here.folder
    assert [path for path in found if not Path(path).is_relative_to(home)] == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["scheduler", "plugins", "tests", "bench"])
def test_no_folder_of_the_checkout_is_a_package(
    environments: dict[str, Environment], way: str, name: str
) -> None:
    found = environments[way].python(f"import importlib.util as u; print(u.find_spec({name!r}))")
    assert found == "None"


@pytest.mark.parametrize("way", WAYS)
def test_decide_works(environments: dict[str, Environment], way: str) -> None:
    cycles = json.loads(environments[way].run("phalanx", "decide", "-f", str(SCENARIO)))["cycles"]
    assert len(cycles[0]["binds"]) == 6


@pytest.mark.parametrize("way", WAYS)
def test_the_data_files_are_there(environments: dict[str, Environment], way: str) -> None:
    code = "from phalanx.resources import data_dir as d; print(d('crds'), d('base'), sep='\\n')"
    crds, base = map(Path, environments[way].python(code).splitlines())
    assert len(list(crds.glob("*.yaml"))) == len(list((ROOT / "crds").glob("*.yaml"))) >= 3
    assert (base / "scheduler-role.yaml").is_file()


def test_the_wheel_holds_a_scheduler_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folders = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" not in name}
        [entries] = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        found_by_name = archive.read(entries).decode()
        data = {name.split("/")[2] for name in archive.namelist() if name.startswith("phalanx/_data/")}
    assert folders == {*PACKAGES}
    assert data == {"base", "crds"}
    assert [package for package in SIMULATOR_PACKAGES if package in found_by_name] == []


def test_the_simulator_has_its_packages_and_go_modules(simulator_wheel: Path) -> None:
    with zipfile.ZipFile(simulator_wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names} == {*SIMULATOR_PACKAGES}
    assert [name for name in names if "__pycache__" in name] == []
    data = "phalanx_controlplane/_data"
    assert {f"{data}/controlplane/go.mod", f"{data}/controllers/workloads/go.mod"} < names


def test_the_simulator_runs_the_demo(environments: dict[str, Environment]) -> None:
    """One act: all of them need the same files."""
    here = environments["simulator"]
    shown = here.run("phalanx", "demo", "--act", "3")
    assert "Act 3 of 3" in shown
    assert "Done as advised: all 4 workers run in " in shown
    code = "from phalanx_controlplane.resources import module_dir as m; print(m('controlplane'), m('nodes'))"
    assert [path for path in here.python(code).split() if not Path(path).is_relative_to(here.folder)] == []


def test_both_distributions_have_one_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    simulator = tomllib.loads((SIMULATOR / "pyproject.toml").read_text())["project"]
    assert simulator["version"] == version
    assert simulator["dependencies"] == [f"phalanx-scheduler=={version}"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra in ("simulator", "lab", "dask"):
        [requirement] = extras[extra]
        assert requirement.startswith(simulator["name"])
        assert requirement.endswith(f"=={version}")


def test_a_wheel_built_from_the_sdist_is_the_same(wheel: Path, environments: dict[str, Environment]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        built = {name for name in archive.namelist() if ".dist-info/" not in name}
    here = environments["sdist"].folder
    installed = importlib.metadata.PathDistribution(next(here.glob("lib/*/site-packages/phalanx*.dist-info")))
    files = {str(path) for path in installed.files or ()}
    modules = {name for name in files if ".dist-info/" not in name and not name.endswith(".pyc")}
    assert {name for name in modules if not name.startswith("..")} == built


def test_the_sdist_has_exactly_the_files_that_the_wheel_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2].partition("/")[0] for name in archive.getnames()}
    expected = {"scheduler", "plugins", "crds", "deploy", "LICENSE", "README.md", "pyproject.toml"}
    assert names - {""} == {*expected, "PKG-INFO", ".gitignore"}


def test_the_wheel_declares_its_dependencies_and_programs(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
        entries = archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()
    required = [
        line for line in text.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line
    ]
    assert len(required) == len(project["dependencies"])
    declared = [*project["scripts"], *(name for group in project["entry-points"].values() for name in group)]
    assert [name for name in declared if f"{name} = " not in entries] == []
