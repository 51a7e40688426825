"""The workspace refuses the modals and homes that Slack refuses, and no others."""

import pytest
from slack_sdk.models import blocks as sdk
from slack_sdk.models.views import View

from demo.workspace.block_kit import view_problems
from tests.demo.build_workspace import home, modal, plain, section, text_input

TABLE = {"type": "table", "rows": [[{"type": "raw_text", "text": "gpu-07"}]]}
CONTAINER = {"type": "container", "title": plain("More"), "child_blocks": [section()]}
VIEWS_ACCEPTED = {
    "modal": modal(),
    "modal at its limits": modal(
        *[section()] * 100,
        title=plain("x" * 24),
        close=plain("x" * 24),
        private_metadata="x" * 3000,
        callback_id="x" * 255,
        notify_on_close=True,
        clear_on_close=False,
    ),
    "modal without inputs or submit": {"type": "modal", "title": plain("Why"), "blocks": [section()]},
    "alert": modal({"type": "alert", "level": "error", "text": plain("x" * 200)}),
    "home": home(*[section()] * 100),
    "home with a table": home(TABLE),
    "home with an input": home(text_input()),
}
VIEWS_REFUSED = {
    "no view": (None, "/view/type"),
    "message": ({"type": "message", "blocks": []}, "/view/type"),
    "title of 25": (modal(title=plain("x" * 25)), "must be less than 25 characters [json-pointer:/view/title/text]"),
    "no title": ({**modal(), "title": None}, "missing required field: title [json-pointer:/view]"),
    "submit of 25": (modal(submit=plain("x" * 25)), "/view/submit/text"),
    "close of 25": (modal(close=plain("x" * 25)), "/view/close/text"),
    "input without submit": ({**modal(), "submit": None}, "missing required field: submit [json-pointer:/view]"),
    "101 blocks": (modal(*[section()] * 101), "no more than 100 items allowed [json-pointer:/view/blocks]"),
    "private_metadata of 3001": (modal(private_metadata="x" * 3001), "/view/private_metadata"),
    "callback_id of 256": (modal(callback_id="x" * 256), "/view/callback_id"),
    "unknown field": (modal(colour="red"), "invalid additional property: colour"),
    "table in a modal": (modal(TABLE), "unsupported type: table [json-pointer:/view/blocks/0/type]"),
    "container in a modal": (modal(CONTAINER), "unsupported type: container"),
    "markdown in a modal": (modal({"type": "markdown", "text": "x"}), "unsupported type: markdown"),
    "alert in a home": (home({"type": "alert", "text": plain("x")}), "unsupported type: alert"),
    "alert of 201": (modal({"type": "alert", "text": plain("x" * 201)}), "/view/blocks/0/text/text"),
    "home with a title": (home(title=plain("x")), "invalid additional property: title"),
    "empty section": (modal(section("")), "/view/blocks/0/text/text"),
    "two fields with focus": (
        modal(
            *[
                {**text_input(name), "element": {"type": "plain_text_input", "action_id": name, "focus_on_load": True}}
                for name in "ab"
            ]
        ),
        "only one element may have focus_on_load",
    ),
    "shortest above longest": (
        modal({**text_input(), "element": {"type": "plain_text_input", "min_length": 9, "max_length": 3}}),
        "min_length must not be more than max_length",
    ),
}


@pytest.mark.parametrize("view", VIEWS_ACCEPTED.values(), ids=VIEWS_ACCEPTED)
def test_what_slack_takes_as_a_view_is_taken(view):
    assert view_problems(view) == []


@pytest.mark.parametrize(("view", "complaint"), VIEWS_REFUSED.values(), ids=VIEWS_REFUSED)
def test_what_slack_refuses_as_a_view_is_refused_with_a_pointer(view, complaint):
    problems = view_problems(view)
    assert any(complaint in problem for problem in problems), problems


def test_a_modal_that_the_sdk_renders_is_taken():
    view = View(
        type="modal",
        title="Snooze",
        submit="Snooze",
        close="Cancel",
        private_metadata="{}",
        blocks=[sdk.InputBlock(label="Until", element=sdk.DateTimePickerElement(action_id="until"), optional=True)],
    )
    assert view_problems(view.to_dict()) == []
