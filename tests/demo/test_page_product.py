"""The whole product on the page, in a real browser: every button, menu entry, dialog and command is pressed."""

from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from axe_playwright_python.async_playwright import Axe

from bot import clock
from bot.advance import Advance, AdvanceSettings
from bot.fleet import Fleet
from bot.groups import Group
from bot.judge.candidate import CandidateRule
from bot.judge.verdict import Presence
from bot.manifest import manifest
from bot.render.words import words
from bot.slack.commands import COMMANDS
from bot.store.migrate import migrate
from bot.store.writer import Store
from demo.page import Page
from demo.workspace import Workspace
from demo.workspace.elements import placed_elements
from tests.bot.outward import C, sent
from tests.bot.slack_bot import SlackBot
from tests.build import FIRST_WINDOW, heartbeat, observation
from tests.build_ticks import hung
from tests.demo.browser import browser, opened, require_chromium

pytestmark = pytest.mark.timeout(180)
PERIOD = timedelta(0)
NODES = [f"gpu-{number:03}" for number in range(70)]
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
    async with Workspace(rate_limits=False) as workspace:
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


class Hands:
    """Presses as a person does, and waits until the app has got it."""

    def __init__(self, workspace, tab):
        self.workspace, self.tab = workspace, tab

    async def acked(self, deed):
        """Does it, and waits for the envelope that it leads to."""
        known = len(self.workspace.sockets.envelopes)
        await deed
        await self.workspace.until(lambda: len(self.workspace.sockets.envelopes) > known, seconds=20)
        envelope = self.workspace.sockets.envelopes[known]
        await self.workspace.until(lambda: envelope.acked_at or envelope.failure, seconds=20)
        assert envelope.failure is None

    async def sound(self):
        """No finding of axe-core that it calls serious, or even moderate."""
        found = (await Axe().run(self.tab)).response["violations"]
        assert [(one["id"], one["impact"], [_finding(node) for node in one["nodes"]]) for one in found] == []

    async def go(self, channel):
        await self.tab.get_by_role("navigation").get_by_role("button", name=channel).click()
        await self.tab.get_by_role("heading", name=channel, exact=False).first.wait_for()

    def card(self, words):
        return self.tab.get_by_role("article").filter(has=self.tab.get_by_role("heading", name=words)).last

    async def press(self, card, words):
        await self.acked(card.get_by_role("button", name=words).click())

    async def pick(self, card, entry):
        await card.get_by_role("button", name="More actions").click()
        await self.acked(self.tab.get_by_role("menuitem", name=entry).click())

    async def fill_in(self, title, submit, **values):
        """The dialog: fills in by label, submits, reads the outcome, and closes it."""
        dialog = self.tab.get_by_role("dialog", name=title)
        button = dialog.get_by_role("button", name=submit, exact=True)
        await button.wait_for()
        await self.sound()
        for label, value in values.items():
            field = dialog.get_by_label(label)
            await (field.check() if value is True else field.fill(value))
        await self.acked(button.click())
        await button.wait_for(state="hidden")
        await dialog.get_by_role("button", name="Close", exact=True).click()
        await dialog.wait_for(state="hidden")

    async def answered(self, words):
        await self.tab.locator(".only-me").filter(has_text=words).last.wait_for()

    async def type(self, command, words):
        known = len(self.workspace.ephemerals)
        box = self.tab.get_by_label("Message or /command")
        await box.fill(f"{command} {words}".strip())
        await box.press("Escape")
        await self.acked(box.press("Enter"))
        await self.workspace.until(lambda: len(self.workspace.ephemerals) > known, seconds=20)


def _finding(node):
    """What it is, and for colours their contrast."""
    reasons = [check["message"] for kind in ("any", "all", "none") for check in node[kind]]
    return node["html"], reasons


def pressed(workspace):
    """action ids, and for menus the entry."""
    bodies = [one.payload for one in workspace.sockets.envelopes if one.payload.get("type") == "block_actions"]
    return {_what(action["action_id"], action.get("selected_option")) for body in bodies for action in body["actions"]}


def shown(workspace):
    """The same of everything that people could have pressed at any time."""
    messages = [one for channel in workspace.channels.values() for one in channel.messages.values()]
    drawings = [version.blocks for one in [*messages, *workspace.ephemerals] for version in one.versions]
    drawings += [version["blocks"] for view in workspace.views.values() for version in view.versions]
    elements = [placed for blocks in drawings for placed in placed_elements(blocks) if placed.block["type"] != "input"]
    return {
        _what(placed.action_id, option)
        for placed in elements
        for option in (placed.element["options"] if placed.element["type"] == "overflow" else [None])
    }


def _what(action_id, option):
    return f"{action_id}/{option['value'].partition(':')[0]}" if option else action_id


async def free(bot, node, number=FIRST_WINDOW):
    bot.fleet.heard(heartbeat(number + 2, (C,), node=node))
    await bot.report(*(observation(number + index, (C,), node=node) for index in range(3)))


async def test_every_button_menu_entry_dialog_and_command_works_on_the_page(tmp_path):
    async with product(tmp_path) as (bot, workspace, tab):
        hands = Hands(workspace, tab)
        await the_candidate_card(bot, hands)
        await the_stall_card(bot, hands)
        await the_card_for_many(bot, hands)
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
        await free(bot, node)
    await hands.go("# gpu-candidates")
    card = hands.card("GPUs on")
    await hands.press(card, "Show all")
    dialog = hands.tab.get_by_role("dialog")
    await dialog.get_by_text(NODES[-1]).first.wait_for()
    await hands.sound()
    await hands.tab.keyboard.press("Escape")
    await dialog.wait_for(state="hidden")


async def every_command(hands):
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
