"""Records what plugins of kube-scheduler are asked, and what they answer, while their own tests run.

The tests are those of the published module. A copy of its packages, made of symbolic links, is compiled with
the methods of the plugins wrapped. The recording is made once and kept in the cache of the control plane.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from phalanx_controlplane import go_modules
from phalanx_controlplane.go_modules import BuildFailed, Progress
from phalanx_controlplane.programs import ProgramMissing

from tests.oracle.plugins import PROGRAM

Document = dict[str, Any]

PACKAGES: Final = (
    "dynamicresources",
    "imagelocality",
    "interpodaffinity",
    "nodeaffinity",
    "nodedeclaredfeatures",
    "nodename",
    "nodeports",
    "noderesources",
    "nodeunschedulable",
    "nodevolumelimits",
    "podtopologyspread",
    "tainttoleration",
    "volumebinding",
    "volumerestrictions",
    "volumezone",
)
"""Packages of plugins with a Filter or a Score that depends on the cluster."""

_SOURCE: Final = "k8s.io/kubernetes"
_PLUGINS: Final = "pkg/scheduler/framework/plugins"
_RECORDER: Final = Path(__file__).parent / "recorder.go"
_WRAPPERS: Final = Path(__file__).parent / "wrappers.go.txt"
_FILE: Final = "calls.jsonl.gz"
_MARK: Final = "\x01call "
_METHOD: Final = re.compile(
    r"^func \((\w+) \*(\w+)\) (PreFilter|Filter|PreScore|Score|AddPod|RemovePod|FindPodVolumes)\(",
    re.MULTILINE,
)
_BEGINS: Final = re.compile(r"^=== (?:RUN|CONT|NAME) +(\S+)")
_ENDS: Final = re.compile(r"^(ok|FAIL)\s+(\S+)\s+[\d.]+s")
_TEST_TIMEOUT: Final = "20m"
_ATTEMPTS: Final = 2
_FAILURES: Final = ("--- FAIL", "FAIL", "panic:")

_IMPORTS: Final = {
    "context": '"context"',
    "v1": 'v1 "k8s.io/api/core/v1"',
    "klog": '"k8s.io/klog/v2"',
    "fwk": 'fwk "k8s.io/kube-scheduler/framework"',
    "recorder": f'"{_SOURCE}/{_PLUGINS}/recorder"',
}


def recorded(progress: Progress) -> list[Document]:
    """All calls, in order. Each has the name of its package and test. Raises ProgramMissing.

    The recording is made if there is none yet, which takes some minutes.
    """
    file = _target() / _FILE
    if not file.is_file():
        _make(file, progress)
    with gzip.open(file, "rt") as lines:
        return [json.loads(line) for line in lines]


def _target() -> Path:
    sources = (PROGRAM.module / "go.mod", PROGRAM.module / "go.sum", _RECORDER, _WRAPPERS, Path(__file__))
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources))
    parent = go_modules.cache_folder(PROGRAM.module, name="oracle-tables").parent
    return parent / digest.hexdigest()[:16]


def _make(file: Path, progress: Progress) -> None:
    if not go_modules.can_build():
        raise ProgramMissing("there is no recording of kube-scheduler's tests, and no Go to make it with")
    progress(f"recording the tests of kube-scheduler's plugins, {PROGRAM.version}, once (some minutes)")
    try:
        go_modules.build_once(file.parent, is_complete=file.is_file, build=_record, progress=progress)
    except BuildFailed as failed:
        raise ProgramMissing(f"recording of kube-scheduler's tests: {failed}") from failed


def _record(partial: Path) -> None:
    source = go_modules.source_folder(_SOURCE, module=PROGRAM.module)
    work = partial / "work"
    _link_packages(source, work)
    for package in PACKAGES:
        _wrap(work / "kubernetes" / _PLUGINS / package)
    recorder = work / "kubernetes" / _PLUGINS / "recorder"
    recorder.mkdir()
    (recorder / "recorder.go").write_bytes(_RECORDER.read_bytes())
    with gzip.open(partial / _FILE, "wt") as lines:
        for call in _test(work):
            lines.write(json.dumps(call) + "\n")
    shutil.rmtree(work)


def _link_packages(source: Path, work: Path) -> None:
    """Make a module of the packages that the tests need, and a module that requires it instead."""
    names = [f"{_SOURCE}/{_PLUGINS}/{package}" for package in PACKAGES]
    form = "{{.Dir}}{{range .EmbedFiles}}\t{{.}}{{end}}"
    listed = _go("list", "-mod=readonly", "-deps", "-test", "-f", form, *names, folder=PROGRAM.module)
    if listed.returncode != 0:
        raise BuildFailed(f"`go list`: {listed.stderr.strip()[-2000:]}")
    for line in set(listed.stdout.splitlines()):
        folder, *embedded = line.split("\t")
        if not Path(folder).is_relative_to(source):
            continue
        for file in (*Path(folder).glob("*.go"), *Path(folder).glob("*.s")):
            _link(file, work / "kubernetes" / file.relative_to(source))
        for name in embedded:
            _copy(Path(folder) / name, work / "kubernetes" / (Path(folder) / name).relative_to(source))
    (work / "kubernetes" / "go.mod").write_bytes((source / "go.mod").read_bytes())
    pinned = (PROGRAM.module / "go.mod").read_text()
    (work / "go.mod").write_text(f"{pinned}\nreplace {_SOURCE} => ./kubernetes\n")
    (work / "go.sum").write_bytes((PROGRAM.module / "go.sum").read_bytes())


def _link(file: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(file)


def _copy(file: Path, copy: Path) -> None:
    """Go embeds no symbolic links."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(file.read_bytes())


