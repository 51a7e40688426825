"""What Slack accepts inside blocks: text objects, options, dialogs and elements.

Numbers from docs.slack.dev/reference/block-kit/composition-objects and /block-elements.
"""

from typing import Any

from demo.workspace.block_schema import (
    Check,
    Problems,
    anything,
    at_least_one,
    boolean,
    exactly_one,
    fields,
    items,
    number,
    one_of,
    problem,
    string,
    tagged,
    whole,
)

LONGEST_TEXT = 3000
KIND = {"type": anything}


def plain(most: int, least: int = 1) -> Check:
    return fields({**KIND, "type": one_of("plain_text"), "text": string(most, least)}, {"emoji": boolean})


def markdown(most: int) -> Check:
    return fields({**KIND, "type": one_of("mrkdwn"), "text": string(most)}, {"verbatim": boolean})


def text(most: int = LONGEST_TEXT) -> Check:
    """Plain text or mrkdwn; an empty text is refused."""
    return tagged({"plain_text": plain(most), "mrkdwn": markdown(most)})


action_id = string(255)
url = string(3000, pattern=r"[a-z][a-z0-9+.-]*:\S+")
slack_file = fields({}, {"id": string(255), "url": string(3000)}, exactly_one("id", "url"))

confirm = fields(
    {"title": plain(100), "text": text(300), "confirm": plain(30), "deny": plain(30)},
    {"style": one_of("primary", "danger")},
)


def option(words: Check, with_url: bool = False) -> Check:
    optional = {"description": plain(75)} | ({"url": url} if with_url else {})
    return fields({"text": words, "value": string(150)}, optional)


plain_option = option(plain(75))
rich_option = fields({"text": text(75), "value": string(150)}, {"description": text(75)})
option_group = fields({"label": plain(75), "options": items(plain_option, 1, 100)}, {})


def _interactive(required: dict[str, Check], optional: dict[str, Check], *rules: Check) -> Check:
    return fields(KIND | required, {"action_id": action_id, "confirm": confirm} | optional, *rules)


def _input(required: dict[str, Check], optional: dict[str, Check], *rules: Check) -> Check:
    common = {"action_id": action_id, "placeholder": plain(150), "focus_on_load": boolean}
    return fields(KIND | required, common | optional, *rules)


def _menu(optional: dict[str, Check], *rules: Check) -> Check:
    return _input({}, {"confirm": confirm} | optional, *rules)


def _initial_is_an_option(value: Any, at: str) -> Problems:
    given = [value["initial_option"]] if value.get("initial_option") else value.get("initial_options") or []
    offered = [*(value.get("options") or [])]
    for group in value.get("option_groups") or []:
        offered += group["options"]
    wrong = [one for one in given if one not in offered]
    return [problem("the initial option must be one of the options", at)] if wrong else []


def _ordered_lengths(value: Any, at: str) -> Problems:
    shortest, longest = value.get("min_length"), value.get("max_length")
    if shortest is not None and longest is not None and shortest > longest:
        return [problem("min_length must not be more than max_length", at)]
    return []


_choices = {"options": items(plain_option, 1, 100), "option_groups": items(option_group, 1, 100)}
_most_selected = {"max_selected_items": whole(1, 100)}
_many_ids = items(string(255), 1, 100)
_conversations = {"default_to_current_conversation": boolean, "filter": anything, "response_url_enabled": boolean}
_dispatch = fields({}, {"trigger_actions_on": items(one_of("on_enter_pressed", "on_character_entered"), 1, 2)})
_lengths = {"min_length": whole(0, 3000), "max_length": whole(1, 3000)}
_feedback = fields({"text": plain(75), "value": string(2000)}, {"accessibility_label": string(75)})

BUTTON = _interactive(
    {"text": plain(75)},
    {
        "url": url,
        "value": string(2000, 0),
        "style": one_of("primary", "danger"),
        "accessibility_label": string(75),
    },
)
IMAGE = fields(
    KIND | {"alt_text": string(2000)},
    {"image_url": url, "slack_file": slack_file},
    exactly_one("image_url", "slack_file"),
)
OVERFLOW = _interactive({"options": items(option(plain(75), with_url=True), 2, 5)}, {})

