"""Ten thousand free GPUs at once: what people ask is answered within Slack's limits, and holds nothing up."""

import asyncio

import pytest

from bot import clock
from bot.judge.track import observed
from bot.render.words import words
from bot.slack.claiming import Claiming
from bot.slack.claims import Claims
from bot.slack.commands import Caller, Commands
from bot.slack.queries import Queries
from bot.store import windows
from tests.bot.any_input import assert_fits_and_is_harmless
from tests.bot.outward import LAST, C
from tests.build import FIRST_WINDOW, heartbeat, observation
from wire.messages import encode

NODES, GPUS = 1250, 8
VERDICTS = (C,) * GPUS


@pytest.fixture
async def commands(store, fleet, advance):
    rows = []
    for number in range(NODES):
        node, track = f"gpu-{number:04}", None
        for window in range(3):
            one = observation(FIRST_WINDOW + window, VERDICTS, node=node)
            track = observed(track, one)
        fleet.tracks[node] = track
        fleet.heard(heartbeat(LAST, VERDICTS, node=node))
        rows.append(windows.window_row(one, encode(one), clock.now()))
    await store.write(lambda transaction: windows.add_windows(transaction.connection, rows))
    language = words("en")
    queries = Queries(store, fleet, advance, language)
    claims = Claims(store, fleet, advance, clock.now().tzinfo, lambda: None)
    claiming = Claiming(claims, queries, language, clock.now().tzinfo, None)
    return Commands(queries, advance, language, clock.now().tzinfo, lambda: None, claiming, None)


async def test_ten_thousand_candidates_are_answered_within_slacks_limits_and_meanwhile_others_are_served(commands):
    served = 0

    async def others():
        nonlocal served
        while True:
            await asyncio.sleep(0)
            served += 1

    beside = asyncio.create_task(others())
    for name in ("/gpu-candidates", "/gpu-status", "/gpu-incidents"):
        answer = await commands.answer(name, "", Caller("U0ALICE"))
        assert answer.understood
        assert_fits_and_is_harmless(answer.message)
    beside.cancel()
    assert served > NODES
    shown = (await commands.answer("/gpu-candidates", "", Caller("U0ALICE"))).message
    assert shown.text.startswith(f"*{NODES * GPUS} GPUs free now* ({NODES} nodes)")
    assert "more: ask for one node" in str(shown.blocks)
