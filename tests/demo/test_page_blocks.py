"""The page in a real browser, with an app that keeps what it gets: every block is drawn, every element acts."""

import asyncio
import base64
import re
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import pytest
import pytest_asyncio

from demo.page import Page
from demo.page.director import Director, Lever, Step
from tests.demo.browser import browser, opened, patient_workspace, require_chromium
from tests.demo.build_workspace import (
    CHANNEL,
    actions,
    app_of,
    button,
    client_of,
    confirm,
    connected,
    home,
    modal,
    mrkdwn,
    option,
    overflow,
    plain,
    section,
    text_input,
)
from tests.demo.hands import Hands

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]
EVIL = '<img src=x onerror="document.title=1"><script>document.title=1</script>'
COMMANDS = [{"command": "/gpu-status", "description": "how it is", "usage_hint": "[node]"}]
SHORTCUTS = [{"name": "Acknowledge GPU incident", "callback_id": "ack_message"}]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="
)
AT = 1700017200  # 2023-11-15 03:00 UTC


class Kept:
    """An app that opens `view` for a press, answers submissions with `answer`, and keeps every payload."""

    def __init__(self, workspace):
        self.workspace, self.got, self.view, self.answer = workspace, [], None, {}
        self.app = app_of(workspace)
        everything = re.compile(".*", re.DOTALL)
        for listen in (self.app.action, self.app.view, self.app.shortcut, self.app.view_closed):
            listen(everything)(self.take)
        self.app.command(everything)(self.command)
        self.app.event("app_home_opened")(self.take_home)

    async def take(self, ack, body, client):
        await ack(**(self.answer if body["type"] == "view_submission" else {}))
        if self.view and body["type"] == "block_actions":
            view, self.view = self.view, None
            await client.views_open(trigger_id=body["trigger_id"], view=view)
        self.keep(body)

    async def command(self, ack, body, respond):
        await ack()
        await respond(text=f"heard {body['command']} {body['text']}")
        self.keep(body)

    async def take_home(self, ack, body, client):
        await ack()
        await client.views_publish(
            user_id=body["event"]["user"], view=home(section("*Fleet*"), actions(button("mine")))
        )
        self.keep(body)

    def keep(self, body):
        self.got.append(body)
        self.workspace.changed()

    async def next(self):
        """The next payload that nobody has asked for yet."""
        await self.workspace.until(lambda: self.got, seconds=20)
        return self.got.pop(0)

    async def action(self):
        (action,) = (await self.next())["actions"]
        return action


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium():
    """One for all tests of this file: a start takes a second."""
    async with browser(require_chromium()) as started:
        yield started


@asynccontextmanager
async def shown(chromium, direct=lambda workspace: None, **options):
    """(app, tab, workspace): the page as alice sees it, in #gpu-oncall. `direct` makes its story."""
    async with AsyncExitStack() as stack:
        workspace = await stack.enter_async_context(patient_workspace())
        page = Page(workspace, COMMANDS, SHORTCUTS, direct(workspace))
        url = await stack.enter_async_context(page.serving(0))
        kept, start = Kept(workspace), f"{url}#alice/{CHANNEL}"
        async with connected(workspace, kept.app, sockets=1), opened(chromium, start, **options) as tab:
            await tab.get_by_role("heading", name="# gpu-oncall").wait_for()
            yield kept, tab, workspace
            assert tab.problems == []


async def post(workspace, *blocks, **fields):
    return await client_of(workspace).chat_postMessage(channel=CHANNEL, text="card", blocks=list(blocks), **fields)


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


TEXT = (
    "*bold* _it_ ~gone~ `code *x*` <@U0BOB> <@U0ALICE> <#C0IDLE> <!subteam^S0ADMINS> <!here> "
    f"<!date^{AT}^{{date_short_pretty}} {{time}}|2023-11-15 03:00 UTC> <https://example.org/a|a page> "
    "<javascript:alert(1)|not a link> 2*3*4 a_b_c &lt;b&gt; &amp;lt;\n&gt; quoted\n```pre *x*\n  &lt;y&gt;```\nend"
)
TABLE = {
    "type": "table",
    "rows": [[{"type": "raw_text", "text": one} for one in row] for row in (["Node", "GPUs"], ["gpu-01", EVIL])],
}
PARTS = [
    {"type": "text", "text": "rich", "style": {"bold": True}},
    {"type": "user", "user_id": "U0BOB"},
    {"type": "link", "url": "https://example.org/b", "text": "b"},
]
SECTION = {"type": "rich_text_section", "elements": PARTS}
BLOCKS = [
    {"type": "header", "text": plain(f"HEAD {EVIL}")},
    section(TEXT),
    {"type": "section", "fields": [mrkdwn("*Node*\ngpu-07"), mrkdwn(f"*Evil*\n{EVIL}")]},
    {"type": "section", "text": mrkdwn("with a button"), "accessory": button("side", "Side")},
    {"type": "divider"},
    {"type": "context", "elements": [mrkdwn("as of *now*"), plain("*plain*")]},
    TABLE,
    {"type": "rich_text", "elements": [SECTION, {"type": "rich_text_list", "style": "bullet", "elements": [SECTION]}]},
    {"type": "image", "image_url": "https://example.org/x.png", "alt_text": "from outside"},
    {"type": "markdown", "text": "# not drawn as a heading"},
]  # fmt: skip


