"""The page in a real browser, with an app that keeps what it gets: every element acts, by mouse and by keyboard."""

import asyncio
import re
from datetime import timedelta

import pytest

from demo.page.director import Director, Lever, Step
from tests.demo.build_workspace import (
    actions,
    button,
    client_of,
    confirm,
    modal,
    option,
    overflow,
    plain,
    section,
    text_input,
)
from tests.demo.hands import Hands
from tests.demo.kept_page import post, shown

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

ELEMENTS = [
    button("plain"),
    button("asks", "Reboot", style="danger", confirm=confirm()),
    button("label", "Acknowledge", style="primary", accessibility_label="Acknowledge gpu-07"),
    overflow(option("Why?", "why"), option("Not a stall…", "not"), action_id="menu"),
    {"type": "static_select", "action_id": "hours", "placeholder": plain("Hours"), "options": [option("4 h")]},
    {"type": "users_select", "action_id": "who", "placeholder": plain("Who")},
    {"type": "datepicker", "action_id": "day"},
]  # fmt: skip


async def test_everything_that_a_message_can_hold_acts_through_the_app(chromium):
    async with shown(chromium) as (app, tab, workspace):
        await post(workspace, actions(*ELEMENTS, block_id="acts"))
        await tab.get_by_role("button", name="Acknowledge", exact=True).click()
        assert (await app.action())["action_id"] == "plain"
        await tab.get_by_role("button", name="Acknowledge gpu-07").click()
        assert (await app.action())["action_id"] == "label"
        await tab.get_by_role("button", name="More actions").click()
        await tab.keyboard.press("ArrowDown")
        await tab.keyboard.press("Enter")
        assert (await app.action())["selected_option"]["value"] == "not"
        assert await tab.evaluate("document.activeElement.getAttribute('aria-label')") == "More actions"
        await tab.get_by_label("Hours").select_option("4 h")
        assert (await app.action())["selected_option"]["value"] == "4 h"
        await tab.get_by_label("Who").select_option("U0BOB")
        assert (await app.action())["selected_user"] == "U0BOB"
        await tab.get_by_label("datepicker").fill("2026-12-01")
        await tab.keyboard.press("Tab")
        assert (await app.action())["selected_date"] == "2026-12-01"


async def test_a_press_that_the_card_changes_under_is_still_one(chromium):
    """By hand it takes a tenth of a second from down to up; a card is drawn anew at any moment."""
    async with shown(chromium) as (app, tab, workspace):
        card = await post(workspace, actions(button("plain")))
        await tab.get_by_label("Message or /command").focus()
        await tab.get_by_role("button", name="Acknowledge").hover()
        for down, up, text in (
            (tab.mouse.down, tab.mouse.up, "by mouse"),
            (lambda: tab.keyboard.down("Space"), lambda: tab.keyboard.up("Space"), "by keyboard"),
        ):
            await down()
            blocks = [actions(button("plain")), section(text)]
            await client_of(workspace).chat_update(channel=card["channel"], ts=card["ts"], text=text, blocks=blocks)
            await tab.locator("#news").filter(has_text=text).wait_for(state="attached")  # told: the page knows of it
            await up()
            assert (await app.action())["action_id"] == "plain"
            await tab.get_by_role("article").get_by_text(text).wait_for()


async def test_a_dangerous_button_asks_and_no_means_that_nothing_is_sent(chromium):
    async with shown(chromium) as (app, tab, workspace):
        await post(workspace, actions(*ELEMENTS, block_id="acts"))
        reboot = tab.get_by_role("article").get_by_role("button", name="Reboot")
        await reboot.click()
        dialog = tab.get_by_role("alertdialog", name="Reboot?")
        await tab.keyboard.press("Enter")  # whoever presses twice by mistake says no
        await dialog.wait_for(state="hidden")
        assert app.got == []
        assert await tab.evaluate("document.activeElement.textContent") == "Reboot"
        await reboot.click()
        await tab.keyboard.press("Escape")
        await dialog.wait_for(state="hidden")
        await reboot.click()
        await dialog.get_by_role("button", name="Reboot").click()
        assert (await app.action())["action_id"] == "asks"
        assert app.got == []


