"""Block Kit limits: which blocks and views Slack refuses, and how it says so.

Pure. Numbers from docs.slack.dev/reference/block-kit/blocks and /reference/views; where Slack's copies of a page differ
(data_table rows, chart series) the newer and wider figure counts.
"""

from collections.abc import Iterator
from typing import Any

from demo.workspace import block_elements as elements
from demo.workspace.block_elements import IMAGE, KIND, plain, slack_file, text, url
from demo.workspace.block_schema import (
    Check,
    Problems,
    anything,
    at_least_one,
    boolean,
    duplicates,
    exactly_one,
    fields,
    items,
    nullable,
    number,
    one_of,
    problem,
    string,
    tagged,
    whole,
)

MOST_BLOCKS_IN_MESSAGE = 50
MOST_BLOCKS_IN_VIEW = 100
LONGEST_TABLES = 10_000
LONGEST_DATA_TABLE = 20_000
LONGEST_MARKDOWN = 12_000
MOST_CHARTS = 2
# Undocumented: Slack's staff names 12,000 characters of text "with a buffer for block containers"
# (slackapi/bolt-js#2509); a message of 11,341 was refused (slackapi/bolt-js#2867).
LONGEST_MESSAGE = 11_000

ALL = frozenset({"message", "modal", "home"})
MESSAGE = frozenset({"message"})
MODAL = frozenset({"modal"})
NOT_IN_MODAL = frozenset({"message", "home"})


def message_problems(blocks: Any) -> Problems:
    """Empty when Slack would take these blocks in a message."""
    found = _block_problems(blocks, "/blocks", "message", MOST_BLOCKS_IN_MESSAGE, least=0)
    return found or _budget_problems(blocks)


def view_problems(view: Any) -> Problems:
    """Empty when Slack would take this modal or home."""
    if not isinstance(view, dict) or view.get("type") not in VIEWS:
        return [problem("must be one of: modal, home", "/view/type")]
    found = VIEWS[view["type"]](view, "/view")
    if not found:
        found = _block_problems(view["blocks"], "/view/blocks", view["type"], MOST_BLOCKS_IN_VIEW, least=1)
    return found or _budget_problems(view["blocks"], "/view/blocks") + _view_rules(view)


def too_long(blocks: list[Any]) -> bool:
    """Whether all texts together are more than Slack takes in one message (`msg_blocks_too_long`)."""
    return sum(_text_length(block) for block in blocks if block.get("type") not in ("table", "data_table")) > (
        LONGEST_MESSAGE
    )


def _block(required: dict[str, Check], optional: dict[str, Check], *rules: Check) -> Check:
    return fields(KIND | required, {"block_id": string(255)} | optional, *rules)


def _unique_action_ids(value: Any, at: str) -> Problems:
    repeated = duplicates(element.get("action_id") for element in value["elements"])
    return [problem(f"`action_id` {name} already exists for this block", f"{at}/elements") for name in repeated]


def _text_length(value: Any) -> int:
    if isinstance(value, dict):
        return sum(
            len(part) if name == "text" and isinstance(part, str) else _text_length(part)
            for name, part in value.items()
        )
    return sum(map(_text_length, value)) if isinstance(value, list) else 0


def _same_columns(value: Any, at: str) -> Problems:
    widths = {len(row) for row in value["rows"]}
    return [] if len(widths) == 1 else [problem("all rows must have the same number of cells", f"{at}/rows")]


def _data_table_rules(value: Any, at: str) -> Problems:
    found = _same_columns(value, at)
    if any(cell["type"] == "rich_text" for cell in value["rows"][0]):
        found.append(problem("rich_text is not allowed in the header row", f"{at}/rows/0"))
    if _text_length(value["rows"]) > LONGEST_DATA_TABLE:
        found.append(problem(f"must be less than {LONGEST_DATA_TABLE + 1} characters in all", f"{at}/rows"))
    return found


