"""The workspace refuses the blocks and views that Slack refuses, and no others."""

import pytest
from slack_sdk.models import blocks as sdk

from demo.workspace.block_kit import message_problems, too_long
from tests.demo.build_workspace import (
    actions,
    button,
    confirm,
    mrkdwn,
    option,
    overflow,
    plain,
    section,
    text_input,
)

URL = "https://example.org/a.png"
CELL = {"type": "raw_text", "text": "gpu-07"}


def select(**fields):
    return {"type": "static_select", "action_id": "s", "options": [option("1 h")], **fields}


def rich(*elements, kind="rich_text_section", **fields):
    return {"type": "rich_text", "elements": [{"type": kind, "elements": list(elements), **fields}]}


def table(rows, **fields):
    return {"type": "table", "rows": rows, **fields}


def data_table(rows, **fields):
    return {"type": "data_table", "caption": "Idle GPUs", "rows": rows, **fields}


def chart(kind="pie", count=1, **fields):
    points = [{"label": f"gpu-{number}", "value": number + 1} for number in range(count)]
    body = {"type": kind, "segments": points} if kind == "pie" else {"type": kind, **fields}
    return {"type": "data_visualization", "title": "Idle hours", "chart": body}


def series(count=1, points=2, label="a"):
    data = [{"label": f"{label}{number}", "value": number} for number in range(points)]
    return {
        "series": [{"name": f"s{number}", "data": data} for number in range(count)],
        "axis_config": {"categories": [f"a{number}" for number in range(points)]},
    }


def card(**fields):
    return {"type": "card", "title": mrkdwn("gpu-07"), **fields}


def container(*blocks, **fields):
    return {"type": "container", "title": plain("More"), "child_blocks": list(blocks), **fields}


ACCEPTED = {
    "no blocks": [],
    "50 blocks": [section()] * 50,
    "section of 3000": [section("x" * 3000)],
    "section of one": [section("x")],
    "section with fields only": [{"type": "section", "fields": [mrkdwn("x" * 2000)] * 5}],
    "section with an image": [section(accessory={"type": "image", "image_url": URL, "alt_text": "load"})],
    "section with a button": [section(accessory=button())],
    "section with an overflow": [section(accessory=overflow(option("a"), option("b")))],
    "verbatim": [{"type": "section", "text": {**mrkdwn("x"), "verbatim": True}}],
    "emoji": [{"type": "section", "text": {**plain("x"), "emoji": False}}],
    "header of 150": [{"type": "header", "text": plain("x" * 150)}],
    "divider": [{"type": "divider"}],
    "25 elements": [actions(*[button(f"b{number}") for number in range(25)])],
    "button at its limits": [
        actions(button("a" * 255, "x" * 75, value="v" * 2000, style="danger", accessibility_label="l" * 75))
    ],
    "button with a link": [actions(button(url="https://example.org/" + "x" * 2000))],
    "button with a dialog": [actions(button(confirm=confirm(style="danger")))],
    "dialog at its limits": [
        actions(
            button(
                confirm={
                    "title": plain("x" * 100),
                    "text": mrkdwn("x" * 300),
                    "confirm": plain("x" * 30),
                    "deny": plain("x" * 30),
                }
            )
        )
    ],
    "same action_id in two blocks": [actions(button()), actions(button())],
    "five overflow options": [actions(overflow(*[option(str(number)) for number in range(5)]))],
    "option at its limits": [actions(select(options=[option("x" * 75, "v" * 150)]))],
    "100 options": [actions(select(options=[option(str(number)) for number in range(100)]))],
    "option groups": [
        actions(
            {
                "type": "static_select",
                "action_id": "s",
                "option_groups": [{"label": plain("Hours"), "options": [option("1 h")]}],
            }
        )
    ],
    "initial option": [actions(select(initial_option=option("1 h")))],
    "date and time pickers": [
        actions(
            {"type": "datepicker", "action_id": "d", "initial_date": "2026-11-30"},
            {"type": "timepicker", "action_id": "t", "initial_time": "09:00"},
            {"type": "datetimepicker", "action_id": "dt", "initial_date_time": 1_796_000_000},
        )
    ],
    "radio buttons with mrkdwn": [
        actions({"type": "radio_buttons", "action_id": "r", "options": [{"text": mrkdwn("*a*"), "value": "a"}]})
    ],
    "ten context elements": [{"type": "context", "elements": [mrkdwn("x")] * 10}],
    "image block": [{"type": "image", "image_url": URL, "alt_text": "load", "title": plain("Load")}],
    "image of an uploaded file": [{"type": "image", "slack_file": {"id": "F1"}, "alt_text": "load"}],
    "rich text": [
        rich(
            {"type": "text", "text": "pid 1", "style": {"bold": True, "code": True}},
            {"type": "link", "url": URL, "text": "log"},
            {"type": "user", "user_id": "U1"},
            {"type": "date", "timestamp": 1, "format": "{date}", "fallback": "then"},
        )
    ],
    "preformatted": [rich({"type": "text", "text": "nvidia-smi"}, kind="rich_text_preformatted", border=0)],
    "rich text list": [
        {
            "type": "rich_text",
            "elements": [
                {
                    "type": "rich_text_list",
                    "style": "bullet",
                    "indent": 1,
                    "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "a"}]}],
                }
            ],
        }
    ],
    "input in a message": [text_input()],
    "markdown of 12000": [{"type": "markdown", "text": "x" * 12_000}],
    "table at its limits": [table([[CELL] * 20] * 83)],
    "table with settings": [table([[CELL, CELL]], column_settings=[None, {"align": "right", "is_wrapped": True}])],
    "number cells": [table([[{"type": "raw_number", "value": 3, "text": "3 h"}]])],
    "data table": [data_table([[CELL], [CELL]], page_size=100, row_header_column_index=0)],
    "201 rows of data": [data_table([[CELL]] * 201)],
    "two charts": [chart(), chart("bar", **series(12, 20))],
    "card": [card(subtitle=plain("x" * 150), body=mrkdwn("x" * 200), actions=[button()])],
    "carousel": [{"type": "carousel", "elements": [card()] * 10}],
    "container": [container(section(), is_collapsible=True, default_collapsed=True)],
    "feedback": [
        {
            "type": "context_actions",
            "elements": [
                {
                    "type": "feedback_buttons",
                    "action_id": "f",
                    "positive_button": {"text": plain("Right"), "value": "1"},
                    "negative_button": {"text": plain("Wrong"), "value": "0"},
                }
            ],
        }
    ],
    "plan": [
        {
            "type": "plan",
            "title": "Reboot",
            "tasks": [{"type": "task_card", "task_id": "1", "title": "Drain", "status": "complete"}],
        }
    ],
}

