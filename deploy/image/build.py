"""`python -m deploy.image.build`: builds the image from the Dockerfile without Docker and without a registry.

buildah takes the steps of the Dockerfile. The base is made of Debian's packages by mmdebstrap. An image is
built once for each content of the files that it is built from. The exit code is 2 if a program is missing.
"""

import argparse
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec import json as msgspec_json

from deploy.image.storage import CannotBuild, Progress, Storage, run

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DOCKERFILE: Final = REPOSITORY / "deploy" / "Dockerfile"
IGNORED: Final = REPOSITORY / "deploy" / "Dockerfile.dockerignore"
NAME: Final = "localhost/phalanx-scheduler"
TOOLS: Final = ("buildah", "mmdebstrap")
DEBIAN: Final = "bookworm"
PACKAGES: Final = ("python3", "python3-venv", "binutils", "libstdc++6", "ca-certificates")
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
RUNTIME: Final = ("requirements.txt", "build-requirements.txt", "runtime.py")
"""The files of this folder that the lower layer is built from."""
KEPT: Final = 3
"""Images that stay in the cache: those of this checkout, its last commit, and one more."""


class Image(Struct, frozen=True):
    """A built image."""

    name: str
    file: str
    """The path of an OCI archive."""
    digest: str
    size: str
    """Of all layers, not compressed."""

    @property
    def archive(self) -> Path:
        """The OCI archive."""
        return Path(self.file)


def missing() -> str:
    """Why no image can be built here; empty if one can."""
    if os.getuid() != 0:
        return "the image can only be built by root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"not installed: {' '.join(absent)} (Debian has packages of these names)" if absent else ""


def build(progress: Progress, *, tag: str, repository: Path = REPOSITORY, again: bool = False) -> Image:
    """Build the image of a checkout, or find it. `again` repeats every step. Raises CannotBuild."""
    if reason := missing():
        raise CannotBuild(reason)
    folder = _cache() / f"{_key(repository)}-{tag}"
    if again or not (folder / "image.json").exists():
        storage = Storage(_cache())
        with storage.locked(progress):
            if again or not (folder / "image.json").exists():
                _build(storage, folder, progress, tag=tag, repository=repository, again=again)
    return msgspec_json.decode((folder / "image.json").read_bytes(), type=Image)


def _build(
    storage: Storage, folder: Path, progress: Progress, *, tag: str, repository: Path, again: bool
) -> None:
    base = _base(storage, progress, again=again)
    progress("building the image (a minute or two, if dependencies are new)")
    _bud(storage, base, name=_stored(folder.name), repository=repository, again=again)
    runtime = f"localhost/phalanx-runtime:{_key_of_runtime(base, repository)}"
    if again or runtime not in storage.names():  # a name for layers that the next build takes as they are
        _bud(storage, base, name=runtime, target="runtime", repository=repository)
    _export(storage, folder, tag=tag)
    storage.keep_only({base, runtime, *map(_stored, _forget_old_ones())})


def _stored(name: str) -> str:
    """The name of an image in the storage. Two checkouts that build at the same time have different ones."""
    return f"localhost/phalanx-image:{name}"


def _bud(
    storage: Storage, base: str, *, name: str, repository: Path, target: str = "", again: bool = False
) -> None:
    certificates = "/run/build-certificates.crt"
    storage.buildah(
        *("bud", "--isolation=chroot", "--network=host", f"--timestamp={epoch()}", "--layers"),
        *(("--no-cache",) if again else ()),
        *((f"--target={target}",) if target else ()),
        *(f"--build-arg=BASE={base}", f"--volume={CERTIFICATES}:{certificates}:ro"),
        *(f"--build-arg=PIP_CERT={certificates}", f"--ignorefile={IGNORED}", f"--file={DOCKERFILE}"),
        *(f"--tag={name}", str(repository)),
    )


def _export(storage: Storage, folder: Path, *, tag: str) -> None:
    """Write archive and description. The description comes last: it says that the archive is complete."""
    name, stored = f"{NAME}:{tag}", _stored(folder.name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive, digest = folder / "image.tar", folder / "digest"
    storage.buildah("push", f"--digestfile={digest}", "--quiet", stored, f"oci-archive:{archive}:{name}")
    (listed,) = msgspec_json.decode(storage.buildah("images", "--json", stored))
    image = Image(name=name, file=str(archive), digest=digest.read_text().strip(), size=listed["size"])
    (folder / "image.json").write_bytes(msgspec_json.encode(image))


def _base(storage: Storage, progress: Progress, *, again: bool) -> str:
    """The name of an image with Debian's Python, as the Dockerfile expects it of its base."""
    recipe = " ".join((DEBIAN, *PACKAGES))
    name = f"localhost/phalanx-base:{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    if name in storage.names() and not again:
        return name
    progress(f"making a base of Debian's packages: {' '.join(PACKAGES)} (about a minute)")
    archive = _cache() / "base.tar"
    # Nothing is lost if the machine stops, so dpkg need not wait for the disk.
    fast = "--dpkgopt=force-unsafe-io"
    run(
        ["mmdebstrap", "--variant=essential", fast, f"--include={','.join(PACKAGES)}", DEBIAN, str(archive)],
        temporary=storage.temporary,
    )
    container = storage.buildah("from", "scratch").strip()
    storage.buildah("add", container, str(archive), "/")
    storage.buildah("commit", "--quiet", "--rm", container, name)
    archive.unlink()
    return name


def _key_of_runtime(base: str, repository: Path) -> str:
    """A checksum of what the lower layer is built from."""
    folder = repository / "deploy" / "image"
    digest = hashlib.sha256(f"{base} {epoch()}".encode())
    for path in (DOCKERFILE, *(folder / name for name in RUNTIME)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _key(repository: Path) -> str:
    """A checksum of all files that the image is built from."""
    digest = hashlib.sha256(epoch().encode())
    for path in (DOCKERFILE, IGNORED, *_context(repository)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _context(repository: Path) -> Iterator[Path]:
    for line in IGNORED.read_text().splitlines():
        if line.startswith("!"):
            path = repository / line[1:]
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (each for each in files if each.is_file() and "__pycache__" not in each.parts)


def epoch() -> str:
    """All times in the image: SOURCE_DATE_EPOCH, else what the Dockerfile has."""
    (line,) = (
        each for each in DOCKERFILE.read_text().splitlines() if each.startswith("ARG SOURCE_DATE_EPOCH=")
    )
    return os.environ.get("SOURCE_DATE_EPOCH") or line.partition("=")[2]


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "phalanx" / "image"


def _forget_old_ones() -> list[str]:
    """The names of the folders that stay."""
    built = sorted(_cache().glob("*/image.json"), key=lambda path: path.stat().st_mtime)
    for path in built[:-KEPT]:
        shutil.rmtree(path.parent, ignore_errors=True)
    return [path.parent.name for path in built[-KEPT:]]


def main() -> int:
    """Build, and print name, size, digest and the path of the archive."""
    parser = argparse.ArgumentParser(prog="python -m deploy.image.build", description=__doc__)
    parser.add_argument("--tag", default="0.1.0")
    parser.add_argument("--again", action="store_true", help="repeat all steps, to compare the digest")
    arguments = parser.parse_args()
    try:
        image = build(_report, tag=arguments.tag, again=arguments.again)
    except CannotBuild as failed:
        _report(str(failed))
        return 2
    print(f"{image.name}  {image.size}  {image.digest}\n{image.archive}")
    return 0


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
