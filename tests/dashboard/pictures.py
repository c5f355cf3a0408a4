"""Screenshots of every page: `python -m tests.dashboard.pictures` makes them again.

They are the pictures of the documentation, and those that test_pictures.py compares with. The time is fixed,
so that they are always the same. The gangs are decided by nobody here: the objects are written as the
scheduler writes them.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace
from phalanx.cli.verbs.views.queues import QueuesView
from phalanx.clock import SystemClock
from phalanx.observe.recording import encode
from phalanx.web.server import serving
from phalanx_dashboard.facts import EVERYTHING
from phalanx_dashboard.feed import Feed
from phalanx_dashboard.guards import SecretLink
from phalanx_dashboard.pages.queues import ShareHistory
from phalanx_dashboard.recordings import Recordings
from phalanx_dashboard.server import dashboard_app

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
from tests.dashboard.browser import PAGES, browsing, go
from tests.dashboard.large import ListReader, stamped
from tests.fake_objects import Manifest, namespace

DOCUMENTATION: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures"
OTHERS: Final = Path(__file__).parent / "references"
MADE_WITH: Final = OTHERS / "made-with.json"
NOW_MS: Final = 1_790_000_000_000
WIDE: Final = {"width": 1280, "height": 800}
NARROW: Final = {"width": 320, "height": 800}
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
    **{name: PAGES[name] for name in ("overview", "queues", "gangs", "topology", "decisions", "faults")},
    "gang": ("#/gang?namespace=language&kind=PodGroup&name=pretrain", "#pods"),
    "gang-waiting": ("#/gang?namespace=vision&kind=PodGroup&name=sweep", "#verdict"),
    "node": ("#/topology?node=gpu-00-00", ".panel table"),
}
"""Name of the picture; address of the page, and what is there once it is complete."""

NAMES: Final = (
    *PICTURES,
    *(f"{name}-dark" for name in PICTURES),
    "narrow",
)
_ONLY_COMPARED: Final = {*(f"{name}-dark" for name in PICTURES if name != "topology"), "node"}


def reference(name: str) -> Path:
    """Where a picture is kept."""
    return OTHERS / f"{name}.png" if name in _ONLY_COMPARED else DOCUMENTATION / f"dashboard-{name}.png"


async def take(page: Any) -> AsyncIterator[tuple[str, bytes]]:
    """All pictures by their names. The page is that of `example`."""
    for colours in ("light", "dark"):
        await page.emulate_media(color_scheme=colours, reduced_motion="reduce")
        for name in PICTURES:
            yield f"{name}-dark" if colours == "dark" else name, await picture(page, name)
    await page.set_viewport_size(NARROW)
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    yield "narrow", await picture(page, "overview")


async def picture(page: Any, name: str) -> bytes:
    """Go to the page, and take its picture."""
    await go(page, *PICTURES[name])
    await page.wait_for_selector(".connection.good")
    if name == "decisions":
        await page.click("summary")
    if name == "queues":
        await page.wait_for_selector(".u-legend")
    taken: bytes = await page.screenshot(animations="disabled")
    return taken


async def made_with(page: Any) -> dict[str, str]:
    """What pictures depend on beside the pages: the browser, and the font that the system has."""
    session = await page.context.new_cdp_session(page)
    await session.send("DOM.enable")
    await session.send("CSS.enable")
    root = (await session.send("DOM.getDocument"))["root"]["nodeId"]
    heading = await session.send("DOM.querySelector", {"nodeId": root, "selector": "h1"})
    fonts = (await session.send("CSS.getPlatformFontsForNode", {"nodeId": heading["nodeId"]}))["fonts"]
    version = page.context.browser.version
    return {"chromium": version.partition(".")[0], "font": ", ".join(font["familyName"] for font in fonts)}


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


@asynccontextmanager
async def example() -> AsyncIterator[Any]:
    """The overview of the example in a browser, at the fixed time."""
    with patch.object(SystemClock, "now_ms", return_value=NOW_MS):
        feed = await example_feed()
        guard = SecretLink(SECRET)
        options = {"viewport": WIDE, "timezone_id": "UTC", "locale": "en-US"}
        async with (
            serving(dashboard_app(feed, guard), host="127.0.0.1", port=0) as port,
            browsing(**options) as page,
        ):
            guard.port = port
            await page.clock.set_fixed_time(NOW_MS / 1000)
            await page.goto(f"http://127.0.0.1:{port}/?secret={SECRET}")
            await page.wait_for_selector("#last")
            yield page


async def example_feed() -> Feed:
    """One reading of the example cluster, with a recorded cycle."""
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
    await feed.read()
    facts = feed.facts(EVERYTHING)
    assert facts is not None, feed.problem
    recordings.url = "http://127.0.0.1:8081"
    feed.history = growing(facts.queues, facts.seen.now_ms)
    return feed


async def main() -> None:
    """Write all pictures, and what they were made with."""
    OTHERS.mkdir(exist_ok=True)
    async with example() as page:
        MADE_WITH.write_text(json.dumps(await made_with(page), indent=1) + "\n")
        async for name, content in take(page):
            reference(name).write_bytes(content)


if __name__ == "__main__":
    asyncio.run(main())