def _points_match_categories(value: Any, at: str) -> Problems:
    categories = value["axis_config"]["categories"]
    wrong = [one for one in value["series"] if [point["label"] for point in one["data"]] != categories]
    found = [problem("each series needs one data point per category, in their order", f"{at}/series")] if wrong else []
    if duplicates(one["name"] for one in value["series"]):
        found.append(problem("names of series must be unique", f"{at}/series"))
    return found


def _container_rules(value: Any, at: str) -> Problems:
    found = at_least_one("title", "rich_text_title")(value, at)
    if value.get("is_collapsible") and value.get("has_header_divider"):
        found.append(problem("has_header_divider cannot be set when is_collapsible is true", at))
    return found + [
        more
        for index, block in enumerate(value["child_blocks"])
        for more in _one_block(block, f"{at}/child_blocks/{index}", "message")
    ]


_rich_text = _block({"elements": items(elements.RICH_TEXT_ELEMENT, 1, 1000)}, {})
_raw_text = fields(KIND | {"text": string(10_000)}, {})
_raw_number = fields(KIND | {"value": number, "text": string(10_000)}, {})
_cells = items(tagged({"raw_text": _raw_text, "raw_number": _raw_number, "rich_text": _rich_text}), 1, 20)
_column = fields({}, {"align": one_of("left", "center", "right"), "is_wrapped": boolean})
_card = _block(
    {},
    {
        "hero_image": IMAGE,
        "icon": IMAGE,
        "title": text(150),
        "subtitle": text(150),
        "body": text(200),
        "actions": elements.CARD_BUTTONS,
    },
    elements.CARD_PARTS,
)
_task = _block(
    {
        "task_id": string(255),
        "title": string(LONGEST_MARKDOWN),
        "status": one_of("pending", "in_progress", "complete", "error"),
    },
    {"details": _rich_text, "output": _rich_text, "sources": items(anything, 0, 100)},
)
_point = fields({"label": string(20), "value": number}, {})
_series = fields({"name": string(20), "data": items(_point, 1, 20)}, {})
_axis = fields({"categories": items(string(20), 1, 20)}, {"x_label": string(50), "y_label": string(50)})
_series_chart = fields(KIND | {"series": items(_series, 1, 12), "axis_config": _axis}, {}, _points_match_categories)
_chart = tagged(
    {
        "pie": fields(KIND | {"segments": items(_point, 1, 12)}, {}),
        **dict.fromkeys(("bar", "area", "line"), _series_chart),
    }
)

# type of block -> where it may stand, and its check
BLOCKS: dict[str, tuple[frozenset[str], Check]] = {
    "actions": (ALL, _block({"elements": items(elements.IN_ACTIONS, 1, 25)}, {}, _unique_action_ids)),
    "alert": (
        MODAL,
        _block({"text": text(200)}, {"level": one_of("default", "info", "warning", "error", "success")}),
    ),
    "card": (MESSAGE, _card),
    "carousel": (MESSAGE, _block({"elements": items(tagged({"card": _card}), 1, 10)}, {})),
    "container": (
        NOT_IN_MODAL,
        _block(
            {"child_blocks": items(anything, 1, 10)},
            {
                "title": plain(150),
                "rich_text_title": _rich_text,
                "subtitle": text(150),
                "width": one_of("narrow", "standard", "wide", "full"),
                "icon": IMAGE,
                "is_collapsible": boolean,
                "default_collapsed": boolean,
                "has_header_divider": boolean,
            },
            _container_rules,
        ),
    ),
    "context": (ALL, _block({"elements": items(elements.IN_CONTEXT, 1, 10)}, {})),
    "context_actions": (
        MESSAGE,
        _block({"elements": items(elements.IN_CONTEXT_ACTIONS, 1, 5)}, {}, _unique_action_ids),
    ),
    "data_table": (
        NOT_IN_MODAL,
        _block(
            {"rows": items(_cells, 2, 201), "caption": string(LONGEST_DATA_TABLE)},
            {"page_size": whole(1, 100), "row_header_column_index": whole(0, 19)},
            _data_table_rules,
        ),
    ),
    "data_visualization": (NOT_IN_MODAL, _block({"title": string(50), "chart": _chart}, {})),
    "divider": (ALL, _block({}, {})),
    "header": (ALL, _block({"text": plain(150)}, {})),
    "image": (
        ALL,
        _block(
            {"alt_text": string(2000)},
            {"image_url": url, "slack_file": slack_file, "title": plain(2000)},
            exactly_one("image_url", "slack_file"),
        ),
    ),
    "input": (
        ALL,
        _block(
            {"label": plain(2000), "element": elements.IN_INPUT},
            {"hint": plain(2000), "optional": boolean, "dispatch_action": boolean},
        ),
    ),
    "markdown": (MESSAGE, _block({"text": string(LONGEST_MARKDOWN)}, {})),
    "plan": (
        MESSAGE,
        _block({"title": string(LONGEST_MARKDOWN)}, {"tasks": items(tagged({"task_card": _task}), 0, 50)}),
    ),
    "rich_text": (ALL, _rich_text),
    "section": (
        ALL,
        _block(
            {},
            {
                "text": text(3000),
                "fields": items(text(2000), 1, 10),
                "accessory": elements.IN_SECTION,
                "expand": boolean,
            },
            at_least_one("text", "fields"),
        ),
    ),
    "table": (
        NOT_IN_MODAL,
        _block({"rows": items(_cells, 1, 100)}, {"column_settings": items(nullable(_column), 0, 20)}),
    ),
    "task_card": (MESSAGE, _task),
}

