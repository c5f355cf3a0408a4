"""`runtime.py ROOT`: the lower layer of the image: Python, its libraries, and the dependencies of Phalanx.

It runs in the build stage of the Dockerfile, on the base that has Python. It copies only what a running
scheduler loads. So the image has no shell, no package manager and no compiler, and any base will do.
Dependencies are compiled and then left without their sources.
"""

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

VENV = Path("/opt/phalanx")
STDLIB = Path(sysconfig.get_path("stdlib"))
PYTHON = Path(sys.executable).resolve()
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
USER = 65532

LEFT_OUT = re.compile(
    r"/(tests?|__pycache__|idlelib|tkinter|turtledemo|ensurepip|lib2to3|distutils|pydoc_data|venv)/"
    r"|/(site|dist)-packages/(pip|setuptools|_distutils_hack)"
    # Programs of dependencies, and scripts for shells.
    r"|^/opt/phalanx/bin/(?!python)"
    r"|/(config-|EXTERNALLY-MANAGED|sitecustomize)"
    # ortools: all but the solver CP-SAT. numpy: its compiler of Fortran.
    r"|/ortools/(?!__init__\.py|sat/|util/|\.libs/)|/numpy/(f2py|distutils|_pyinstaller)/"
    # Functions of CEL that selectors of devices do not have; time zones; highlighting of source code.
    r"|/cel_expr_python/ext/ext_(encoders|math|proto)|/tzdata/zoneinfo/|/pygments/lexers/[a-z]"
    # Extensions that need libraries which nothing else needs.
    r"|/lib-dynload/(_test|_ctypes_test|_curses|_dbm|_gdbm|_sqlite3|_tkinter|readline|nis|ossaudiodev|xx)"
    # Headers and sources of compiled code; what only people read; the list of files, of which these are some.
    r"|\.(pyi|pyx|pxd|pxi|h|hpp|c|cc|cpp|a|lib|proto|exe|whl|egg-link)$|/(CHANGELOG|README)\.\w+$|/RECORD$"
)
SYSTEM_LINKS = ("bin", "sbin", "lib", "lib64")


def main() -> None:
    """Fill the folder."""
    root = Path(sys.argv[1])
    _skeleton(root)
    standard = (path for path in _files(STDLIB) if "-packages" not in str(path))
    for path in (*standard, *_files(VENV)):
        _copy(path, root)
    _copy(PYTHON, root)
    # Found also where a base has Python somewhere else.
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    if not (root / "usr/bin/python3").exists():
        (root / "usr/bin/python3").symlink_to(PYTHON)
    _needed_libraries(root)
    _strip(root)
    for folder in (STDLIB, VENV):
        _compile(root / folder.relative_to("/"), root)


def _skeleton(root: Path) -> None:
    """What every root needs: links as the base has them, a user, the certificates of authorities."""
    for name in SYSTEM_LINKS:
        link = Path("/") / name
        if link.is_symlink():
            (root / link.readlink()).mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(link.readlink())
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text(
        f"root:x:0:0:root:/root:/sbin/nologin\nphalanx:x:{USER}:{USER}:phalanx:/tmp:/sbin/nologin\n"
    )
    (root / "etc/group").write_text(f"root:x:0:\nphalanx:x:{USER}:\n")
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    _copy(CERTIFICATES, root)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if (path.is_symlink() or path.is_file()) and not LEFT_OUT.search(str(path)):
            yield path


def _copy(path: Path, root: Path) -> None:
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() and not target.is_symlink():
        shutil.copy2(path, target, follow_symlinks=False)


def _needed_libraries(root: Path) -> None:
    """The libraries outside of the root that its programs and libraries are linked with, and the loader."""
    ours = [path for path in sorted(root.rglob("*")) if path.is_file() and _is_elf(path)]
    originals = {Path("/") / path.relative_to(root) for path in ours}
    needed = _linked_with(sorted(originals))
    for name in sorted(needed):
        path = Path(name)
        if path in originals:
            continue
        library, link = path.resolve(), path.parent.resolve() / path.name
        _copy(library, root)
        if link != library:
            (root / link.relative_to("/")).symlink_to(os.path.relpath(library, link.parent))
    wanted = {path.resolve() for path in map(Path, needed)} | {PYTHON}
    for path in ours:  # libraries of wheels that nothing is linked with any more
        if ".so" in path.name and ".libs" in path.parent.name and _origin(path, root) not in wanted:
            path.unlink()


def _origin(path: Path, root: Path) -> Path:
    return (Path("/") / path.relative_to(root)).resolve()


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _linked_with(paths: list[Path]) -> set[str]:
    """All libraries that programs and libraries are linked with, directly or not."""
    found: set[str] = set()
    for start in range(0, len(paths), 100):  # one call for each would take a minute
        batch = paths[start : start + 100]
        done = subprocess.run(["ldd", *batch], capture_output=True, text=True, check=False)
        if "not found" in done.stdout:
            raise SystemExit(done.stdout)
        found |= set(re.findall(r"(/\S+) \(0x", done.stdout))
    return found


def _strip(root: Path) -> None:
    """Remove symbols that nothing is linked with. Those of numpy were changed after linking."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and "numpy.libs" not in path.parts and _is_elf(path):
            subprocess.run(["strip", "--strip-unneeded", path], check=True)


def _compile(folder: Path, root: Path) -> None:
    """Compile and remove the sources. The result must not depend on times or on the order of a set."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        raise SystemExit("PYTHONHASHSEED must be 0")
    compileall.compile_dir(
        folder,
        maxlevels=30,
        quiet=2,  # some files are for other versions of Python
        legacy=True,
        stripdir=str(root),
        prependdir="/",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    for source in sorted(folder.rglob("*.py")):
        if source.with_suffix(".pyc").exists():
            source.unlink()


if __name__ == "__main__":
    main()