def asks(block_id, label, kind, optional=True, **fields):
    element = {"type": kind, "action_id": block_id, **fields}
    return {"type": "input", "block_id": block_id, "label": plain(label), "optional": optional, "element": element}


HOURS = [option("1 h", "1h"), option("4 h", "4h")]
INPUTS = [
    text_input("reason", "reason", hint=plain("at most 200")),
    asks("more", "More", "plain_text_input", multiline=True),
    asks("length", "How long", "radio_buttons", optional=False, options=HOURS, initial_option=HOURS[0]),
    asks("gpus", "GPUs", "checkboxes", options=[option("GPU 0", "0"), option("GPU 1", "1")]),
    asks("node", "Node", "static_select", options=[option("gpu-01"), option("gpu-02")]),
    asks("count", "Count", "number_input", is_decimal_allowed=False),
    asks("day", "Day", "datepicker"),
    asks("people", "People", "multi_users_select"),
]


async def test_a_dialog_is_filled_in_refused_corrected_and_closed(chromium):
    async with shown(chromium) as (app, tab, workspace):
        await post(workspace, actions(button("open", "Snooze…"), block_id="acts"))
        app.view = modal(section("*gpu-07*"), *INPUTS)
        await tab.get_by_role("button", name="Snooze…").click()
        await app.next()
        dialog = tab.get_by_role("dialog", name="Snooze")
        await dialog.get_by_label("4 h").check()
        await dialog.get_by_label("GPU 1").check()
        await dialog.get_by_label("Node").select_option("gpu-02")
        await dialog.get_by_label("Count").fill("3")
        await dialog.get_by_label("Day").fill("2026-12-01")
        await dialog.get_by_label("People").select_option(["U0BOB", "U0CAROL"])
        await dialog.get_by_role("button", name="Snooze").click()
        await dialog.get_by_text("Please fill this in.").wait_for()  # Slack's own check: nothing was sent
        assert app.got == []
        assert await tab.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
        await dialog.get_by_label("Reason").fill("stuck <driver>")
        app.answer = {"response_action": "errors", "errors": {"reason": "Say it in other words"}}
        await tab.keyboard.press("Enter")
        await dialog.get_by_text("Say it in other words").wait_for()
        values = (await app.next())["view"]["state"]["values"]
        assert values["reason"]["reason"]["value"] == "stuck <driver>"
        assert values["length"]["length"]["selected_option"]["value"] == "4h"
        assert [one["value"] for one in values["gpus"]["gpus"]["selected_options"]] == ["1"]
        assert values["node"]["node"]["selected_option"]["value"] == "gpu-02"
        assert values["count"]["count"]["value"] == "3"
        assert values["day"]["day"]["selected_date"] == "2026-12-01"
        assert values["people"]["people"]["selected_users"] == ["U0BOB", "U0CAROL"]
        assert values["more"]["more"]["value"] is None
        app.answer = {"response_action": "update", "view": modal(section("Snoozed until 18:00"), submit=None)}
        await dialog.get_by_role("button", name="Snooze").click()
        await dialog.get_by_text("Snoozed until 18:00").wait_for()
        await tab.keyboard.press("Escape")
        await dialog.wait_for(state="hidden")
        assert await tab.evaluate("document.activeElement.textContent") == "Snooze…"