def _wrap(package: Path) -> None:
    """Give the methods of its plugins other names, and add methods that call and record them."""
    added = ""
    for file in sorted(package.glob("*.go")):
        text = file.read_text()
        if file.name.endswith("_test.go") or file.name.startswith("fake_"):
            continue
        methods = [(found.group(2), found.group(3)) for found in _METHOD.finditer(text)]
        if methods:
            file.unlink()
            file.write_text(_METHOD.sub(r"func (\1 *\2) unrecorded\3(", text))
        added += "".join(_wrapper(method).replace("TYPE", kind) for kind, method in methods)
    if not added:
        raise BuildFailed(f"package {package.name} has no method of a plugin")
    imports = "\n".join(f"\t{path}" for name, path in _IMPORTS.items() if f"{name}." in added)
    (package / "recorded.go").write_text(f"package {package.name}\n\nimport (\n{imports}\n)\n{added}")


def _wrapper(method: str) -> str:
    """The text of the method that records another one."""
    functions = re.split(r"^(?=func )", _WRAPPERS.read_text(), flags=re.MULTILINE)
    return next(each for each in functions if each.startswith(f"func (pl *TYPE) {method}("))


def _test(work: Path) -> Iterator[Document]:
    """The calls of all tests. Packages that fail are tried again: some tests depend on the order of maps."""
    found: dict[str, list[Document]] = {}
    report = ""
    for _ in range(_ATTEMPTS):
        missing = [package for package in PACKAGES if package not in found]
        if missing:
            report, output = _run(missing, work)
            found |= dict(_calls(output))
    if missing := [package for package in PACKAGES if package not in found]:
        raise BuildFailed(f"tests of {', '.join(missing)} fail:\n{report}")
    for package in PACKAGES:
        yield from found[package]


def _run(packages: Sequence[str], work: Path) -> tuple[str, str]:
    """What went wrong, and the output."""
    names = [f"{_SOURCE}/{_PLUGINS}/{package}" for package in packages]
    flags = ("-mod=readonly", "-trimpath", "-vet=off", "-count=1", "-p=2", "-v", "-ldflags=-s -w")
    done = _go("test", *flags, "-parallel=1", f"-timeout={_TEST_TIMEOUT}", *names, folder=work)
    lines = [line for line in done.stdout.splitlines() if line.lstrip().startswith(_FAILURES)]
    return "\n".join(lines)[-2000:] + done.stderr[-2000:], done.stdout


def _calls(output: str) -> Iterator[tuple[str, list[Document]]]:
    """The calls of each package whose tests pass: otherwise the answers are not what the tests want."""
    test, waiting = "", list[Document]()
    for line in output.split("\n"):
        if started := _BEGINS.match(line):
            test = started.group(1)
        elif line.startswith(_MARK):
            waiting.append({"test": test, **json.loads(line.removeprefix(_MARK))})
        elif ended := _ENDS.match(line):
            package = ended.group(2).rpartition("/")[2]
            if ended.group(1) == "ok":
                yield package, [{"package": package, **call} for call in waiting]
            waiting = []


def _go(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
