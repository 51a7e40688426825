"""A restart and a reboot on the page, in a real browser: asked for, denied, approved and proved."""

from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from bot.advance import Advance, AdvanceSettings
from bot.fleet import Fleet
from bot.groups import Approvers, Group
from bot.judge.candidate import CandidateRule
from bot.manifest import manifest
from bot.order_key import public_order_key
from bot.remedy.model import State
from bot.render.words import words
from bot.store.migrate import migrate
from bot.store.writer import Store
from demo.page import Page
from tests.bot.remedy_bot import NODE, Node, RemedyBot
from tests.demo.browser import browser, opened, patient_workspace, require_chromium
from tests.demo.hands import Hands
from tests.nats_server import NatsServer, connected
from wire.remedies import AutoRemedy, OrderState

pytestmark = pytest.mark.timeout(180)
NONE = timedelta(0)
WHY = "it hangs since midnight"


@asynccontextmanager
async def with_a_stall(folder, policy=AutoRemedy.OFF):
    """(bot, node, hands): alice looks at the card of a stalled runner, on a real bus; both configs have the policy."""
    path = require_chromium()
    store, fleet = Store(f"sqlite:///{folder}/bot.db"), Fleet(CandidateRule())
    migrate(store.engine)
    group = Group("default", ["*"], approvers=Approvers(users=["U0ALICE", "U0BOB"]), auto_remedy=policy.value)
    advance = Advance(store, fleet, AdvanceSettings(NONE, NONE, False, groups=[group]))
    await advance.start()
    bus = NatsServer(folder / "nats", [NODE])
    features = manifest(words("en"))["features"]
    async with bus, bus.bot() as link, connected(bus.node_link(NODE)) as node_link, patient_workspace() as workspace:
        bot = RemedyBot(store, fleet, advance, workspace, link, folder)
        bot.start()
        bot.carry()
        try:
            node = Node(node_link, fleet, public_order_key(folder))
            await node.listen()
            if policy is not AutoRemedy.OFF:
                node.remedies |= {"auto_remedy": policy, "policy_line": f"auto_remedy: {policy}"}
                node.others = []
            await workspace.until_connected(sockets=2, seconds=30)
            await bot.look(node, 3)
            page = Page(workspace, features["slash_commands"], features["shortcuts"])
            async with page.serving(0) as url, browser(path) as started, opened(started, f"{url}#alice") as tab:
                yield bot, node, Hands(workspace, tab)
                assert tab.problems == []
        finally:
            await bot.stop()
            store.close()


async def ask_for(hands, entry, title, **values):
    await hands.pick(hands.card("STALL"), entry)
    await hands.fill_in(title, "Ask for approval", **{"Why?": WHY, **values})


async def approve(hands, card):
    """Slack asks first, and the first Enter means no."""
    await card.get_by_role("button", name="Approve").click()
    dialog = hands.tab.get_by_role("alertdialog")
    await dialog.wait_for()
    await hands.sound()
    await hands.tab.keyboard.press("Enter")
    await dialog.wait_for(state="hidden")
    await card.get_by_role("button", name="Approve").click()
    await hands.acked(dialog.get_by_role("button", name="Approve").click())


async def test_a_restart_is_denied_and_a_reboot_is_approved_and_proved_on_the_page(tmp_path):
    async with with_a_stall(tmp_path) as (bot, node, hands):
        await ask_for(hands, "Restart runner…", "Restart the runner")
        wanted = hands.card("APPROVAL WANTED")
        await wanted.get_by_text("What will be killed").wait_for()
        await hands.sound()
        await hands.tab.get_by_label("Act as").select_option("bob")  # whose App Home has what he may decide
        await hands.go("gpu-oncall: Home")
        await hands.press(hands.tab.locator(".home"), "Deny")
        await hands.go("# gpu-oncall")
        await hands.card("was denied").wait_for()
        assert node.orders == []

        await hands.tab.get_by_label("Act as").select_option("alice")
        await hands.tab.get_by_text("Times in Alice").wait_for()
        await hands.type("/gpu-reboot", NODE)  # the evidence is not enough for an entry in the card's menu
        dialog = hands.tab.get_by_role("dialog", name="Reboot the node")
        await dialog.get_by_label("Why?").wait_for()
        for box in await dialog.get_by_role("checkbox").all():
            await box.check()
        named = {f"Type {NODE} to be sure": NODE}
        await hands.fill_in("Reboot the node", "Ask for approval", **{"Why?": WHY, **named})
        await hands.tab.get_by_label("Act as").select_option("bob")
        await approve(hands, hands.card("APPROVAL WANTED"))
        await bot.until_state(State.ACCEPTED)
        (order,) = node.orders
        assert order.approvers == ["U0BOB"]
        await hands.card("UNDER WAY").get_by_text("Open: real work gets done").wait_for()
        node.rebooted()
        node.works = True
        node.says(OrderState.DONE)
        await bot.look(node, 3)
        await hands.card("DONE").get_by_text("Done: real work gets done").wait_for()


async def test_a_policys_countdown_is_stopped_on_the_page(tmp_path):
    async with with_a_stall(tmp_path, AutoRemedy.RESTART_THEN_REBOOT) as (_, node, hands):
        await hands.press(hands.card("COUNTDOWN"), "Stop")
        await hands.card("was stopped").get_by_text("Stopped by").wait_for()
        assert node.orders == []
