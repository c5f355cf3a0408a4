"""Debian's Chromium through Playwright."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from phalanx.clock import Clock

PAGES = {
    "overview": ("#/", "#last"),
    "queues": ("#/queues", "table"),
    "gangs": ("#/gangs", "table"),
    "gang-waiting": ("#/gang?namespace=vision&kind=PodGroup&name=large", "#verdict"),
    "gang-running": ("#/gang?namespace=vision&kind=PodGroup&name=busy", "#where"),
    "topology": ("#/topology", ".node"),
    "node": ("#/topology?node=a1", ".panel table"),
    "decisions": ("#/decisions", "#events"),
    "faults": ("#/faults", "#nodes"),
}
"""Each page with what is there once it is complete."""

LARGE_PAGES = ("overview", "queues", "gangs", "faults", "topology")
"""The pages whose content grows with the cluster."""

WAIT_MS = 60_000
"""Long, because machines may be busy."""


def chromium() -> str | None:
    """The browser; $CHROMIUM names another one."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@asynccontextmanager
async def browsing(**options: Any) -> AsyncIterator[Any]:
    """A page of a new browser. Options are those of its context: viewport, color_scheme."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        # Without its sandbox, which root cannot use. It opens our own pages only.
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        context = await browser.new_context(**options)
        context.set_default_timeout(WAIT_MS)
        yield await context.new_page()
        await browser.close()


async def show(page: Any, name: str) -> None:
    """Go to one of the pages as a link does, and wait until it is complete."""
    await go(page, *PAGES[name])


async def go(page: Any, address: str, complete: str) -> None:
    """Go to an address as a link does, and wait for what makes its page complete."""
    await page.evaluate(_GO, address)
    await page.wait_for_selector(complete)


_GO = """address => new Promise((done) => {
  if (location.hash === address) return done();
  const shown = () => requestAnimationFrame(() => requestAnimationFrame(done));
  addEventListener('hashchange', shown, { once: true });
  location.hash = address;
})"""
"""It ends when the page before is gone: both may have what is waited for."""


async def seconds_to_open(page: Any, url: str, name: str, *, clock: Clock) -> float:
    """The time from the navigation to one of the pages until its content is there."""
    address, complete = PAGES[name]
    await page.goto("about:blank")
    begin = clock.monotonic()
    await page.goto(f"{url}/{address}")
    await page.wait_for_selector(complete)
    return clock.monotonic() - begin


async def complete_map(page: Any, nodes: int) -> None:
    """Wait until the map has all nodes."""
    await page.evaluate(_COMPLETE, nodes)


_COMPLETE = """async (wanted) => {
  while (document.getElementsByClassName('node').length !== wanted) await new Promise(requestAnimationFrame);
}"""


async def frames(page: Any) -> dict[str, int]:
    """Milliseconds between two frames while the page scrolls."""
    found: dict[str, int] = await page.evaluate(_SCROLL)
    return found


_SCROLL = """async () => {
  const times = [];
  let last = performance.now();
  for (let step = 0; step < 120; step++) {
    scrollBy(0, 300);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  times.sort((a, b) => a - b);
  return { median: Math.round(times[60]), p95: Math.round(times[114]), most: Math.round(times[119]) };
}"""
