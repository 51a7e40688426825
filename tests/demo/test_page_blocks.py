"""The page in a real browser: every block is drawn as Slack does, and nothing foreign is markup."""

import base64

import pytest

from tests.demo.build_workspace import CHANNEL, actions, button, client_of, mrkdwn, plain, section
from tests.demo.kept_page import post, shown

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]
EVIL = '<img src=x onerror="document.title=1"><script>document.title=1</script>'
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="
)
AT = 1700017200  # 2023-11-15 03:00 UTC
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
