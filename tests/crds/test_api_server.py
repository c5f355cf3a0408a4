"""A real API server accepts and refuses the examples as they declare, and prints the columns."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from phalanx.model.api import pod_groups, queues
from phalanx_controlplane.controlplane import ControlPlane

from tests.crds import api
from tests.crds.files import FOLDER, INVALID, VALID, Document, definitions, documents, ours

pytestmark = [pytest.mark.controlplane, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def session(control_plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    async with control_plane.session() as session:
        await api.install(session, list(definitions().values()))
        yield session


def example(name: str, *, rename: str) -> Document:
    """A copy with a unique name, since all tests of the shared control plane see its queues."""
    (document,) = ours(FOLDER / "examples" / "valid" / f"{name}.yaml")
    return {**document, "metadata": {"name": rename}}


def without_status(document: Document) -> Document:
    return {key: value for key, value in document.items() if key != "status"}


def refusal(path: Path) -> str:
    """The expected error message, from the first line of a refused example."""
    first, _, _ = path.read_text().partition("\n")
    mark, _, expected = first.partition(": ")
    assert mark == "# refused", path
    assert expected, path
    return expected


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
async def test_valid_examples_are_accepted(session: aiohttp.ClientSession, path: Path) -> None:
    for document in documents(path):
        assert await api.dry_run(session, document) == (201, "")


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
async def test_invalid_examples_are_refused(session: aiohttp.ClientSession, path: Path) -> None:
    (document,) = documents(path)
    status, message = await api.dry_run(session, document)
    assert status == 422
    assert refusal(path) in message


async def test_crds_are_established(session: aiohttp.ClientSession) -> None:
    for definition in definitions().values():
        found = await api.apply(session, definition)
        conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}


async def test_columns_of_a_pod_group(session: aiohttp.ClientSession) -> None:
    document = example("podgroup-every-field", rename="crds-columns")
    await api.apply(session, without_status(document))
    await api.patch_status(session, document, msgspec.convert(document["status"], pod_groups.PodGroupStatus))
    priorities, cells = await api.table(session, document)
    assert [name for name, priority in priorities.items() if priority == 0] == [
        "Name", "Queue", "Phase", "Min", "Bound", "Running", "Reason", "Age",
    ]  # fmt: skip
    del cells["Age"]
    assert cells == {
        "Name": "crds-columns",
        "Queue": "vision",
        "Phase": "Running",
        "Min": 12,
        "Bound": 1,
        "Running": 10,
        "Reason": "InsufficientCapacity",
        "Position": 4,
        "Charged Queue": "vision",
        "Starts": "2026-12-24T16:00:00Z",
        "Domain": "zone-a/s1",
        "Proven": True,
        "Next Step": "They start when 16 GPUs of spine s1 are free.",
    }


async def test_columns_of_a_queue(session: aiohttp.ClientSession) -> None:
    document = example("queue-every-field", rename="crds-columns")
    await api.apply(session, without_status(document))
    await api.patch_status(session, document, msgspec.convert(document["status"], queues.QueueStatus))
    priorities, cells = await api.table(session, document)
    async with session.delete(f"{api.collection(document)}/crds-columns", raise_for_status=True):
        pass
    assert [name for name, priority in priorities.items() if priority == 0] == [
        "Name", "Parent", "Weight", "Pending", "GPUs", "GPU Guarantee", "GPU Share", "GPU Limit", "State",
        "Age",
    ]  # fmt: skip
    del cells["Age"]
    assert cells == {
        "Name": "crds-columns",
        "Parent": "research",
        "Weight": 3,
        "Pending": 3,
        "GPUs": "48",
        "GPU Guarantee": "48",
        "GPU Share": "96",
        "GPU Limit": "128",
        "State": "Held",
        "Pending Pods": 24,
        "CPU": "384",
        "Memory": "3Ti",
        "GPUs Borrowed": "0",
        "Ordering": "FairUsers",
    }


async def test_columns_of_a_topology(session: aiohttp.ClientSession) -> None:
    document = example("topology", rename="crds-columns")
    await api.apply(session, document)
    _, cells = await api.table(session, document)
    async with session.delete(f"{api.collection(document)}/crds-columns", raise_for_status=True):
        pass
    del cells["Age"]
    assert cells == {"Name": "crds-columns", "Widest": "zone", "Narrowest": "host"}


async def test_a_merge_patch_replaces_the_whole_status(session: aiohttp.ClientSession) -> None:
    document = example("podgroup-every-field", rename="crds-replaced")
    await api.apply(session, without_status(document))
    long = msgspec.convert(document["status"], pod_groups.PodGroupStatus)
    assert await api.patch_status(session, document, long) == document["status"]
    short = pod_groups.PodGroupStatus(phase="Pending", placement=pod_groups.PlacementStatus(domain="zone-b"))
    assert await api.patch_status(session, document, short) == {
        "phase": "Pending",
        "conditions": [],
        "placement": {"domain": "zone-b", "domains": []},
    }


async def test_apply_without_the_subresource_does_not_set_the_status(session: aiohttp.ClientSession) -> None:
    document = example("podgroup-every-field", rename="crds-status")
    assert "status" not in await api.apply(session, document)
