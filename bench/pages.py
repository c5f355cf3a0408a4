"""Times how long the pages of `phalanx dashboard` take to open with 10,000 nodes and 100,000 pods.

    python -m bench.pages [--rounds 5] [--beside FOLDER] [--only TEXT]

The cluster is read once, by a reader without an API server: what is measured is the server of the pages and
the browser. The time of a page is that from the navigation until its content is there; for the topology also
until all nodes of the map are. Beside it stands the CPU time of the page's process and of the server, which
other work on the machine changes less. Then the map scrolls, and the times between two frames are taken.
FOLDER has the assets of another version; then both versions take turns. Needs the extra `browser`, and
Chromium. Writes bench/results/pages.json.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from phalanx.clock import SystemClock
from phalanx.web.server import serving
from phalanx_dashboard.assets import read_assets
from phalanx_dashboard.feed import Feed
from phalanx_dashboard.guards import SecretLink
from phalanx_dashboard.recordings import Recordings
from phalanx_dashboard.server import dashboard_app

from bench.record import record
from tests.dashboard.browser import LARGE_PAGES, browsing, complete_map, frames, seconds_to_open
from tests.dashboard.large import GANG, GANGS, NODES, ListReader, objects

RESULTS: Final = Path(__file__).parent / "results" / "pages.json"
SECRET: Final = "measured"
CLOCK: Final = SystemClock()

Times = dict[str, list[tuple[float, float]]]
"""By page: seconds, and seconds of CPU time."""


def main() -> None:
    """Measure, print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--only", default="")
    asyncio.run(bench(parser.parse_args()))


async def bench(arguments: argparse.Namespace) -> None:
    """The versions take turns, so that other work on the machine slows both."""
    reader = ListReader(objects())
    feed = Feed(reader, Recordings(""), clock=CLOCK, period=3600)
    await feed.read()
    folders = {"now": None, **({"beside": arguments.beside} if arguments.beside else {})}
    begin = os.getloadavg()[0]
    async with AsyncExitStack() as stack:
        sites = {
            name: await stack.enter_async_context(opened_site(feed, folder))
            for name, folder in folders.items()
        }
        times: dict[str, Times] = {name: {} for name in sites}
        scrolled: dict[str, list[Mapping[str, int]]] = {name: [] for name in sites}
        for _ in range(arguments.rounds):
            for name, (page, url) in sites.items():
                await one_round(page, url, times[name], feed=feed, only=arguments.only)
                scrolled[name].append(await frames(page))
    load = [round(begin, 1), round(os.getloadavg()[0], 1)]
    rows = {name: medians(each) for name, each in times.items()}
    frame = {
        name: {key: statistics.median(each[key] for each in found) for key in found[0]}
        for name, found in scrolled.items()
    }
    show(rows, frame)
    size = {"nodes": NODES, "pods": GANG * GANGS, "rounds": arguments.rounds, "load": load}
    record(RESULTS, {**size, "seconds": rows, "all": times, "frameMilliseconds": frame})


@asynccontextmanager
async def opened_site(feed: Feed, folder: Path | None) -> AsyncIterator[tuple[Any, str]]:
    """A server of the pages, and a browser that has its cookie."""
    guard = SecretLink(SECRET)
    app = dashboard_app(feed, guard, assets=read_assets(folder) if folder else None)
    async with serving(app, host="127.0.0.1", port=0) as port, browsing() as page:
        guard.port = port
        url = f"http://127.0.0.1:{port}"
        await page.goto(f"{url}/?secret={SECRET}")
        yield page, url


async def one_round(page: Any, url: str, times: Times, *, feed: Feed, only: str) -> None:
    """Open each page once, the topology last, which stays open."""
    for name in LARGE_PAGES:
        if only in name or name == "topology":
            feed.number += 1  # as after a reading: the server has no page of it yet
            before = time.process_time()
            took = await seconds_to_open(page, url, name, clock=CLOCK)
            times.setdefault(name, []).append((took, time.process_time() - before + await process_time(page)))
    begin = CLOCK.monotonic()
    await complete_map(page, NODES)
    seconds = took + CLOCK.monotonic() - begin
    cpu = time.process_time() - before + await process_time(page)
    times.setdefault("topology, complete", []).append((seconds, cpu))


async def process_time(page: Any) -> float:
    """Seconds of CPU time of the page's process, which the navigation has started."""
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable")
    found = (await session.send("Performance.getMetrics"))["metrics"]
    await session.detach()
    return next(float(each["value"]) for each in found if each["name"] == "ProcessTime")


def medians(times: Times) -> dict[str, dict[str, float]]:
    """In seconds."""
    return {
        name: {
            "wall": round(statistics.median(wall for wall, _ in each), 2),
            "cpu": round(statistics.median(cpu for _, cpu in each), 2),
        }
        for name, each in times.items()
    }


def show(rows: Mapping[str, Mapping[str, Mapping[str, float]]], frame: Mapping[str, Any]) -> None:
    """Print a line for each page."""
    print(f"{'seconds to open':<24}" + "".join(f"{name:>10}{'CPU':>8}" for name in rows))
    for page in rows["now"]:
        cells = (f"{each[page]['wall']:>10.2f}{each[page]['cpu']:>8.2f}" for each in rows.values())
        print(f"{page:<24}" + "".join(cells))
    for name, found in frame.items():
        print(f"milliseconds between frames, {name}: {dict(found)}")


if __name__ == "__main__":
    main()