REFUSED = {
    "51 blocks": ([section()] * 51, "no more than 50 items allowed [json-pointer:/blocks]"),
    "no object": (["x"], "/blocks/0"),
    "no type": ([{"text": mrkdwn("x")}], "missing required field: type [json-pointer:/blocks/0]"),
    "unknown block": ([{"type": "gauge"}], "unsupported type: gauge [json-pointer:/blocks/0/type]"),
    "alert in a message": ([{"type": "alert", "text": plain("x")}], "unsupported type: alert"),
    "unknown field": ([section(colour="red")], "invalid additional property: colour [json-pointer:/blocks/0]"),
    "empty text": ([section("")], "must be more than 0 characters [json-pointer:/blocks/0/text/text]"),
    "section of 3001": ([section("x" * 3001)], "must be less than 3001 characters [json-pointer:/blocks/0/text/text]"),
    "section without text": ([{"type": "section"}], "/blocks/0"),
    "eleven fields": ([{"type": "section", "fields": [mrkdwn("x")] * 11}], "/blocks/0/fields"),
    "field of 2001": ([{"type": "section", "fields": [mrkdwn("x" * 2001)]}], "/blocks/0/fields/0/text"),
    "text as a string": ([{"type": "section", "text": "x"}], "/blocks/0/text"),
    "emoji on mrkdwn": ([{"type": "section", "text": {**mrkdwn("x"), "emoji": True}}], "/blocks/0/text"),
    "verbatim on plain text": ([{"type": "section", "text": {**plain("x"), "verbatim": True}}], "/blocks/0/text"),
    "header in mrkdwn": ([{"type": "header", "text": mrkdwn("x")}], "/blocks/0/text/type"),
    "header of 151": ([{"type": "header", "text": plain("x" * 151)}], "/blocks/0/text/text"),
    "26 elements": ([actions(*[button(f"b{n}") for n in range(26)])], "no more than 25 items allowed"),
    "no elements": ([actions()], "/blocks/0/elements"),
    "duplicate action_id": ([actions(button(), button())], "`action_id` ack already exists for this block"),
    "duplicate block_id": ([section(block_id="a"), section(block_id="a")], "`block_id` a already exists"),
    "block_id of 256": ([section(block_id="x" * 256)], "/blocks/0/block_id"),
    "disabled button": ([actions(button(disabled=True))], "invalid additional property: disabled"),
    "unknown element": ([actions({"type": "slider", "action_id": "x"})], "unsupported type: slider"),
    "text input in actions": ([actions({"type": "plain_text_input", "action_id": "x"})], "unsupported type"),
    "button in mrkdwn": ([actions({**button(), "text": mrkdwn("x")})], "/blocks/0/elements/0/text/type"),
    "button text of 76": ([actions(button(text="x" * 76))], "/blocks/0/elements/0/text/text"),
    "button value of 2001": ([actions(button(value="x" * 2001))], "/blocks/0/elements/0/value"),
    "action_id of 256": ([actions(button("x" * 256))], "/blocks/0/elements/0/action_id"),
    "button label of 76": ([actions(button(accessibility_label="x" * 76))], "/accessibility_label"),
    "button style": ([actions(button(style="warning"))], "/blocks/0/elements/0/style"),
    "empty url": ([actions(button(url=""))], "/blocks/0/elements/0/url"),
    "relative url": ([actions(button(url="a.png"))], "/blocks/0/elements/0/url"),
    "url of 3001": ([actions(button(url="https://e.org/" + "x" * 2987))], "/blocks/0/elements/0/url"),
    "dialog without deny": ([actions(button(confirm={**confirm(), "deny": None}))], "missing required field: deny"),
    "dialog title of 101": ([actions(button(confirm=confirm(title=plain("x" * 101))))], "/confirm/title/text"),
    "dialog text of 301": ([actions(button(confirm=confirm(text=plain("x" * 301))))], "/confirm/text/text"),
    "dialog button of 31": ([actions(button(confirm=confirm(confirm=plain("x" * 31))))], "/confirm/confirm/text"),
    "dialog style": ([actions(button(confirm=confirm(style="red")))], "/confirm/style"),
    "one overflow option": ([actions(overflow(option("a")))], "no fewer than 2 items allowed"),
    "six overflow options": ([actions(overflow(*[option(str(n)) for n in range(6)]))], "no more than 5 items"),
    "option text of 76": ([actions(select(options=[option("x" * 76, "v")]))], "/options/0/text/text"),
    "option value of 151": ([actions(select(options=[option("x", "v" * 151)]))], "/options/0/value"),
    "option without value": ([actions(select(options=[{"text": plain("x")}]))], "missing required field: value"),
    "mrkdwn in a select": ([actions(select(options=[{"text": mrkdwn("x"), "value": "v"}]))], "/options/0/text/type"),
    "url in a select": ([actions(select(options=[{**option("x"), "url": URL}]))], "additional property: url"),
    "101 options": ([actions(select(options=[option(str(n)) for n in range(101)]))], "no more than 100 items"),
    "no options": ([actions({"type": "static_select", "action_id": "s"})], "exactly one of: options, option_groups"),
    "foreign initial option": ([actions(select(initial_option=option("2 h")))], "initial option"),
    "placeholder of 151": ([actions(select(placeholder=plain("x" * 151)))], "/placeholder/text"),
    "eleven radio buttons": (
        [actions({"type": "radio_buttons", "action_id": "r", "options": [option(str(n)) for n in range(11)]})],
        "no more than 10 items allowed",
    ),
    "bad date": ([actions({"type": "datepicker", "action_id": "d", "initial_date": "30.11.2026"})], "/initial_date"),
    "bad time": ([actions({"type": "timepicker", "action_id": "t", "initial_time": "25:00"})], "/initial_time"),
    "date time in a section": ([section(accessory={"type": "datetimepicker", "action_id": "d"})], "unsupported type"),
    "eleven context elements": ([{"type": "context", "elements": [mrkdwn("x")] * 11}], "no more than 10 items"),
    "button in a context": ([{"type": "context", "elements": [button()]}], "unsupported type: button"),
    "image without alt_text": ([{"type": "image", "image_url": URL}], "missing required field: alt_text"),
    "image without source": ([{"type": "image", "alt_text": "x"}], "exactly one of: image_url, slack_file"),
    "image with empty alt_text": ([{"type": "image", "image_url": URL, "alt_text": ""}], "/blocks/0/alt_text"),
    "empty rich text": ([{"type": "rich_text", "elements": []}], "/blocks/0/elements"),
    "empty part of rich text": ([rich({"type": "text", "text": ""})], "/elements/0/elements/0/text"),
    "mrkdwn in rich text": ([rich(mrkdwn("x"))], "unsupported type: mrkdwn"),
    "unknown style": ([rich({"type": "text", "text": "x", "style": {"blink": True}})], "additional property: blink"),
    "input without label": ([{**text_input(), "label": None}], "missing required field: label"),
    "button in an input": ([{**text_input(), "element": button()}], "unsupported type: button"),
    "markdown of 12001": ([{"type": "markdown", "text": "x" * 12_001}], "must be less than 12001 characters"),
    "markdown in two blocks": ([{"type": "markdown", "text": "x" * 6001}] * 2, "markdown must be less than 12001"),
    "101 rows": ([table([[CELL]] * 101)], "no more than 100 items allowed [json-pointer:/blocks/0/rows]"),
    "21 columns": ([table([[CELL] * 21])], "no more than 20 items allowed [json-pointer:/blocks/0/rows/0]"),
    "empty cell": ([table([[{"type": "raw_text", "text": ""}]])], "must be more than 0 characters"),
    "button in a table": ([table([[button()]])], "unsupported type: button"),
    "10001 characters of tables": ([table([[{"type": "raw_text", "text": "x" * 5001}]])] * 2, "10001 characters"),
    "column settings": ([table([[CELL]], column_settings=[{"align": "top"}])], "/column_settings/0/align"),
    "data table of one row": ([data_table([[CELL]])], "no fewer than 2 items allowed"),
    "data table of 202 rows": ([data_table([[CELL]] * 202)], "no more than 201 items allowed"),
    "data table without caption": ([{"type": "data_table", "rows": [[CELL]] * 2}], "missing required field: caption"),
    "ragged data table": ([data_table([[CELL], [CELL, CELL]])], "same number of cells"),
    "rich text in the head": ([data_table([[rich({"type": "text", "text": "x"})], [CELL]])], "header row"),
    "page of 101": ([data_table([[CELL]] * 2, page_size=101)], "/page_size"),
    "20001 characters of data": (
        [data_table([[CELL], *[[{"type": "raw_text", "text": "x" * 2001}]] * 10])],
        "must be less than 20001 characters",
    ),
    "three charts": ([chart()] * 3, "no more than 2 data_visualization blocks"),
    "thirteen segments": ([chart(count=13)], "no more than 12 items allowed"),
    "21 points": ([chart("line", **series(1, 21))], "no more than 20 items allowed"),
    "points beside the categories": ([chart("line", **series(label="b"))], "one data point per category"),
    "empty card": ([{"type": "card", "icon": {"type": "image", "image_url": URL, "alt_text": "x"}}], "at least one"),
    "card body of 201": ([card(body=plain("x" * 201))], "/blocks/0/body/text"),
    "eleven cards": ([{"type": "carousel", "elements": [card()] * 11}], "no more than 10 items allowed"),
    "eleven child blocks": ([container(*[section()] * 11)], "no more than 10 items allowed"),
    "bad child block": ([container(section(""))], "/blocks/0/child_blocks/0/text/text"),
    "container without title": ([{**container(section()), "title": None}], "at least one of: title"),
    "six feedback elements": (
        [{"type": "context_actions", "elements": [{"type": "icon_button", "icon": "trash", "text": plain("x")}] * 6}],
        "no more than 5 items allowed",
    ),
    "task status": (
        [{"type": "task_card", "task_id": "1", "title": "x", "status": "done"}],
        "must be one of: pending",
    ),
}


