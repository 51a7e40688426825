"""Messages and views as plain text."""

from datetime import UTC, datetime

from demo.workspace.state import Channel, Ephemeral, Message, Version, View
from demo.workspace.transcript import (
    blocks_lines,
    channel_transcript,
    ephemeral_transcript,
    message_transcript,
    plain,
    view_transcript,
)
from tests.demo.build_workspace import actions, button, confirm, modal, mrkdwn, option, overflow, section, text_input
from tests.demo.build_workspace import plain as plain_text

AT = datetime(2026, 11, 30, 10, 42, 5, tzinfo=UTC)
NAMES = {"U0BOT": "gpu-oncall", "U0ALICE": "@alice", "S0ADMINS": "@gpu-admins", "C0ONCALL": "#gpu-oncall"}


def message(*versions, ts="1.000001", **fields):
    return Message("C0ONCALL", ts, "U0BOT", [Version(AT, text, blocks) for text, blocks in versions], **fields)


def test_a_card_with_its_thread_is_readable():
    card = message(
        ("first", []),
        (
            "STALL gpu-07 chat",
            [
                {"type": "header", "text": plain_text("STALL gpu-07")},
                {
                    "type": "section",
                    "text": mrkdwn("0 results for 17 min\n12 waiting"),
                    "fields": [mrkdwn("*Node*\ngpu-07")],
                },
                {"type": "divider"},
                {"type": "context", "elements": [mrkdwn("since 10:42"), mrkdwn("GPU 3")]},
                actions(
                    button(),
                    button("reboot", "Reboot", confirm=confirm()),
                    overflow(option("Why"), option("Claim")),
                ),
            ],
        ),
    )
    reply = message(("10:59 acknowledged by <@U0ALICE>", []), ts="1.000002", thread_ts="1.000001")
    assert message_transcript(card, [reply], NAMES).splitlines() == [
        "2026-11-30 10:42:05 UTC gpu-oncall (edited once)",
        "  ## STALL gpu-07",
        "  0 results for 17 min",
        "  12 waiting",
        "  | *Node* gpu-07",
        "  " + "-" * 40,
        "  (since 10:42 · GPU 3)",
        "  [Acknowledge] [Reboot…] [Why / Claim]",
        "  text: STALL gpu-07 chat",
        "  > 2026-11-30 10:42:05 UTC gpu-oncall",
        "  >   10:59 acknowledged by @alice",
    ]


def test_a_channel_shows_what_people_see():
    channel = Channel("C0ONCALL", "gpu-oncall")
    for one in (
        message(("a", [])),
        message(("b", []), ts="2.000001"),
        message(("c", []), ts="3.000001", deleted_at=AT),
    ):
        channel.messages[one.ts] = one
    head = "2026-11-30 10:42:05 UTC gpu-oncall"
    assert channel_transcript(channel, NAMES) == f"#gpu-oncall\n\n{head}\n  a\n\n{head}\n  b"


def test_mentions_links_and_dates_are_shown_as_people_read_them():
    written = "<@U0ALICE> <!subteam^S0ADMINS> <#C0ONCALL|x> <!here> <https://e.org|log> <https://e.org> &lt;b&gt; &amp;"
    assert plain(written, NAMES) == "@alice @gpu-admins #gpu-oncall @here log (https://e.org) https://e.org <b> &"
    assert plain("since <!date^1796000000^{time}|10:42 UTC>", NAMES) == "since 10:42 UTC"
    assert plain("<@U404> <@U405|zoe>", NAMES) == "@U404 @zoe"
    assert plain(plain_text("<@U0ALICE> &amp;"), NAMES) == "<@U0ALICE> &amp;"


def test_tables_are_aligned():
    cell = [{"type": "raw_text", "text": "node"}, {"type": "raw_text", "text": "idle"}]
    row = [{"type": "raw_text", "text": "gpu-07"}, {"type": "raw_number", "value": 3, "text": "3 h"}]
    assert blocks_lines([{"type": "table", "rows": [cell, row]}], {}) == ["node   | idle", "gpu-07 | 3 h"]


def test_rich_text_keeps_lists_and_quotes():
    def parts(kind, text, **fields):
        return {"type": kind, "elements": [{"type": "text", "text": text}], **fields}

    numbered = {"type": "rich_text_list", "style": "ordered", "elements": [parts("rich_text_section", "drain")] * 2}
    mention = {"type": "rich_text_section", "elements": [{"type": "user", "user_id": "U0ALICE"}]}
    quote = parts("rich_text_quote", "nvidia-smi")
    assert blocks_lines([{"type": "rich_text", "elements": [mention, numbered, quote]}], NAMES) == [
        "@alice",
        "1. drain",
        "2. drain",
        "> nvidia-smi",
    ]


def test_images_charts_containers_and_unknown_blocks_leave_a_trace():
    points = [{"label": "gpu-3", "value": 9}]
    blocks = [
        {"type": "image", "image_url": "https://e.org/a.png", "alt_text": "load"},
        {
            "type": "data_visualization",
            "title": "Idle",
            "chart": {"type": "line", "series": [{"name": "h", "data": points}], "axis_config": {}},
        },
        {"type": "container", "title": plain_text("More"), "child_blocks": [section("x")]},
        {"type": "plan", "title": "x"},
    ]
    assert blocks_lines(blocks, {}) == [
        "[image: load]",
        "[line chart: Idle]",
        "h: gpu-3 9",
        "# More",
        "  x",
        "(plan block)",
    ]


def test_a_modal_shows_its_inputs_and_buttons():
    body = modal(text_input(optional=True, hint=plain_text("one line")), close=plain_text("Cancel"))
    view = View("V1", "U0ALICE", "modal", "h", [body], "V1")
    assert view_transcript(view, NAMES).splitlines() == [
        "modal: Snooze",
        "  Reason (optional): [plain_text_input]",
        "  (one line)",
        "  [Cancel] [Snooze]",
    ]


def test_an_ephemeral_names_its_reader():
    shown = Ephemeral("C0ONCALL", "U0ALICE", "1.000001", "response_url", [Version(AT, "not yours to approve", [])])
    assert ephemeral_transcript(shown, NAMES) == "only for @alice:\n  not yours to approve"
