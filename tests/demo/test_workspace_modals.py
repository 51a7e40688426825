"""Modals: opened by a trigger, filled in, submitted, closed, stacked."""

from tests.demo.build_workspace import (
    actions,
    button,
    modal,
    option,
    plain,
    refusal,
    text_input,
)
from tests.demo.listening_app import post


async def open_modal(workspace, app, client, view):
    card = await post(workspace, button())
    await workspace.person("alice").press(card, "ack")
    await client.views_open(trigger_id=app.got[-1]["trigger_id"], view=view)
    app.got.clear()
    return workspace.person("alice")


async def test_a_modal_is_seen_by_the_person_who_clicked(workspace, app, client):
    alice = await open_modal(workspace, app, client, modal())
    assert (alice.modal.title, alice.modal.callback_id) == ("Snooze", "snooze")
    assert workspace.person("bob").modal is None


async def test_a_submission_carries_all_values(workspace, app, client):
    hours = {
        "type": "input",
        "block_id": "hours",
        "label": plain("Hours"),
        "element": {"type": "static_select", "action_id": "s", "options": [option("1 h"), option("4 h")]},
    }
    alice = await open_modal(workspace, app, client, modal(text_input(), hours, private_metadata="inc-42"))
    seen = await alice.submit({"reason": "driver", "hours": "4 h"})
    [body] = app.got
    assert (seen.acked, seen.failure, alice.modal) == (True, None, None)
    assert body["type"] == "view_submission"
    assert body["view"]["private_metadata"] == "inc-42"
    assert body["view"]["state"]["values"] == {
        "why": {"reason": {"type": "plain_text_input", "value": "driver"}},
        "hours": {"s": {"type": "static_select", "selected_option": option("4 h")}},
    }


async def test_a_required_input_left_empty_is_not_sent(workspace, app, client):
    alice = await open_modal(workspace, app, client, modal())
    seen = await alice.submit()
    assert (seen.failure, seen.envelope, app.got) == ("inputs: why required", None, [])
    assert alice.modal.errors == {"why": "required"}


async def test_an_optional_input_may_stay_empty(workspace, app, client):
    alice = await open_modal(workspace, app, client, modal(text_input(optional=True)))
    assert (await alice.submit()).acked


async def test_errors_keep_the_modal_open_and_what_was_typed(workspace, app, client):
    alice = await open_modal(workspace, app, client, modal())
    app.answer = {"response_action": "errors", "errors": {"why": "say more"}}
    seen = await alice.submit({"reason": "x"})
    assert (seen.failure, alice.modal.errors) == (None, {"why": "say more"})
    app.answer = {}
    await alice.submit()
    assert app.got[1]["view"]["state"]["values"]["why"]["reason"]["value"] == "x"
    assert alice.modal is None


async def test_errors_for_a_block_that_is_no_input_are_a_failure(workspace, app, client):
    alice = await open_modal(workspace, app, client, modal())
    app.answer = {"response_action": "errors", "errors": {"other": "x"}}
    assert (await alice.submit({"reason": "x"})).failure == "errors_for_unknown_blocks"


async def test_update_push_and_clear_do_what_they_say(workspace, app, client):
    alice = await open_modal(workspace, app, client, modal())
    first = alice.modal
    app.answer = {"response_action": "update", "view": modal(title=plain("Again"))}
    await alice.submit({"reason": "x"})
    assert (alice.modal.id, alice.modal.title, len(first.versions)) == (first.id, "Again", 2)
    app.answer = {"response_action": "push", "view": modal(title=plain("Sure?"))}
    await alice.submit({"reason": "x"})
    assert (alice.modal.title, alice.modal.previous_id, alice.modal.root_id) == ("Sure?", first.id, first.id)
    app.answer = {"response_action": "clear"}
    await alice.submit({"reason": "x"})
    assert alice.modal is None


async def test_an_update_that_slack_refuses_is_a_failure(workspace, app, client):
    alice = await open_modal(workspace, app, client, modal())
    app.answer = {"response_action": "update", "view": modal(title=plain("x" * 25))}
    assert (await alice.submit({"reason": "x"})).failure == "invalid_arguments"


async def test_closing_is_told_only_when_asked_for(workspace, app, client):
    alice = await open_modal(workspace, app, client, modal())
    assert (await alice.close_modal()).envelope is None
    alice = await open_modal(workspace, app, client, modal(notify_on_close=True))
    await alice.close_modal()
    [body] = app.got
    assert (body["type"], body["is_cleared"], alice.modal) == ("view_closed", False, None)


async def test_views_update_changes_the_open_modal_and_minds_the_hash(workspace, app, client):
    alice = await open_modal(workspace, app, client, modal())
    stale = alice.modal.hash
    await client.views_update(view_id=alice.modal.id, hash=stale, view=modal(title=plain("Loaded")))
    assert alice.modal.title == "Loaded"
    conflict = await refusal(client.views_update(view_id=alice.modal.id, hash=stale, view=modal()))
    assert conflict["error"] == "hash_conflict"
    await alice.close_modal()
    assert (await refusal(client.views_update(view_id="V404", view=modal())))["error"] == "not_found"


async def test_a_stack_holds_three_views(workspace, app, client):
    with_button = modal(actions(button()), text_input())
    alice = await open_modal(workspace, app, client, with_button)
    for expected in ("ok", "ok", "push_limit_reached"):
        await alice.press(alice.modal, "ack")
        push = client.views_push(trigger_id=app.got[-1]["trigger_id"], view=with_button)
        answer = (await push).data if expected == "ok" else await refusal(push)
        assert answer.get("error", "ok") == expected
    assert len(workspace.modals["U0ALICE"]) == 3


async def test_a_trigger_opens_one_modal_within_three_seconds(workspace, app, client, clock):
    card = await post(workspace, button())
    alice = workspace.person("alice")
    await alice.press(card, "ack")
    trigger = app.got[-1]["trigger_id"]
    await client.views_open(trigger_id=trigger, view=modal())
    again = await refusal(client.views_open(trigger_id=trigger, view=modal()))
    assert again["error"] == "exchanged_trigger_id"
    await alice.press(card, "ack")
    clock.advance(seconds=3.1)
    late = await refusal(client.views_open(trigger_id=app.got[-1]["trigger_id"], view=modal()))
    assert late["error"] == "expired_trigger_id"
    assert (await refusal(client.views_open(trigger_id="x", view=modal())))["error"] == "invalid_trigger_id"