async def test_threads_answers_for_one_person_commands_and_home(chromium):
    async with shown(chromium) as (app, tab, workspace):
        card = await post(workspace, section("a card"))
        await post(workspace, section("changed"), thread_ts=card["ts"])
        await tab.get_by_role("button", name="1 reply").click()
        thread = tab.get_by_role("complementary", name="Thread")
        await thread.get_by_text("changed").wait_for()
        await thread.get_by_label("Reply in the thread").fill("I look at it")
        await tab.keyboard.press("Enter")
        await thread.get_by_text("I look at it").wait_for()
        await thread.get_by_label("Reply in the thread").fill("/gpu-status")
        await tab.keyboard.press("Enter")
        await tab.get_by_text("Slack takes no commands in threads").wait_for()
        await tab.keyboard.press("Escape")
        await thread.wait_for(state="hidden")
        box = tab.get_by_label("Message or /command")
        await box.fill("/gpu")
        await tab.get_by_role("option", name="/gpu-status [node]").wait_for()
        await tab.keyboard.press("ArrowDown")
        await tab.keyboard.press("Enter")
        assert await box.input_value() == "/gpu-status "
        await box.press_sequentially("gpu-07")
        await tab.keyboard.press("Enter")
        assert (await app.next())["text"] == "gpu-07"
        only = tab.locator(".only-me")
        await only.get_by_text("heard /gpu-status gpu-07").wait_for()
        await only.get_by_role("button", name="Dismiss").click()
        await only.wait_for(state="detached")
        await tab.get_by_role("button", name="Actions on the message").first.click()
        await tab.get_by_role("menuitem", name="Acknowledge GPU incident").click()
        assert (await app.next())["callback_id"] == "ack_message"
        await tab.get_by_role("button", name="gpu-oncall: Home").click()
        await tab.locator(".home").get_by_text("Fleet").wait_for()
        await app.next()
        await tab.locator(".home").get_by_role("button", name="Acknowledge").click()
        assert (await app.action())["action_id"] == "mine"


async def test_what_goes_wrong_is_told_and_heard(chromium):
    async with shown(chromium) as (_, tab, workspace):
        await post(workspace, actions(button()))
        workspace.sockets.ack_within = timedelta(seconds=0.1)
        workspace.sockets.swallow()
        await tab.get_by_role("button", name="Acknowledge").click()
        alert = tab.get_by_role("alert").filter(has_text="The app did not answer within 3 s")
        await alert.get_by_role("button", name="Close this message").click()
        await alert.wait_for(state="detached")


FOCUSED = "(({ariaLabel, textContent, id}) => (ariaLabel || textContent || id).trim())(document.activeElement)"


async def test_everything_is_reached_by_the_tab_key_from_top_to_bottom(chromium):
    async with shown(chromium) as (_, tab, workspace):
        await post(workspace, section("a card"), actions(button(), overflow(option("Why?"), option("Mine"))))
        await tab.get_by_role("button", name="Acknowledge").wait_for()
        reached = []
        while "Send" not in reached:
            await tab.keyboard.press("Tab")
            reached.append(await tab.evaluate(FOCUSED))
        names = ["Skip to the message box", "Theme: system", "# gpu-oncall", "# gpu-candidates", "gpu-oncall: Home"]
        names += ["Messages", "Acknowledge", "More actions", "box", "Send"]
        assert [one for one in reached if one in names] == names
        await Hands(workspace, tab).sound()


async def test_the_story_is_paused_pushed_and_changed_from_its_panel(chromium):
    happened, pulled = [], []
    steps = [
        Step("The nodes start", "look", lambda: True),
        Step("Alice acknowledges", "look here", lambda: bool(happened), lambda: act(), "gpu-candidates"),
    ]

    async def act():
        happened.append(True)

    def direct(workspace):
        lever = Lever("job", "gpu-03: a job", lambda: bool(pulled), ("Start", "End"), lambda: pulled.append(True))
        director = Director(workspace, steps, [lever], reading_seconds=60)
        tasks.append(asyncio.create_task(director.run()))
        return director

    tasks = []
    async with shown(chromium, direct) as (_, tab, workspace):
        story = tab.get_by_role("complementary", name="Story")
        await story.get_by_text(re.compile(r"\(done · \d+ s\)")).wait_for()
        await story.get_by_role("button", name="Pause").click()
        await story.get_by_role("button", name="Play").click()
        await story.get_by_label("Speed").select_option("fast")
        await Hands(workspace, tab).sound()
        await story.get_by_role("button", name="Start: gpu-03: a job").click()
        await story.get_by_role("button", name="End: gpu-03: a job").wait_for()
        await story.get_by_text("Paused, because you acted").wait_for()
        await story.get_by_role("button", name="Next step").click()
        await story.get_by_text("The story is over").wait_for()
        await tab.get_by_role("heading", name="# gpu-candidates").wait_for()  # it follows the story there
        await story.get_by_role("button", name="Close the story").click()
        await story.wait_for(state="hidden")
    await asyncio.gather(*tasks)
