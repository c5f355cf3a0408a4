"""The bill of materials of the image, as CycloneDX: distributions of Python and packages of Debian."""

import os
import platform
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import Distribution
from pathlib import Path

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL


def packages_of(files: Iterable[Path]) -> dict[str, str]:
    """The Debian packages that own the files, with their versions. Files of other origin are left out."""
    found = subprocess.run(
        ["dpkg-query", "--search", *(str(name) for path in files for name in _names(path))],
        capture_output=True,
        text=True,
        check=False,  # 1 if a file belongs to no package
    ).stdout
    names = sorted({line.split(":")[0] for line in found.splitlines() if not line.startswith("diversion")})
    if not names:
        return {}
    shown = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Package} ${Version}\n", *names],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(line.split(" ", 1) for line in shown.splitlines())


def _names(path: Path) -> set[Path]:
    """The path as it is, and as packages that are older than merged /usr name it."""
    return {path, Path("/") / path.relative_to("/usr")} if path.is_relative_to("/usr") else {path}


def document(main: Distribution, python: Iterable[Distribution], debian: Mapping[str, str]) -> str:
    """The bill as JSON, which is valid by the schema of CycloneDX 1.6."""
    bom = Bom()
    subject = _distribution(main)
    subject.type = ComponentType.CONTAINER
    bom.metadata.component = subject
    version = platform.python_version()
    interpreter = Component(
        name="cpython", version=version, type=ComponentType.APPLICATION, bom_ref=f"cpython@{version}"
    )
    parts = [interpreter, *map(_distribution, python), *(_debian(*item) for item in debian.items())]
    bom.components.update(parts)
    bom.dependencies.update(
        [
            Dependency(subject.bom_ref, [Dependency(part.bom_ref) for part in parts]),
            *(Dependency(part.bom_ref) for part in parts),
        ]
    )
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    names = " ".join(sorted(str(part.purl or part.bom_ref) for part in (subject, *parts)))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, names)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if (errors := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise SystemExit(f"the bill of materials is not valid: {errors}")
    return text + "\n"


def _distribution(found: Distribution) -> Component:
    name, version = found.metadata["Name"], found.version
    purl = PackageURL("pypi", None, name.lower().replace("_", "-"), version)
    expression = found.metadata.get("License-Expression")
    licenses = [LicenseFactory().make_from_string(expression)] if expression else []
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=str(purl),
        licenses=licenses,
    )


def _debian(name: str, version: str) -> Component:
    purl = PackageURL("deb", "debian", name, version)
    return Component(name=name, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl))