@pytest.mark.parametrize("blocks", ACCEPTED.values(), ids=ACCEPTED)
def test_what_slack_takes_in_a_message_is_taken(blocks):
    assert message_problems(blocks) == []


@pytest.mark.parametrize(("blocks", "complaint"), REFUSED.values(), ids=REFUSED)
def test_what_slack_refuses_in_a_message_is_refused_with_a_pointer(blocks, complaint):
    problems = message_problems(blocks)
    assert any(complaint in problem for problem in problems), problems


def test_what_the_sdk_renders_is_taken():
    blocks = [
        sdk.HeaderBlock(text="STALL gpu-07"),
        sdk.SectionBlock(
            text=sdk.MarkdownTextObject(text="17 min", verbatim=True),
            fields=["*waiting*\n12", "*results*\n0"],
            accessory=sdk.ImageElement(image_url=URL, alt_text="load"),
        ),
        sdk.ContextBlock(elements=[sdk.MarkdownTextObject(text="since 10:42")]),
        sdk.ActionsBlock(
            elements=[
                sdk.ButtonElement(text="Acknowledge", action_id="ack", value="token", style="primary"),
                sdk.ButtonElement(
                    text="Reboot",
                    action_id="reboot",
                    confirm=sdk.ConfirmObject(title="Reboot?", text="All jobs end", confirm="Reboot", deny="No"),
                ),
                sdk.OverflowMenuElement(
                    action_id="more",
                    options=[sdk.Option(text="Why", value="why"), sdk.Option(text="Claim", value="claim")],
                ),
                sdk.StaticSelectElement(action_id="s", placeholder="For", options=[sdk.Option(text="1 h", value="1h")]),
            ]
        ),
        sdk.RichTextBlock(
            elements=[
                sdk.RichTextSectionElement(elements=[sdk.RichTextElementParts.Text(text="pid 1", style={"code": True})])
            ]
        ),
        sdk.TableBlock(rows=[[{"type": "raw_text", "text": "gpu-07"}]]),
        sdk.DividerBlock(),
    ]
    assert message_problems([block.to_dict() for block in blocks]) == []


def test_all_texts_of_a_message_together_have_a_limit_but_tables_count_apart():
    assert not too_long([section("x" * 2750)] * 4)
    assert too_long([section("x" * 2751)] * 4)
    assert not too_long([data_table([[CELL], [{"type": "raw_text", "text": "x" * 12_000}]])])