DRAWN = "node => [...node.querySelectorAll('strong, em, s, code, a, .mention, time')].map(n => `${n.tagName} ${n.textContent}`)"  # noqa: E501


async def test_text_is_drawn_as_slack_does_and_nothing_foreign_is_markup(chromium):
    async with shown(chromium, timezone_id="Asia/Tokyo") as (_, tab, workspace):
        await post(workspace, *BLOCKS)
        await client_of(workspace).chat_postMessage(channel=CHANNEL, text=EVIL)
        message = tab.get_by_role("article").first
        text = message.locator(".text").first
        assert await text.evaluate(DRAWN) == [
            "STRONG bold", "EM it", "S gone", "CODE code *x*", "SPAN @bob", "SPAN @alice", "SPAN #gpu-candidates",
            "SPAN @gpu-admins", "SPAN @here", "TIME Nov 15, 2023 03:00", "A a page",
        ]  # fmt: skip
        assert await text.locator(".mine").all_inner_texts() == ["@alice", "@here"]
        inner = await text.inner_text()
        assert "not a link (javascript:alert(1)) 2*3*4 a_b_c <b> &lt;" in inner
        assert await text.locator("blockquote").inner_text() == "quoted"
        assert await text.locator("pre").inner_text() == "pre *x*\n  <y>"
        assert await message.get_by_role("heading", name="HEAD").inner_text() == f"HEAD {EVIL}"
        assert await message.get_by_role("cell", name="<img").inner_text() == EVIL
        assert await tab.locator("article img, article script").count() == 0
        assert await tab.title() == "gpu-oncall demo"
        assert await tab.get_by_role("img", name="from outside").count() == 1
        await tab.get_by_label("Act as").select_option("bob")  # in Tokyo it is noon
        await tab.get_by_role("article").get_by_text("Nov 15, 2023 12:00").wait_for()


HOSTILE = [
    *["<!channel>", "<http://evil.example|here>", "<javascript:alert(1)|x>", "<data:text/html,<b>|x>"],
    *["<@U0NOBODY|<b>>", "`</code><img src=x>`", "*<b>*", "```<script>1</script>```", "&lt;img&gt;"],
    *["\u202egnp.exe", "a\nb\r\n> c", "<", "<>", "{{x}}", ":fire:", "<" * 500, "*" * 500],
    *["<!date^99999999999999^{time}|never>", "<!date^x^{time}|never>", "<!date^1>"],
    "<!date^1^{date} {unknown}^javascript:alert(1)|x>",
]
FOREIGN = "document.querySelectorAll('article :is(script, img, b, iframe), article a:not([href^=http])').length"


async def test_hostile_words_and_a_time_zone_that_there_is_not_break_nothing(chromium):
    async with shown(chromium) as (_, tab, workspace):
        workspace.user("alice").tz = "Nowhere/Land"
        for words in HOSTILE:
            block = {"type": "section", "text": {"type": "mrkdwn", "text": words}}
            await client_of(workspace).chat_postMessage(channel=CHANNEL, text=words, blocks=[block])
        await client_of(workspace).chat_postMessage(channel=CHANNEL, text="the last one")
        await tab.get_by_text("the last one", exact=True).wait_for()
        assert await tab.get_by_role("article").count() == len(HOSTILE) + 1
        assert await tab.evaluate(FOREIGN) == 0


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


async def test_the_focus_stays_on_a_button_whose_card_is_edited_and_the_edit_is_told(chromium):
    async with shown(chromium) as (_, tab, workspace):
        card = await post(workspace, section("first"), actions(button("ack"), button("snooze", "Snooze…")))
        await tab.get_by_role("button", name="Snooze…").focus()
        after = [section("second"), actions(button("snooze", "Snooze…"))]
        text = "OVER gpu-07: *all* in use"
        await client_of(workspace).chat_update(channel=CHANNEL, ts=card["ts"], text=text, blocks=after)
        await tab.get_by_text("second").wait_for()
        assert await tab.evaluate("document.activeElement.textContent") == "Snooze…"
        assert await tab.get_by_role("status").first.inner_text() == "#gpu-oncall: OVER gpu-07: all in use"


async def test_an_uploaded_picture_is_shown_with_its_words_and_another_file_is_only_offered(chromium):
    async with shown(chromium) as (_, tab, workspace):
        client = client_of(workspace)
        await client.files_upload_v2(
            channel=CHANNEL, content=PNG, filename="heat.png", alt_txt="GPU 3 is idle at night"
        )
        await client.files_upload_v2(channel=CHANNEL, content=b"<svg onload=alert(1)>", filename="heat.svg")
        picture = tab.get_by_role("img", name="GPU 3 is idle at night")
        await picture.wait_for()
        await tab.wait_for_function("document.querySelector('figure img').naturalWidth === 2")
        await tab.get_by_role("link", name="heat.svg").wait_for()
        assert await tab.locator("article img").count() == 1


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
        await story.get_by_text("(done · 0 s)").wait_for()
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
