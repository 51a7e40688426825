"""What people do in the workspace reaches the app as Slack sends it, and they see what Slack would show."""

from datetime import timedelta

import pytest

from demo.workspace import NotConfirmed, Workspace
from tests.demo.build_workspace import (
    CHANNEL,
    AdjustableClock,
    actions,
    app_of,
    button,
    client_of,
    confirm,
    connected,
    home,
    modal,
    option,
    overflow,
    plain,
    refusal,
    section,
    text_input,
)


@pytest.fixture
def clock():
    return AdjustableClock()


@pytest.fixture
async def workspace(clock):
    async with Workspace(now=clock, rate_limits=False, ack_within=timedelta(seconds=2)) as workspace:
        yield workspace


@pytest.fixture
async def app(workspace):
    """Keeps the payloads it got in `app.got`; acknowledges with `app.answer` where Slack takes an answer."""
    app = app_of(workspace)
    app.got, app.answer, app.responders = [], {}, []

    async def keep(ack, body, respond):
        app.got.append(body)
        app.responders.append(respond)
        await ack(**app.answer)

    async def take(ack, body):
        app.got.append(body)
        await ack(**app.answer)

    for command in ("/gpu-status", "/gpu-why"):
        app.command(command)(keep)
    for action in ("ack", "more", "hours"):
        app.action(action)(keep)
    app.shortcut("ack_message")(keep)
    app.view("snooze")(take)
    app.view_closed("snooze")(take)

    @app.event("app_home_opened")
    async def opened(body):
        app.got.append(body)

    async with connected(workspace, app, sockets=1):
        yield app


@pytest.fixture
def client(workspace):
    return client_of(workspace)


async def post(workspace, client, *elements, **fields):
    answer = await client.chat_postMessage(
        channel=CHANNEL, text="card", blocks=[actions(*elements, block_id="acts")], **fields
    )
    return workspace.channel(CHANNEL).messages[answer["ts"]]


async def test_a_command_arrives_with_everything_that_slack_sends(workspace, app):
    seen = await workspace.person("bob").command("/gpu-status", "gpu-07 @alice <b>")
    [body] = app.got
    assert (seen.acked, seen.failure, seen.ephemerals) == (True, None, [])
    assert body["command"] == "/gpu-status"
    assert body["text"] == "gpu-07 <@U0ALICE|alice> &lt;b&gt;"
    assert (body["user_id"], body["user_name"], body["team_id"]) == ("U0BOB", "bob", "T0GPUTEAM")
    assert (body["channel_id"], body["channel_name"]) == (CHANNEL, "gpu-oncall")
    assert body["response_url"].startswith("http://127.0.0.1:")
    assert body["trigger_id"]


async def test_the_answer_in_the_acknowledgement_is_seen_by_the_caller_only(workspace, app):
    app.answer = {"text": "8 of 8 healthy"}
    seen = await workspace.person("bob").command("/gpu-status")
    assert [(one.text, one.via) for one in seen.ephemerals] == [("8 of 8 healthy", "command")]
    assert workspace.person("alice").ephemerals == []
    assert workspace.channel(CHANNEL).shown == []


async def test_an_answer_for_the_channel_is_a_message_there(workspace, app):
    app.answer = {"text": "8 of 8 healthy", "response_type": "in_channel"}
    seen = await workspace.person("bob").command("/gpu-status")
    assert seen.ephemerals == []
    assert [message.text for message in workspace.channel(CHANNEL).cards] == ["8 of 8 healthy"]


async def test_an_answer_with_blocks_that_slack_refuses_is_a_failure(workspace, app):
    app.answer = {"text": "x", "blocks": [section("")]}
    seen = await workspace.person("bob").command("/gpu-status")
    assert (seen.failure, seen.ephemerals) == ("invalid_command_response", [])


async def test_a_person_cannot_act_in_a_channel_of_others(workspace, app):
    with pytest.raises(LookupError, match="erin is not in gpu-oncall"):
        await workspace.person("erin").command("/gpu-status")


async def test_a_press_arrives_with_everything_that_slack_sends(workspace, app, client):
    card = await post(workspace, client, button(value="token-1", style="primary"))
    seen = await workspace.person("alice").press(card, "Acknowledge")
    [body] = app.got
    assert seen.acked
    assert body["type"] == "block_actions"
    assert body["user"] == {"id": "U0ALICE", "username": "alice", "name": "alice", "team_id": "T0GPUTEAM"}
    assert body["team"] == {"id": "T0GPUTEAM", "domain": "gpu-cluster"}
    assert body["container"] == {
        "type": "message",
        "message_ts": card.ts,
        "channel_id": CHANNEL,
        "is_ephemeral": False,
    }
    assert body["channel"] == {"id": CHANNEL, "name": "gpu-oncall"}
    assert (body["message"]["ts"], body["message"]["text"]) == (card.ts, "card")
    assert body["state"] == {"values": {}}
    assert body["api_app_id"] == "A0GPUONCALL"
    [action] = body["actions"]
    assert action["action_ts"]
    assert {key: action[key] for key in ("type", "action_id", "block_id", "value", "style")} == {
        "type": "button",
        "action_id": "ack",
        "block_id": "acts",
        "value": "token-1",
        "style": "primary",
    }


