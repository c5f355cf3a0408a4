"""Debian's Chromium through Playwright."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

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
    address, complete = PAGES[name]
    await page.evaluate("address => { location.hash = address }", address)
    await page.wait_for_selector(complete)
