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
from tests.bot.card_states import STATES, State
from tests.demo.browser import NO_CHROMIUM, browser, chromium_path, opened
from tests.demo.build_workspace import CHANNEL, client_of

PICTURES = Path(__file__).parents[2] / "docs/pictures"
PHONE = {"viewport": {"width": 390, "height": 3000}, "device_scale_factor": 2, "color_scheme": "light"}
COLOURS = 24  # letters on plain grounds: more are not seen


async def main() -> None:
    path = chromium_path()
    if path is None:
        sys.exit(NO_CHROMIUM)
    PICTURES.mkdir(exist_ok=True)
    async with browser(path) as started:
        for state in STATES:
            (PICTURES / f"{state.name}.png").write_bytes(small(await picture(started, state)))


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


def small(png: bytes) -> bytes:
    """The same picture from a palette."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()


if __name__ == "__main__":
    asyncio.run(main())