async def test_a_press_in_a_thread_names_the_thread(workspace, app, client):
    root = await post(workspace, client, button())
    reply = await post(workspace, client, button(), thread_ts=root.ts)
    await workspace.person("alice").press(reply, "ack")
    assert app.got[0]["container"]["thread_ts"] == root.ts
    assert app.got[0]["message"]["thread_ts"] == root.ts


async def test_a_guest_of_another_team_is_recognisable_in_the_payload(workspace, app, client):
    answer = await client.chat_postMessage(channel="C0SHARED", text="card", blocks=[actions(button())])
    await workspace.person("erin").press(workspace.channel("C0SHARED").messages[answer["ts"]], "ack")
    assert (app.got[0]["user"]["team_id"], app.got[0]["team"]["id"]) == ("T0PARTNER", "T0PARTNER")


async def test_in_a_private_channel_the_payload_hides_its_name(workspace, app, client):
    answer = await client.chat_postMessage(channel="C0SECRET", text="card", blocks=[actions(button())])
    await workspace.person("alice").press(workspace.channel("C0SECRET").messages[answer["ts"]], "ack")
    assert app.got[0]["channel"] == {"id": "C0SECRET", "name": "privategroup"}


async def test_an_old_screen_presses_what_it_still_shows(workspace, app, client):
    card = await post(workspace, client, button(value="old"))
    await client.chat_update(channel=CHANNEL, ts=card.ts, text="recovered", blocks=[section()])
    with pytest.raises(LookupError, match="no such element"):
        await workspace.person("alice").press(card, "ack")
    await workspace.person("alice").press(card, "ack", version=0)
    assert app.got[0]["actions"][0]["value"] == "old"


async def test_a_deleted_message_cannot_be_pressed(workspace, app, client):
    card = await post(workspace, client, button())
    await client.chat_delete(channel=CHANNEL, ts=card.ts)
    with pytest.raises(LookupError, match="deleted"):
        await workspace.person("alice").press(card, "ack")


async def test_two_buttons_of_one_name_are_told_apart_by_block_or_value(workspace, app, client):
    blocks = [actions(button(value="1"), block_id="one"), actions(button(value="2"), block_id="two")]
    ts = (await client.chat_postMessage(channel=CHANNEL, text="x", blocks=blocks))["ts"]
    card = workspace.channel(CHANNEL).messages[ts]
    alice = workspace.person("alice")
    with pytest.raises(LookupError, match="2 such elements"):
        await alice.press(card, "ack")
    await alice.press(card, "ack", block_id="two")
    await alice.press(card, "ack", value="1")
    assert [body["actions"][0]["value"] for body in app.got] == ["2", "1"]


async def test_a_dialog_must_be_answered_and_no_sends_nothing(workspace, app, client):
    card = await post(workspace, client, button(confirm=confirm()))
    alice = workspace.person("alice")
    with pytest.raises(NotConfirmed, match=r"ack asks: Reboot\?"):
        await alice.press(card, "ack")
    dismissed = await alice.press(card, "ack", confirm=False)
    assert (dismissed.acked, dismissed.envelope, app.got) == (False, None, [])
    assert (await alice.press(card, "ack", confirm=True)).acked
    assert len(app.got) == 1


async def test_an_entry_of_the_overflow_menu_is_chosen_by_its_words(workspace, app, client):
    card = await post(workspace, client, overflow(option("Why", "why"), option("Claim", "claim")))
    await workspace.person("alice").choose(card, "more", "Claim")
    [action] = app.got[0]["actions"]
    assert (action["type"], action["selected_option"]) == ("overflow", option("Claim", "claim"))
    with pytest.raises(LookupError, match="there are: Why, Claim"):
        await workspace.person("alice").choose(card, "more", "Reboot")


async def test_a_choice_stays_in_the_state_of_the_message(workspace, app, client):
    select = {"type": "static_select", "action_id": "hours", "options": [option("1 h"), option("4 h")]}
    card = await post(workspace, client, select, button())
    alice = workspace.person("alice")
    await alice.press(card, "ack")
    await alice.choose(card, "hours", "4 h")
    await alice.press(card, "ack")
    states = [body["state"]["values"]["acts"]["hours"]["selected_option"] for body in app.got]
    assert states == [None, option("4 h"), option("4 h")]
    assert app.got[1]["actions"][0]["selected_option"] == option("4 h")


