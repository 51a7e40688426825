"""The whole product on the page, in a real browser: every button, menu entry, dialog and command is pressed."""

from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from bot import clock
from bot.advance import Advance, AdvanceSettings
from bot.claims import Claim
from bot.fleet import Fleet
from bot.groups import Group
from bot.ingest import Arrived
from bot.judge.candidate import CandidateRule
from bot.judge.verdict import Presence
from bot.manifest import manifest
from bot.render.words import words
from bot.slack.commands import COMMANDS
from bot.store import claims
from bot.store.migrate import migrate
from bot.store.writer import Store
from demo.page import Page
from tests.bot.outward import C, sent
from tests.bot.slack_bot import SlackBot
from tests.build import FIRST_WINDOW, START, gpu_uuid, heartbeat, observation
from tests.build_ticks import hung
from tests.demo.browser import browser, opened, patient_workspace, require_chromium
from tests.demo.hands import Hands, pressed, shown
from wire.messages import encode

pytestmark = pytest.mark.timeout(180)
PERIOD, HOUR = timedelta(0), timedelta(hours=1)
NODES = [f"gpu-{number:03}" for number in range(66)]
TYPED = {
    "/gpu-why": "gpu-01 0",
    "/gpu-snooze": "gpu-01 1h a new “driver”",
    "/gpu-status": "gpu-01",
    "/gpu-incidents": "mine",
}


@asynccontextmanager
async def product(folder):
    """(bot, workspace, tab): the bot with both halves, and its page as alice sees it."""
    path = require_chromium()
    store, fleet = Store(f"sqlite:///{folder}/bot.db"), Fleet(CandidateRule())
    migrate(store.engine)
    groups = [Group("all", ["*"], on_call=["U0ALICE"])]
    advance = Advance(store, fleet, AdvanceSettings(PERIOD, PERIOD, shadow=False, groups=groups))
    features = manifest(words("en"))["features"]
    async with patient_workspace() as workspace:
        bot = SlackBot(store, fleet, advance, workspace)
        bot.start()
        page = Page(workspace, features["slash_commands"], features["shortcuts"])
        try:
            await workspace.until_connected(sockets=2, seconds=20)
            async with page.serving(0) as url, browser(path) as started, opened(started, f"{url}#alice") as tab:
                await tab.get_by_role("heading", name="# gpu-oncall").wait_for()
                yield bot, workspace, tab
                assert tab.problems == []
        finally:
            await bot.stop()
            store.close()


async def free(bot, node, number=FIRST_WINDOW):
    bot.fleet.heard(heartbeat(number + 2, (C,), node=node))
    await bot.report(*(observation(number + index, (C,), node=node) for index in range(3)))


async def test_every_button_menu_entry_dialog_and_command_works_on_the_page(tmp_path):
    async with product(tmp_path) as (bot, workspace, tab):
        hands = Hands(workspace, tab)
        await the_candidate_card(bot, hands)
        await the_stall_card(bot, hands)
        await the_card_for_many(bot, hands)
        await the_claims(bot, hands)
        await every_command(hands)
        await the_shortcut_and_the_home(bot, hands)
        assert shown(workspace) - pressed(workspace) == set(), "press these in this test, too"
        assert [one.failure for one in workspace.sockets.envelopes if one.failure] == []


async def the_candidate_card(bot, hands):
    await free(bot, "gpu-01")
    await sent(bot)
    await hands.go("# gpu-candidates")
    card = hands.card("FREE gpu-01")
    await hands.press(card, "Acknowledge")
    await card.get_by_text("Acknowledged by").wait_for()
    await hands.answered("Acknowledged. The card shows it to everybody")
    await hands.press(card, "Snooze gpu-01")
    await hands.fill_in("Snooze", "Snooze", **{"4 hours": True, "Why?": "a *new* driver"})
    await card.get_by_text("Snoozed by").wait_for()
    await hands.press(card, "End snooze")
    await hands.sound()
    await hands.pick(card, "Why?")
    await hands.pick(card, "It was in use")
    await hands.press(hands.card("SAID TO BE IN USE gpu-01"), "Why?")  # now the only entry, and so a button


