"""Every page looks as in its picture, in light and in dark. `pictures.py` takes them again after a change."""

import io
import json
from pathlib import Path

import pytest

from tests.dashboard.browser import chromium
from tests.dashboard.comparison import DIFFERENT_MAX, difference
from tests.dashboard.pictures import MADE_WITH, NAMES, example, made_with, reference, take

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

if chromium() is None:
    pytest.skip("there is no Chromium", allow_module_level=True)


async def test_every_page_looks_as_in_its_picture(tmp_path: Path) -> None:
    found: dict[str, float] = {}
    async with example() as page:
        now, then = await made_with(page), json.loads(MADE_WITH.read_text())
        if now != then:
            pytest.skip(f"the pictures were made with {then}, and this is {now}")
        async for name, content in take(page):
            found[name] = difference(content, reference(name).read_bytes())
            (tmp_path / f"{name}.png").write_bytes(content)
    assert found.keys() == set(NAMES)
    wrong = {name: part for name, part in found.items() if part > DIFFERENT_MAX}
    assert wrong == {}, f"look at {tmp_path}; `python -m tests.dashboard.pictures` takes all again"


async def test_a_small_change_of_a_page_is_seen() -> None:
    async with example() as page:
        before = await page.screenshot(animations="disabled")
        again = await page.screenshot(animations="disabled")
        await page.evaluate("document.querySelector('.number').remove()")
        without_number = await page.screenshot(animations="disabled")
    assert difference(again, before) <= DIFFERENT_MAX < difference(without_number, before)


def test_what_counts_as_different() -> None:
    from PIL import Image, ImageDraw

    def screen(colour: int = 255, button: int = 0) -> bytes:
        image = Image.new("RGB", (1280, 800), (colour, colour, colour))
        ImageDraw.Draw(image).rectangle((100, 100, 100 + button, 100 + button), fill=(200, 0, 0))
        content = io.BytesIO()
        image.save(content, "PNG")
        return content.getvalue()

    assert difference(screen(), screen(colour=250)) == 0
    assert difference(screen(), screen(colour=230)) == 1
    assert 0 < difference(screen(), screen(button=4)) <= DIFFERENT_MAX
    assert difference(screen(), screen(button=30)) > DIFFERENT_MAX