_view_common: dict[str, Check] = {
    "private_metadata": string(3000, 0),
    "callback_id": string(255, 0),
    "external_id": string(255, 0),
}
VIEWS: dict[str, Check] = {
    "home": fields(KIND | {"blocks": anything}, _view_common),
    "modal": fields(
        KIND | {"title": plain(24), "blocks": anything},
        {
            **_view_common,
            "submit": plain(24),
            "close": plain(24),
            "clear_on_close": boolean,
            "notify_on_close": boolean,
            "submit_disabled": boolean,
        },
    ),
}


def _block_problems(blocks: Any, at: str, surface: str, most: int, least: int) -> Problems:
    found = items(lambda block, pointer: _one_block(block, pointer, surface), least, most)(blocks, at)
    if found:
        return found
    return [problem(f"`block_id` {name} already exists", at) for name in duplicates(_block_ids(blocks))]


def _one_block(block: Any, at: str, surface: str) -> Problems:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind is None:
        return [problem("missing required field: type", at)]
    surfaces, check = BLOCKS.get(kind, (frozenset(), anything))
    if surface not in surfaces:
        return [problem(f"unsupported type: {kind}", f"{at}/type")]
    return check(block, at)


def _block_ids(blocks: list[Any]) -> Iterator[Any]:
    for block in blocks:
        yield block.get("block_id")
        yield from _block_ids(block.get("child_blocks", []))


def _budget_problems(blocks: list[Any], at: str = "/blocks") -> Problems:
    """Limits that count over all blocks together."""

    def of(kind: str) -> list[Any]:
        return [block for block in blocks if block["type"] == kind]

    found: Problems = []
    if sum(_text_length(block["rows"]) for block in of("table")) > LONGEST_TABLES:
        found.append(problem(f"tables must be less than {LONGEST_TABLES + 1} characters in all", at))
    if sum(len(block["text"]) for block in of("markdown")) > LONGEST_MARKDOWN:
        found.append(problem(f"markdown must be less than {LONGEST_MARKDOWN + 1} characters in all", at))
    if len(of("data_visualization")) > MOST_CHARTS:
        found.append(problem(f"no more than {MOST_CHARTS} data_visualization blocks allowed", at))
    return found


def _view_rules(view: Any) -> Problems:
    inputs = [block for block in view["blocks"] if block["type"] == "input"]
    found: Problems = []
    if inputs and view["type"] == "modal" and not view.get("submit"):
        found.append(problem("missing required field: submit", "/view"))
    if sum(bool(block["element"].get("focus_on_load")) for block in inputs) > 1:
        found.append(problem("only one element may have focus_on_load", "/view/blocks"))
    return found
