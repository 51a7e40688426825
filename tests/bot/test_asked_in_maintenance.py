"""Somebody who asks for a free GPU is told that its node is in maintenance, where it may be rebooted at any moment."""

from datetime import UTC, timedelta

import pytest

from bot import clock
from bot.advance import Advance, AdvanceSettings
from bot.ingest import Arrived, Ingest
from bot.maintenance import MaintenanceWindow
from bot.render.words import words
from bot.slack.commands import Caller, Commands
from bot.slack.queries import Queries
from tests.bot.outward import LAST, C
from tests.build import FIRST_WINDOW, START, heartbeat, observation
from wire.messages import encode

UNTIL = (clock.now() + timedelta(hours=2)).replace(tzinfo=None, microsecond=0)
VERDICTS = (C, C)


@pytest.fixture
async def commands(store, fleet):
    """gpu-01 is in maintenance, gpu-02 is not; all their GPUs are idle."""
    calendar = [MaintenanceWindow(nodes=("gpu-01",), until=UNTIL, reason="new driver")]
    advance = Advance(store, fleet, AdvanceSettings(timedelta(0), timedelta(0), shadow=False, calendar=calendar))
    ingest = Ingest(store, fleet, advance)
    for node in ("gpu-01", "gpu-02"):
        fleet.heard(heartbeat(LAST, VERDICTS, node=node))
        for number in range(3):
            body = encode(observation(FIRST_WINDOW + number, VERDICTS, node=node))
            await ingest.take("OBS", START, [Arrived(f"gpuoncall.obs.{node}", 1, body)])
    return Commands(Queries(store, fleet, advance, words("en")), advance, words("en"), UTC, lambda: None, None, None)


async def said(commands, name, text=""):
    answer = await commands.answer(name, text, Caller("U0ALICE"))
    assert answer.understood
    return answer.message.text


async def test_what_idles_in_maintenance_is_not_offered_as_free(commands):
    text = await said(commands, "/gpu-candidates")
    assert text.startswith("*2 GPUs free now* (2 nodes)\nIdle, but in maintenance: 2\n")
    until = f"{UNTIL:%Y-%m-%d %H:%M} UTC"
    assert f"gpu-01 GPU 0: idle for 15 min, in maintenance until {until}" in text
    assert "gpu-02 GPU 0: free for 15 min" in text


async def test_the_status_of_a_node_says_that_it_is_in_maintenance(commands):
    text = await said(commands, "/gpu-status", "gpu-01")
    assert "In maintenance until" in text
    assert text.startswith("*gpu-01*: 0 GPUs free now, 0 in use, 0 not known\n")
    assert "in maintenance until" in await said(commands, "/gpu-status")
    assert "maintenance" not in await said(commands, "/gpu-status", "gpu-02")
