"""`make pictures`: every state of every card as the page draws it on a phone, as docs/pictures/*.png."""

import asyncio
import io
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from PIL import Image
from playwright.async_api import Browser

from demo.page import Page
from demo.workspace import Workspace
from tests.bot.build_cards import NOW
from tests.bot.build_states import State
from tests.bot.card_states import STATES
from tests.demo.browser import NO_CHROMIUM, browser, chromium_path, opened
from tests.demo.build_workspace import CHANNEL, client_of

PICTURES = Path(__file__).parents[2] / "docs/pictures"
PHONE = {"viewport": {"width": 390, "height": 3000}, "device_scale_factor": 2, "color_scheme": "light"}
COLOURS = (24, 16, 12, 8)  # letters on plain grounds: more are not seen
LARGEST_BYTES = 58_000
HELD = "a compute process is listed: PID"  # the answer to /gpu-why


async def main() -> None:
    path = chromium_path()
    if path is None:
        sys.exit(NO_CHROMIUM)
    PICTURES.mkdir(exist_ok=True)
    async with browser(path) as started:
        for state in STATES:
            save(state.name, await picture(started, state))
        await of_the_demo(started)


async def picture(started: Browser, state: State) -> bytes:
    """Taken a minute after the newest of the past times on the card, whenever that really is."""
    message = state.draw()
    now = last_time(json.dumps(message.blocks)) + timedelta(minutes=1)
    async with Workspace(now=lambda: now) as workspace, Page(workspace).serving(0) as url:
        await client_of(workspace).chat_postMessage(channel=CHANNEL, text=message.text, blocks=message.blocks)
        async with opened(started, f"{url}#alice/{CHANNEL}", **PHONE) as tab:
            await tab.clock.set_fixed_time(now)
            await tab.reload()
            card = tab.get_by_role("article")
            await card.wait_for()
            return await card.screenshot()


def last_time(text: str) -> datetime:
    """As of which it speaks, or since when it is over."""
    times = re.findall(r"(?:As of|Over since|All over since) <!date\^(\d+)", text)
    return datetime.fromtimestamp(max(map(int, times)), UTC) if times else NOW


# --- the page itself, while the demo plays ----------------------------------------------------------------------------


async def of_the_demo(started: Browser) -> None:
    """The whole page, and on a phone an answer, a dialog and App Home."""
    command = [sys.executable, "-m", "demo", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        while not (found := re.search(rb"http://[\d.:]+", await process.stdout.readline())):
            continue
        url = found[0].decode()
        async with opened(started, url, viewport={"width": 1280, "height": 860}) as tab:
            await tab.get_by_text(HELD).first.wait_for(timeout=90_000)
            save("demo", await tab.screenshot())
            await tab.get_by_role("button", name="Pause").click()
        await on_a_phone(started, url)
    finally:
        process.terminate()
        await process.wait()


async def on_a_phone(started: Browser, url: str) -> None:
    phone = {**PHONE, "viewport": {"width": 390, "height": 700}}
    async with opened(started, f"{url}#alice/gpu-candidates", **phone) as tab:
        save("why", await tab.locator(".only-me").filter(has_text=HELD).last.screenshot())
        await tab.get_by_role("button", name="Snooze").click()
        await tab.get_by_label("4 hours").check()
        save("snooze", await tab.get_by_role("dialog").screenshot())
        await tab.get_by_role("button", name="Close", exact=True).click()
        await tab.get_by_role("button", name="Channels").click()
        await tab.get_by_role("button", name="gpu-oncall: Home").click()
        await tab.locator(".home .header").first.wait_for()
        save("home", await tab.locator(".home").screenshot())


def save(name: str, png: bytes) -> None:
    (PICTURES / f"{name}.png").write_bytes(small(png))


def small(png: bytes) -> bytes:
    """The same picture from a palette, with fewer colours where it would be large."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    for colours in COLOURS:
        out = io.BytesIO()
        picture.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() < LARGEST_BYTES:
            break
    return out.getvalue()


if __name__ == "__main__":
    asyncio.run(main())
