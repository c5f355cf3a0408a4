"""What is in the image, and what is not."""

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from typing import Any, Final

import pytest
from msgspec import Struct

from deploy.image import build

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("real nodes")]

SIZE_MAX: Final = 250_000_000
SHELLS: Final = {"sh", "bash", "dash", "busybox"}
TOOLS: Final = {"pip", "pip3", "apt", "apt-get", "dpkg", "gcc", "cc", "ld", "as", "make"}
BILL: Final = "usr/share/sbom/phalanx.cdx.json"


class Contents(Struct, frozen=True):
    """Files of all layers, with their sizes, and the configuration."""

    files: dict[str, tarfile.TarInfo]
    bill: Any
    config: Any


@pytest.fixture(scope="module")
def contents(image: build.Image) -> Contents:
    with tarfile.open(image.archive) as archive:

        def blob(digest: str) -> bytes:
            file = archive.extractfile(f"blobs/{digest.replace(':', '/')}")
            assert file is not None
            return file.read()

        index = archive.extractfile("index.json")
        assert index is not None
        (listed,) = json.load(index)["manifests"]
        assert listed["digest"] == image.digest
        manifest = json.loads(blob(listed["digest"]))
        files: dict[str, tarfile.TarInfo] = {}
        bill = None
        for layer in manifest["layers"]:
            for entry, content in _entries(blob(layer["digest"])):
                files[entry.name.removeprefix("./")] = entry
                bill = json.loads(content) if content else bill
        return Contents(files=files, bill=bill, config=json.loads(blob(manifest["config"]["digest"])))


def _entries(layer: bytes) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer))) as tar:
        for entry in tar:
            file = tar.extractfile(entry) if entry.name.removeprefix("./") == BILL else None
            yield entry, file.read() if file else b""


def test_it_is_small(contents: Contents) -> None:
    assert sum(entry.size for entry in contents.files.values()) < SIZE_MAX


def test_it_has_no_shell_no_package_manager_no_compiler_and_no_tests(contents: Contents) -> None:
    programs = {
        name.rpartition("/")[2]
        for name, entry in contents.files.items()
        if entry.isfile() and entry.mode & 0o111
    }
    assert programs & (SHELLS | TOOLS) == set()
    parts = [name.split("/") for name in contents.files]
    assert [each for each in parts if "tests" in each or "pip" in each] == []


def test_its_user_is_a_number_and_nobody_else_may_write(contents: Contents) -> None:
    assert contents.config["config"]["User"] == "65532:65532"
    writable = [
        name
        for name, entry in contents.files.items()
        if not entry.issym() and (entry.mode & 0o022 or entry.uid or entry.gid)
    ]
    assert writable == ["tmp"]


def test_all_times_are_the_same(contents: Contents) -> None:
    """Otherwise the digest of the next build differs."""
    assert {int(entry.mtime) for entry in contents.files.values()} == {int(build.epoch())}


def test_the_bill_of_materials_names_what_is_installed(contents: Contents) -> None:
    named = {component["name"].lower().replace("_", "-") for component in contents.bill["components"]}
    installed = {
        name.split("/")[-2].split("-")[0].lower().replace("_", "-")
        for name in contents.files
        if name.endswith(".dist-info/METADATA")
    }
    assert installed - {"phalanx-scheduler"} <= named
    assert {"ortools", "cpython", "libc6", "libssl3"} <= named
    assert contents.bill["metadata"]["component"]["name"] == "phalanx-scheduler"
