"""Screenshots of every page for the documentation: `python -m tests.cli.dashboard.pictures`.

The gangs are decided by nobody here: the objects are written as the scheduler writes them.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace
from phalanx.cli.dashboard.facts import EVERYTHING
from phalanx.cli.dashboard.feed import Feed
from phalanx.cli.dashboard.guards import SecretLink
from phalanx.cli.dashboard.pages.queues import ShareHistory
from phalanx.cli.dashboard.recordings import Recordings
from phalanx.cli.dashboard.server import dashboard_app
from phalanx.cli.verbs.views.queues import QueuesView
from phalanx.clock import SystemClock
from phalanx.observe.recording import encode
from phalanx.web.server import serving

from tests.cli.dashboard.browser import browsing, show
from tests.cli.dashboard.large import ListReader, stamped
from tests.cli.test_recordings import SCENARIOS, recording_of
from tests.cli.verbs.conftest import (
    MESSAGE,
    STEP,
    ago,
    gpu_node,
    gpu_pod,
    pod_group,
    queue,
    waiting_status,
)
from tests.cli.verbs.test_why import event
from tests.fake_objects import Manifest, namespace

FOLDER: Final = Path(__file__).resolve().parents[3] / "docs" / "pictures"
GPU: Final = "nvidia.com/gpu"
SECRET: Final = "pictures"


def cluster() -> Iterator[Manifest]:
    """Four rows of four racks, twelve nodes each, three teams."""
    levels = [{"name": "row", "nodeLabel": "row"}, {"name": "rack", "nodeLabel": "rack"}]
    yield {
        "apiVersion": "scheduling.phalanx.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "default"},
        "spec": {"levels": levels},
    }
    for row in range(4):
        for rack in range(4):
            for place in range(12):
                node = gpu_node(f"gpu-{row}{rack}-{place:02}", rack=f"r{row}{rack}")
                node["metadata"]["labels"]["row"] = f"row-{row}"
                if (row, rack, place) in ((1, 2, 3), (3, 3, 11)):
                    node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
                if (row, rack, place) == (2, 0, 5):
                    node["spec"] = {"unschedulable": True}
                yield node
    yield from queues()
    yield from gangs()


def queues() -> Iterator[Manifest]:
    yield queue(
        "research",
        guarantee={GPU: "1024"},
        status={"allocated": {GPU: "848"}, "fairShare": {GPU: "1536"}, "pendingGangs": 3},
    )
    for name, used, guarantee, share, waiting in (
        ("vision", 480, 384, 640, 2),
        ("speech", 240, 256, 384, 0),
        ("language", 128, 384, 512, 1),
    ):
        status = {
            "allocated": {GPU: str(used)},
            "fairShare": {GPU: str(share)},
            "pendingGangs": waiting,
            "borrowed": {GPU: str(max(used - guarantee, 0))},
        }
        yield queue(name, parent="research", guarantee={GPU: str(guarantee)}, status=status)
        yield namespace(name)


def gangs() -> Iterator[Manifest]:
    racks = [(row, rack) for row in range(4) for rack in range(4)]
    for number, (row, rack) in enumerate(racks[:9]):
        space = ("vision", "vision", "speech")[number % 3]
        yield from running(
            f"train-{number}",
            space,
            [f"gpu-{row}{rack}-{place:02}" for place in range(12 if number % 2 else 8)],
            f"r{row}{rack}",
        )
    yield from running(
        "pretrain", "language", [f"gpu-2{rack}-{place:02}" for rack in (1, 2) for place in range(8)], ""
    )
    for place, (name, space, reason, message) in enumerate(
        (
            ("large", "vision", "InsufficientCapacity", MESSAGE),
            ("sweep", "vision", "NoDomainFits", "no rack fits all 16 pods now: the best fits 11"),
            ("tune", "language", "QueueLimit", "the queue language is at its limit"),
        )
    ):
        group = pod_group(
            name,
            space=space,
            status=waiting_status(reason, message, position=(1, 2, 1)[place], step=STEP),
            minMember=16,
            queue=space,
        )
        group["metadata"]["creationTimestamp"] = ago(1800)
        yield group
        for index in range(16):
            yield gpu_pod(f"{name}-{index}", space=space, group=name, gpus=8, creationTimestamp=ago(1800))


def running(name: str, space: str, nodes: list[str], rack: str) -> Iterator[Manifest]:
    terms = {
        "proven": True,
        "terms": ["rows", "racks", "leftover"],
        "objective": [1, 1 if rack else 2, 0],
        "bound": [1, 1 if rack else 2, 0],
        "by": "tree",
    }
    status = {"phase": "Running", "queue": space, "startedAt": ago(5400), "certificate": terms}
    if rack:
        status["placement"] = {"level": "rack", "domain": rack}
    group = pod_group(name, space=space, status=status, minMember=len(nodes), queue=space)
    group["metadata"]["creationTimestamp"] = ago(9000)
    yield group
    for index, node in enumerate(nodes):
        pod = gpu_pod(
            f"{name}-{index}", space=space, group=name, node=node, gpus=8, creationTimestamp=ago(9000)
        )
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(5460 - index)}
        pod["status"] |= {"conditions": [bound], "startTime": ago(5400)}
        yield pod


PICTURES: Final = {
    "overview": "overview",
    "queues": "queues",
    "gangs": "gangs",
    "gang": "#/gang?namespace=language&kind=PodGroup&name=pretrain",
    "gang-waiting": "#/gang?namespace=vision&kind=PodGroup&name=sweep",
    "topology": "topology",
    "decisions": "decisions",
    "faults": "faults",
}
"""Name of the picture, and of the page or its address."""


async def take(url: str) -> None:
    async with browsing(viewport={"width": 1280, "height": 800}, color_scheme="light") as page:
        await page.goto(f"{url}/?secret={SECRET}")
        await page.wait_for_selector("#last")
        for name, target in PICTURES.items():
            await picture(page, name, target)
        await page.emulate_media(color_scheme="dark")
        await picture(page, "topology-dark", "topology")
        await page.set_viewport_size({"width": 320, "height": 800})
        await picture(page, "narrow", "overview")


async def picture(page: Any, name: str, target: str) -> None:
    if target.startswith("#"):
        await page.evaluate("address => { location.hash = address }", target)
        await page.wait_for_selector("#pods, #verdict")
    else:
        await show(page, target)
    if name == "decisions":
        await page.click("summary")
    if name == "queues":
        await page.wait_for_selector(".u-legend")
    await page.screenshot(path=FOLDER / f"dashboard-{name}.png")


def growing(view: QueuesView, now_ms: int) -> ShareHistory:
    """An hour and a half in which the use of all queues grows to what it is now."""
    history = ShareHistory()
    for step in range(90):
        rows = tuple(
            replace(row, used={GPU: 8 * (row.used.get(GPU, 0) * min(30 + step, 90) // 720)})
            for row in view.queues
        )
        history.add(replace(view, queues=rows), now_ms=now_ms - (90 - step) * 60_000)
    return history


async def main() -> None:
    clock = SystemClock()
    note = "NoDomainFits: no rack fits all 16 pods now: the best fits 11"
    events = [event("e", "sweep-0", "", reason="FailedScheduling", note=note, seconds=40)]
    found = [stamped(item, f"{item['kind']}-{number}") for number, item in enumerate(cluster())]
    recordings = Recordings("")
    recording = recording_of(SCENARIOS / "required-rack-busy.yaml")
    recordings.add(
        encode(replace(recording, snapshot=replace(recording.snapshot, now=clock.now_ms() - 9000)))
    )
    feed = Feed(ListReader(found, events), recordings, clock=clock, period=3600)
    guard = SecretLink(SECRET)
    await feed.read()
    facts = feed.facts(EVERYTHING)
    assert facts is not None, feed.problem
    recordings.url = "http://127.0.0.1:8081"
    feed.history = growing(facts.queues, facts.seen.now_ms)
    async with serving(dashboard_app(feed, guard), host="127.0.0.1", port=0) as port:
        guard.port = port
        await take(f"http://127.0.0.1:{port}")


if __name__ == "__main__":
    asyncio.run(main())