async def test_a_shortcut_arrives_with_its_message(workspace, app, client):
    card = await post(workspace, client, button())
    await workspace.person("alice").shortcut("ack_message", card)
    [body] = app.got
    assert (body["type"], body["callback_id"], body["message_ts"]) == ("message_action", "ack_message", card.ts)
    assert body["message"]["text"] == "card"


async def test_opening_the_home_tells_the_app_with_the_view_there_is(workspace, app, client):
    alice = workspace.person("alice")
    await alice.open_home()
    await client.views_publish(user_id="U0ALICE", view=home())
    await alice.open_home()
    await workspace.until(lambda: len(app.got) == 2)
    events = [body["event"] for body in app.got]
    assert [(event["type"], event["user"], event["tab"]) for event in events] == [
        ("app_home_opened", "U0ALICE", "home")
    ] * 2
    assert "view" not in events[0]
    assert events[1]["view"]["id"] == alice.home.id


async def test_a_press_in_the_home_carries_the_view_and_no_message(workspace, app, client):
    await client.views_publish(user_id="U0ALICE", view=home(actions(button())))
    alice = workspace.person("alice")
    await alice.press(alice.home, "ack")
    [body] = app.got
    assert body["container"] == {"type": "view", "view_id": alice.home.id}
    assert body["view"]["type"] == "home"
    assert not {"message", "channel", "response_url"} & set(body)


async def test_plain_messages_reach_the_app_only_when_it_subscribes(workspace, app):
    await workspace.person("alice").say("hello")
    assert (app.got, workspace.sockets.envelopes) == ([], [])

    @app.event("message")
    async def heard(body):
        app.got.append(body)

    workspace.events.add("message.channels")
    await workspace.person("alice").say("hello again")
    await workspace.until(lambda: app.got)
    assert app.got[0]["event"]["text"] == "hello again"


# Modals


async def open_modal(workspace, app, client, view):
    card = await post(workspace, client, button())
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
    card = await post(workspace, client, button())
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


# response_url


async def test_a_response_is_for_one_person_unless_it_says_otherwise(workspace, app, client):
    card = await post(workspace, client, button())
    seen = await workspace.person("alice").press(card, "ack")
    [respond] = app.responders
    await respond("only you")
    await respond("all of you", response_type="in_channel", replace_original=False)
    assert [(one.text, one.via) for one in seen.ephemerals] == [("only you", "response_url")]
    assert [message.text for message in workspace.channel(CHANNEL).shown] == ["card", "all of you"]


async def test_a_response_replaces_or_deletes_the_original(workspace, app, client):
    card = await post(workspace, client, button())
    await workspace.person("alice").press(card, "ack")
    [respond] = app.responders
    await respond("recovered", replace_original=True)
    assert (card.text, card.blocks, card.edits) == ("recovered", [], 1)
    await respond(delete_original=True)
    assert workspace.channel(CHANNEL).shown == []


async def test_an_ephemeral_is_pressed_without_a_message_and_replaced_by_its_response(workspace, app, client):
    await client.chat_postEphemeral(channel=CHANNEL, user="U0ALICE", text="sure?", blocks=[actions(button())])
    alice = workspace.person("alice")
    [shown] = alice.ephemerals
    with pytest.raises(LookupError, match="only U0ALICE sees this"):
        await workspace.person("bob").press(shown, "ack")
    await alice.press(shown, "ack")
    assert app.got[0]["container"]["is_ephemeral"] is True
    assert "message" not in app.got[0]
    await app.responders[0]("done", replace_original=True)
    assert [one.text for one in alice.ephemerals] == ["done"]
    await app.responders[0](delete_original=True)
    assert alice.ephemerals == []


async def test_a_response_url_is_good_for_five_uses(workspace, app):
    await workspace.person("alice").command("/gpu-status")
    [respond] = app.responders
    statuses = [(await respond(str(number))).status_code for number in range(6)]
    assert statuses == [200] * 5 + [404]
    assert len(workspace.person("alice").ephemerals) == 5


async def test_a_response_url_is_good_for_thirty_minutes(workspace, app, clock):
    await workspace.person("alice").command("/gpu-status")
    clock.advance(minutes=31)
    answer = await app.responders[0]("late")
    assert (answer.status_code, "expired_url" in answer.body) == (404, True)


async def test_a_refused_response_does_not_count_as_a_use(workspace, app):
    await workspace.person("alice").command("/gpu-status")
    assert (await app.responders[0](text="x", blocks=[section("")])).status_code == 400
    assert [(await app.responders[0]("x")).status_code for _ in range(5)] == [200] * 5
