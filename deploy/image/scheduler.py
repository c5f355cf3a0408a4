"""`scheduler.py ROOT`: the upper layer of the image: Phalanx itself, and the list of what the image holds.

It runs in the build stage of the Dockerfile after `runtime.py`. Phalanx keeps its sources, so that tracebacks
show lines; compiled modules are beside them, because nothing can be written when the scheduler runs.
"""

import compileall
import py_compile
import shutil
import sys
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import bill_of_materials

RUNTIME = Path("/rootfs")
SITE = next(Path("/opt/phalanx/lib").glob("python3.*")) / "site-packages"
NAME = "phalanx-scheduler"
NOT_NEEDED = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "kubectl-phalanx")


def main() -> None:
    """Fill the folder."""
    root = Path(sys.argv[1])
    (distribution,) = Distribution.discover(name=NAME, path=[str(SITE)])
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file))).resolve()
        if file.suffix != ".pyc" and file.name not in NOT_NEEDED:
            target = root / path.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    for package in sorted(each for each in (root / SITE.relative_to("/")).iterdir() if each.is_dir()):
        compileall.compile_dir(
            package,
            maxlevels=30,
            quiet=1,
            stripdir=str(root),
            prependdir="/",
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    _bill(root, distribution)


def _bill(root: Path, distribution: Distribution) -> None:
    installed = (RUNTIME / SITE.relative_to("/")).glob("*.dist-info")
    python = [PathDistribution(path) for path in sorted(installed)]
    libraries = [path for path in sorted(RUNTIME.rglob("*")) if path.is_file() and ".so" in path.name]
    origins = {Path("/") / path.relative_to(RUNTIME) for path in libraries}
    text = bill_of_materials.document(distribution, python, bill_of_materials.packages_of(origins))
    target = root / "usr/share/sbom/phalanx.cdx.json"
    target.parent.mkdir(parents=True)
    target.write_text(text)


if __name__ == "__main__":
    main()