async def the_stall_card(bot, hands):
    bot.fleet.heard(heartbeat(FIRST_WINDOW, [], node="gpu-07", runners=[hung(at_minutes=0)], sent_at=clock.now()))
    await bot.found()
    await sent(bot)
    await hands.go("# gpu-oncall")
    card = hands.card("gpu-07 chat")
    await hands.press(card, "Acknowledge")
    await hands.pick(card, "Evidence")
    await hands.answered("gpu-07 chat")
    await hands.pick(card, "Not a stall…")
    await hands.fill_in("Not a stall", "Not a stall", **{"Why?": "it reads a long prompt"})
    await hands.tab.get_by_text("it reads a long prompt").first.wait_for()
    await hands.press(card, "Evidence")


async def the_card_for_many(bot, hands):
    for node in NODES:
        bot.fleet.heard(heartbeat(FIRST_WINDOW + 2, (C,), node=node))
    idle = [observation(FIRST_WINDOW + index, (C,), node=node) for node in NODES for index in range(3)]
    chunk = [Arrived(f"gpuoncall.obs.{one.node}", number, encode(one)) for number, one in enumerate(idle, 100)]
    await bot.ingest.take("OBS", START, chunk)
    await hands.go("# gpu-candidates")
    card = hands.card("GPUs on")
    await hands.press(card, "Show all")
    dialog = hands.tab.get_by_role("dialog")
    await dialog.get_by_text(NODES[-1]).first.wait_for()
    await hands.sound()
    await hands.tab.keyboard.press("Escape")
    await dialog.wait_for(state="hidden")


async def the_claims(bot, hands):
    """One from a card's menu, and three that are about to end: the holder is asked about each in a direct message."""
    await hands.pick(hands.card("FREE gpu-002"), "Claim…")
    await hands.fill_in("Claim", "Claim", **{"Why?": "tuning"})
    await three_questions(bot, hands)


async def three_questions(bot, hands):
    """Claims that are about to end: the holder is asked about each in a direct message."""
    now = clock.now()
    for index in range(3):
        new = Claim("gpu-01", gpu_uuid(index), index, "U0ALICE", now - 2 * HOUR, now + HOUR / 12, "tuning")
        bot.fleet.note_claim(
            await bot.store.write(lambda transaction, new=new: claims.add(transaction.connection, new))
        )
    await bot.claims.look()
    await hands.go("gpu-oncall: messages")
    for index, answer in enumerate(("Keep 4 h", "Until tomorrow", "Release")):
        question = hands.tab.get_by_role("article").filter(has_text=f"GPU {index}")
        await hands.press(question, answer)
        await question.get_by_role("button", name=answer).wait_for(state="hidden")


async def every_command(hands):
    await hands.go("# gpu-oncall")
    for command in COMMANDS:
        await hands.type(command, TYPED.get(command, ""))


async def the_shortcut_and_the_home(bot, hands):
    await bot.found(subject="gpu-08/chat")
    await sent(bot)
    await hands.go("gpu-oncall: Home")
    await hands.sound()
    await hands.press(hands.tab.locator(".home"), "Acknowledge")
    await bot.found(subject="gpu-09/chat")
    await sent(bot)
    await hands.go("# gpu-oncall")
    await hands.tab.get_by_role("button", name="Actions on the message").last.click()
    await hands.acked(hands.tab.get_by_role("menuitem", name="Acknowledge").click())
    await bot.found(Presence.ABSENT, subject="gpu-09/chat")
    await hands.card("RECOVERED").wait_for()
    await hands.card("RECOVERED").get_by_role("button", name="repl").click()
    await hands.tab.get_by_role("complementary", name="Thread").get_by_text("Recovered", exact=True).wait_for()
    await in_the_dark_and_on_a_phone(hands)
    await hands.tab.keyboard.press("Escape")


async def in_the_dark_and_on_a_phone(hands):
    await hands.sound()
    await hands.tab.emulate_media(color_scheme="dark")
    await hands.sound()
    await hands.tab.set_viewport_size({"width": 360, "height": 740})
    await hands.sound()
    await hands.tab.keyboard.press("Escape")
    await hands.sound()
    assert await hands.tab.evaluate("document.documentElement.scrollWidth") == 360  # nothing is cut off at the side
    wide = (
        "[...document.querySelectorAll('#messages *')].filter(n => !n.closest('.table') && n.scrollWidth > 361).length"
    )
    assert await hands.tab.evaluate(wide) == 0