MENUS: dict[str, Check] = {
    "static_select": _menu(
        {**_choices, "initial_option": plain_option}, exactly_one("options", "option_groups"), _initial_is_an_option
    ),
    "external_select": _menu({"initial_option": plain_option, "min_query_length": whole(0, 3000)}),
    "users_select": _menu({"initial_user": string(255)}),
    "conversations_select": _menu({"initial_conversation": string(255), **_conversations}),
    "channels_select": _menu({"initial_channel": string(255), "response_url_enabled": boolean}),
    "multi_static_select": _menu(
        {**_choices, **_most_selected, "initial_options": items(plain_option, 1, 100)},
        exactly_one("options", "option_groups"),
        _initial_is_an_option,
    ),
    "multi_external_select": _menu(
        {**_most_selected, "initial_options": items(plain_option, 1, 100), "min_query_length": whole(0, 3000)}
    ),
    "multi_users_select": _menu({**_most_selected, "initial_users": _many_ids}),
    "multi_conversations_select": _menu({**_most_selected, "initial_conversations": _many_ids, **_conversations}),
    "multi_channels_select": _menu({**_most_selected, "initial_channels": _many_ids}),
}
CHOICES: dict[str, Check] = {
    "checkboxes": _interactive(
        {"options": items(rich_option, 1, 10)},
        {"initial_options": items(rich_option, 1, 10), "focus_on_load": boolean},
        _initial_is_an_option,
    ),
    "radio_buttons": _interactive(
        {"options": items(rich_option, 1, 10)},
        {"initial_option": rich_option, "focus_on_load": boolean},
        _initial_is_an_option,
    ),
}
DATES: dict[str, Check] = {
    "datepicker": _menu({"initial_date": string(10, pattern=r"\d{4}-\d\d-\d\d")}),
    "timepicker": _menu({"initial_time": string(5, pattern=r"([01]\d|2[0-3]):[0-5]\d"), "timezone": string(255)}),
}
DATE_TIME: dict[str, Check] = {
    "datetimepicker": _interactive(
        {}, {"initial_date_time": whole(1_000_000_000, 9_999_999_999), "focus_on_load": boolean}
    )
}
INPUTS: dict[str, Check] = {
    "plain_text_input": _input(
        {},
        {"initial_value": string(3000, 0), "multiline": boolean, "dispatch_action_config": _dispatch, **_lengths},
        _ordered_lengths,
    ),
    "number_input": _input(
        {"is_decimal_allowed": boolean},
        {
            "initial_value": string(255),
            "min_value": string(255),
            "max_value": string(255),
            "dispatch_action_config": _dispatch,
        },
    ),
    "email_text_input": _input({}, {"initial_value": string(3000), "dispatch_action_config": _dispatch}),
    "url_text_input": _input({}, {"initial_value": string(3000), "dispatch_action_config": _dispatch}),
    "rich_text_input": _input({}, {"initial_value": anything, "dispatch_action_config": _dispatch}),
    "file_input": fields(
        KIND, {"action_id": action_id, "filetypes": items(string(255), 1, 100), "max_files": whole(1, 10)}
    ),
}

# where an element may stand
IN_ACTIONS = tagged({"button": BUTTON, "overflow": OVERFLOW, **MENUS, **CHOICES, **DATES, **DATE_TIME})
IN_SECTION = tagged({"button": BUTTON, "overflow": OVERFLOW, "image": IMAGE, **MENUS, **CHOICES, **DATES})
IN_INPUT = tagged({**MENUS, **CHOICES, **DATES, **DATE_TIME, **INPUTS})
IN_CONTEXT = tagged({"image": IMAGE, "plain_text": plain(LONGEST_TEXT), "mrkdwn": markdown(LONGEST_TEXT)})
IN_CONTEXT_ACTIONS = tagged(
    {
        "feedback_buttons": fields(
            KIND | {"positive_button": _feedback, "negative_button": _feedback}, {"action_id": action_id}
        ),
        "icon_button": _interactive(
            {"icon": string(255), "text": plain(75)},
            {
                "accessibility_label": string(75),
                "value": string(2000),
                "visible_to_user_ids": items(string(255), 1, 10),
            },
        ),
    }
)

_style = fields({}, dict.fromkeys(("bold", "italic", "strike", "code", "underline", "highlight", "unlink"), boolean))


def _part(**required: Check) -> Check:
    return fields(KIND | required, {"style": _style})


_rich_parts = tagged(
    {
        "text": _part(text=string(100_000)),
        "link": fields(KIND | {"url": url}, {"text": string(3000), "unsafe": boolean, "style": _style}),
        "emoji": fields(KIND | {"name": string(255)}, {"unicode": string(255), "skin_tone": number, "style": _style}),
        "user": _part(user_id=string(255)),
        "usergroup": _part(usergroup_id=string(255)),
        "channel": _part(channel_id=string(255)),
        "team": _part(team_id=string(255)),
        "broadcast": _part(range=one_of("here", "channel", "everyone")),
        "color": _part(value=string(255)),
        "date": fields(
            KIND | {"timestamp": number, "format": string(255)}, {"url": url, "fallback": string(3000), "style": _style}
        ),
    }
)
_parts = items(_rich_parts, 0, 10_000)
_section = fields(KIND | {"elements": _parts}, {})
RICH_TEXT_ELEMENT = tagged(
    {
        "rich_text_section": _section,
        "rich_text_preformatted": fields(KIND | {"elements": _parts}, {"border": whole(0, 1), "language": string(255)}),
        "rich_text_quote": fields(KIND | {"elements": _parts}, {"border": whole(0, 1)}),
        "rich_text_list": fields(
            KIND
            | {
                "style": one_of("bullet", "ordered"),
                "elements": items(tagged({"rich_text_section": _section}), 1, 1000),
            },
            {"indent": whole(0, 8), "offset": whole(0, 10_000), "border": whole(0, 1)},
        ),
    }
)
CARD_BUTTONS = items(tagged({"button": BUTTON}), 1, 3)
CARD_PARTS = at_least_one("hero_image", "title", "actions", "body")
