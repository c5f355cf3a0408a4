"""The pages in a real browser: flows, keyboard, accessibility, narrow screens, hostile texts, many nodes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from phalanx.clock import SystemClock
from phalanx.web.server import serving
from phalanx_dashboard.feed import Feed
from phalanx_dashboard.guards import SecretLink
from phalanx_dashboard.recordings import Recordings
from phalanx_dashboard.server import dashboard_app

from tests.cli.verbs.conftest import gpu_node, gpu_pod, pod_group, queue
from tests.cli.verbs.test_why import event
from tests.dashboard.browser import (
    LARGE_PAGES,
    PAGES,
    browsing,
    chromium,
    complete_map,
    frames,
    seconds_to_open,
    show,
)
from tests.dashboard.conftest import SECRET, Site
from tests.dashboard.large import GANGS, NODES, ListReader, objects

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

if chromium() is None:
    pytest.skip("there is no Chromium", allow_module_level=True)


@asynccontextmanager
async def opened(site: Site, *, is_checked: bool = False, **options: Any) -> AsyncIterator[Any]:
    """The overview in a browser, after the link; nothing may go wrong meanwhile.

    `is_checked`: by axe-core, which tries to add styles of its own.
    """
    wrong: list[str] = []
    async with browsing(**options) as page:
        page.on(
            "console",
            lambda message: wrong.append(message.text) if "Content Security" in message.text else None,
        )
        page.on("response", lambda answer: wrong.append(answer.url) if answer.status >= 400 else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda request: wrong.append(request.url) if not request.url.startswith(site.url) else None,
        )
        await page.goto(f"{site.url}/?secret={SECRET}")
        await page.wait_for_selector(PAGES["overview"][1])
        yield page
    assert [each for each in wrong if not (is_checked and "inline style" in each)] == []


@asynccontextmanager
async def reading(site: Site) -> AsyncIterator[None]:
    """The cluster is read again and again."""
    task = asyncio.create_task(site.feed.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_from_the_overview_to_what_would_help(site: Site) -> None:
    async with opened(site) as page:
        await page.get_by_role("link", name="Gangs", exact=True).click()
        await page.get_by_label("State").select_option("Waiting")
        await page.wait_for_selector("text=1 of 3 gangs")
        await page.get_by_label("State").select_option("")
        await page.get_by_label("Search").fill("speech")
        await page.wait_for_selector("text=1 of 3 gangs")
        assert "text=speech" in page.url
        await page.get_by_label("Search").fill("")
        await page.get_by_role("button", name="Gang", exact=True).click()
        await page.wait_for_selector("th[aria-sort=ascending]")
        await page.get_by_role("link", name="vision/large").click()
        await page.wait_for_selector("text=To start now, lower minMember to 1")
        assert await page.title() == "large · Phalanx"
        await page.go_back()
        await page.wait_for_selector("th[aria-sort=ascending]")


async def test_a_change_of_the_cluster_appears_without_a_reload(site: Site) -> None:
    async with reading(site), opened(site) as page:
        await page.wait_for_selector(".connection.good")
        await show(page, "gangs")
        site.world.create(gpu_pod("fresh", space="vision"))
        await page.wait_for_selector("text=vision/fresh")
        site.world.server.forbidden = ("/api/v1/pods",)
        await page.wait_for_selector("text=you may not list them")


async def test_the_map_with_the_keyboard_only(site: Site) -> None:
    async with opened(site) as page:
        await show(page, "topology")
        await page.get_by_label("Resource").focus()
        await page.keyboard.press("Tab")
        focused = "document.activeElement.dataset.node"
        assert await page.evaluate(focused) == "a1"
        for key, wanted in (("ArrowRight", "a2"), ("ArrowDown", "b1"), ("ArrowLeft", "a2"), ("Home", "a1")):
            await page.keyboard.press(key)
            assert (key, await page.evaluate(focused)) == (key, wanted)
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=all of it stops")
        await page.get_by_role("button", name="Close").press("Enter")
        await page.wait_for_selector(".panel", state="detached")
        assert await page.locator(".node[tabindex='0']").count() == 1


async def test_colours_are_kept(site: Site) -> None:
    async with opened(site, color_scheme="light") as page:
        light = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        await page.get_by_label("Colours").select_option("dark")
        await page.wait_for_selector("html[data-theme=dark]")
        dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        await page.reload()
        await page.wait_for_selector("html[data-theme=dark]")
        assert light != dark == await page.evaluate("getComputedStyle(document.body).backgroundColor")


def busy(site: Site) -> None:
    """Something on every page."""
    site.world.create(gpu_node("bad", rack="b", conditions=[{"type": "Ready", "status": "False"}]))
    certificate = {"proven": True, "terms": ["racks"], "objective": [1], "bound": [1], "by": "tree"}
    path = "/apis/scheduling.phalanx.dev/v1alpha1/namespaces/vision/podgroups/busy/status"
    site.world.send("PATCH", path, {"status": {"certificate": certificate}})
    body = event("e", "large-0", "", reason="FailedScheduling", note="no rack fits", seconds=5)
    site.world.send("POST", "/apis/events.k8s.io/v1/namespaces/vision/events", body)


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
async def test_every_page_is_accessible_and_fits(site: Site, width: int, colours: str) -> None:
    from axe_playwright_python.async_playwright import Axe

    busy(site)
    await site.feed.read()
    found: list[Any] = []
    screen = {"width": width, "height": 900}
    async with opened(site, is_checked=True, viewport=screen, color_scheme=colours) as page:
        for name in PAGES:
            await show(page, name)
            results = await Axe().run(page)
            found += [
                (name, each["id"], [node["html"] for node in each["nodes"]][:3])
                for each in results.response["violations"]
            ]
            assert results.response["passes"]
            if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found.append((name, "wider than the screen", []))
    assert found == []


HOSTILE = "<img src=/x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


async def test_hostile_texts_are_shown_as_text(site: Site) -> None:
    condition = {"type": "Ready", "status": "False", "reason": HOSTILE, "message": HOSTILE}
    times = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {
        "phase": "Pending",
        "reason": HOSTILE,
        "message": HOSTILE,
        "nextStep": HOSTILE,
        "queue": "vision",
    }
    site.world.create(
        pod_group("hostile", space="vision", status=status),
        queue("hostile", status={"conditions": [condition | times]}),
    )
    body = event("e", "large-0", "", reason="FailedScheduling", note=HOSTILE, seconds=5)
    site.world.send("POST", "/apis/events.k8s.io/v1/namespaces/vision/events", body)
    await site.feed.read()
    seen = 0
    async with opened(site) as page:
        await page.evaluate("location.hash = '#/gang?namespace=vision&kind=PodGroup&name=hostile'")
        await page.wait_for_selector("#verdict")
        seen += HOSTILE in await page.inner_text("main")
        for name in PAGES:
            await show(page, name)
            seen += HOSTILE in await page.inner_text("main")
            assert await page.evaluate("document.querySelectorAll('img, main script').length") == 0
            assert "owned" not in await page.title()
    assert seen >= 5


async def test_injected_code_does_not_run(site: Site) -> None:
    """The Content Security Policy holds even if markup got into a page."""
    async with browsing() as page:
        await page.goto(f"{site.url}/?secret={SECRET}")
        await page.wait_for_selector(PAGES["overview"][1])
        await page.evaluate("document.body.insertAdjacentHTML('beforeend', `" + HOSTILE + "`)")
        await page.evaluate(
            "() => { const each = document.createElement('script'); each.textContent = 'window.owned = 1';"
            " document.body.append(each) }"
        )
        refused = await page.evaluate("fetch('https://example.com/').then(() => 'sent', () => 'refused')")
        assert (await page.evaluate("window.owned"), refused) == (None, "refused")
        assert "owned" not in await page.title()


async def test_ten_thousand_nodes_and_a_hundred_thousand_pods() -> None:
    clock = SystemClock()
    feed, guard = Feed(ListReader(objects()), Recordings(""), clock=clock, period=3600), SecretLink(SECRET)
    await feed.read()
    async with serving(dashboard_app(feed, guard), host="127.0.0.1", port=0) as port, browsing() as page:
        guard.port = port
        url = f"http://127.0.0.1:{port}"
        await page.goto(f"{url}/?secret={SECRET}")
        times = {name: await seconds_to_open(page, url, name, clock=clock) for name in LARGE_PAGES}
        await complete_map(page, NODES)
        scrolled = await frames(page)
        await page.goto(f"{url}/#/gangs")
        await page.wait_for_selector(f"text={GANGS:,} gangs")
    print("\nseconds to open:", {name: round(took, 2) for name, took in times.items()})
    print("milliseconds between frames while scrolling:", scrolled)
