"""The workflow of releases and the krew manifest can be read, and name what exists. GitHub has not run it."""

import hashlib
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import DEPLOY, REPOSITORY, Document

WORKFLOW: dict[Any, Any] = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "release.yaml").read_text())
JOBS: dict[str, Document] = WORKFLOW["jobs"]
SCRIPTS = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]

KREW: Document = yaml.safe_load((DEPLOY / "release" / "krew.yaml").read_text())
PROGRAM = "kubectl_complete-phalanx"


def test_only_a_tag_starts_a_release() -> None:
    """YAML 1.1 reads `on` as a boolean."""
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}


def test_no_job_publishes_before_the_tests_have_passed() -> None:
    def after(name: str) -> set[str]:
        needs = JOBS[name].get("needs", [])
        direct = {needs} if isinstance(needs, str) else set(needs)
        return direct.union(*(after(each) for each in direct))

    assert JOBS["test"]["steps"][-1] == {"run": ".ci/run"}
    assert all("test" in after(name) for name in JOBS if name != "test")
    assert {"wheel", "image", "chart", "plugin"} <= after("release")


def test_jobs_may_write_only_what_they_publish() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    written = {
        name: {right for right, verb in job.get("permissions", {}).items() if verb == "write"}
        for name, job in JOBS.items()
    }
    assert {name: rights for name, rights in written.items() if rights} == {
        "image": {"packages"},
        "chart": {"packages"},
        "release": {"contents"},
    }


def test_actions_have_a_version() -> None:
    used = [step["uses"] for job in JOBS.values() for step in job["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"(actions|docker)/[-a-z]+@v\d+", each) for each in used)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.splitlines()[0][:40])
def test_scripts_are_valid(script: str) -> None:
    plain = re.sub(r"\$\{\{.*?\}\}", "x", script)
    done = subprocess.run(["bash", "-n"], input=plain, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_scripts_name_files_that_exist() -> None:
    named = set(re.findall(r"(?:deploy|\.ci)/[-\w./]+", "\n".join(SCRIPTS)))
    assert named == {
        ".ci/run",
        "deploy/Dockerfile",
        "deploy/chart",
        "deploy/installers/helm",
        "deploy/release",
        "deploy/release/krew.yaml",
    }
    assert all((REPOSITORY / name).exists() for name in named)


def test_the_image_of_the_chart_can_be_replaced() -> None:
    """The workflow replaces this line by the published image."""
    assert (DEPLOY / "chart" / "values.yaml").read_text().count("\n  repository: phalanx-scheduler\n") == 1


def test_the_krew_manifest_is_complete_after_the_workflow_has_filled_it_in(tmp_path: Path) -> None:
    (tmp_path / "deploy").symlink_to(DEPLOY)
    (tmp_path / "dist").mkdir()
    archives = [each["arch"] for each in JOBS["plugin"]["strategy"]["matrix"]["include"]]
    for arch in archives:
        (tmp_path / "dist" / f"kubectl-phalanx-linux-{arch}.tar.gz").write_text(arch)
    run(script_with("krew.yaml"), tmp_path)
    manifest = yaml.safe_load((tmp_path / "dist" / "phalanx.yaml").read_text())
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("Plugin", "phalanx")
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    spec = manifest["spec"]
    assert (spec["version"], spec["homepage"]) == ("v0.1.0", "https://example.com/team/phalanx")
    assert len(spec["shortDescription"]) <= 50
    files = f"{spec['homepage']}/releases/download/v0.1.0/kubectl-phalanx-linux"
    assert spec["platforms"] == [
        {
            "selector": {"matchLabels": {"os": "linux", "arch": arch}},
            "uri": f"{files}-{arch}.tar.gz",
            "sha256": hashlib.sha256(arch.encode()).hexdigest(),
            "bin": "kubectl-phalanx",
        }
        for arch in archives
    ]


def test_the_archive_of_the_plugin_has_the_program_that_kubectl_asks_for_completions(tmp_path: Path) -> None:
    """krew links only the plugin; the caveats say how to link the other program."""
    (tmp_path / "deploy").symlink_to(DEPLOY)
    for name in ("kubectl-phalanx", "LICENSE"):
        (tmp_path / name).write_text("#!/bin/sh\necho $SHIV_CONSOLE_SCRIPT $*\n")
        (tmp_path / name).chmod(0o755)
    (pack,) = [line for line in script_with("shiv").splitlines() if line.startswith("tar ")]
    run(pack.replace("${{ matrix.arch }}", "amd64"), tmp_path)
    store = tmp_path / "store" / "phalanx" / "v0.1.0"
    store.mkdir(parents=True)
    run(f"tar -xzf kubectl-phalanx-linux-amd64.tar.gz -C {store}", tmp_path)
    assert {each.name for each in store.iterdir()} == {"LICENSE", "kubectl-phalanx", PROGRAM}
    bin_of_krew = tmp_path / "bin"
    bin_of_krew.mkdir()
    (bin_of_krew / "kubectl-phalanx").symlink_to(store / "kubectl-phalanx")
    caveats = next(each for each in KREW["spec"]["caveats"].splitlines() if "ln -sf" in each)
    run(caveats.replace("@version@", "v0.1.0"), tmp_path, KREW_ROOT=str(tmp_path))
    answer = subprocess.run(
        [bin_of_krew / PROGRAM, "why", "a"],
        env={"PATH": f"{bin_of_krew}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == f"{PROGRAM} why a\n"
    scripts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["scripts"]
    assert PROGRAM in scripts


def test_a_tag_of_another_version_is_refused() -> None:
    script = script_with("pyproject.toml")
    run(script, REPOSITORY)
    with pytest.raises(subprocess.CalledProcessError):
        run(script, REPOSITORY, GITHUB_REF_NAME="v0.1.1")


def script_with(text: str) -> str:
    (found,) = [script for script in SCRIPTS if text in script]
    return found


def run(script: str, folder: Path, **environment: str) -> None:
    """Run a script as the workflow does."""
    of_a_tag = {
        "PATH": os.environ["PATH"],
        "GITHUB_REF_NAME": "v0.1.0",
        "GITHUB_SERVER_URL": "https://example.com",
        "GITHUB_REPOSITORY": "team/phalanx",
    }
    subprocess.run(["bash", "-e", "-c", script], cwd=folder, env={**of_a_tag, **environment}, check=True)
