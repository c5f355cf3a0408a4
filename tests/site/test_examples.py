"""Every YAML block of the pages is tested: by the tests of its page, or here."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from phalanx.framework.config import SchedulerConfig
from phalanx_controlplane.controlplane import ControlPlane

from tests.crds import api
from tests.crds.files import definitions
from tests.parsed_config import parse_config

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "deploy" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(<!-- (?:file|example): [^\n]* -->\n)?```yaml\n(.*?)```", re.DOTALL)
OTHER_PROJECTS = {"preflight", "resources"}
"""The first keys of configuration files of other programs: NVSentinel, kustomize."""

JOB = yaml.safe_load("""
apiVersion: batch/v1
kind: Job
metadata: {name: example}
spec:
  completionMode: Indexed
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: example}]}}
""")
CONFIGURATION = {field.encode_name for field in msgspec.structs.fields(SchedulerConfig)}


def blocks() -> list[tuple[str, Any]]:
    """The documents of blocks that no name gives to the test of their page, with the page."""
    return [
        (str(page.relative_to(ROOT)), document)
        for page in PAGES
        for name, text in BLOCK.findall(page.read_text())
        if not name
        for document in yaml.safe_load_all(text)
        if document is not None
    ]


ALL = blocks()
SETTINGS = [(page, each) for page, each in ALL if each.keys() <= CONFIGURATION]
OBJECTS = [(page, each) for page, each in ALL if "kind" in each]
PARTS = [(page, each) for page, each in ALL if each.keys() == {"metadata", "spec"}]


def test_every_block_is_tested() -> None:
    tested = [each for _, each in (*SETTINGS, *OBJECTS, *PARTS)]
    left = [(page, each) for page, each in ALL if each not in tested]
    assert [page for page, each in left if next(iter(each)) not in OTHER_PROJECTS] == []
    assert len(SETTINGS) > 5
    assert (OBJECTS, PARTS) != ([], [])


@pytest.mark.parametrize(("page", "settings"), SETTINGS)
def test_an_example_of_the_configuration_is_accepted(page: str, settings: Any) -> None:
    parse_config(yaml.safe_dump(settings))


@pytest.mark.controlplane
@pytest.mark.asyncio(loop_scope="session")
async def test_the_api_server_accepts_every_object(control_plane: ControlPlane) -> None:
    """Parts are those of a Job."""
    jobs = [
        (
            page,
            JOB | part | {"metadata": JOB["metadata"] | part["metadata"], "spec": JOB["spec"] | part["spec"]},
        )
        for page, part in PARTS
    ]
    async with control_plane.session() as session:
        await api.install(session, list(definitions().values()))
        for page, document in (*OBJECTS, *jobs):
            assert (page, *await api.dry_run(session, document)) == (page, 201, "")
