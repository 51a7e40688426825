"""What people do in the workspace reaches the app as Slack sends it, and they see what Slack would show."""

import pytest

from demo.workspace import NotConfirmed
from tests.demo.build_workspace import (
    CHANNEL,
    actions,
    button,
    confirm,
    home,
    option,
    overflow,
    section,
)
from tests.demo.listening_app import post


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
    card = await post(workspace, button(value="token-1", style="primary"))
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
    root = await post(workspace, button())
    reply = await post(workspace, button(), thread_ts=root.ts)
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
    card = await post(workspace, button(value="old"))
    await client.chat_update(channel=CHANNEL, ts=card.ts, text="recovered", blocks=[section()])
    with pytest.raises(LookupError, match="no such element"):
        await workspace.person("alice").press(card, "ack")
    await workspace.person("alice").press(card, "ack", version=0)
    assert app.got[0]["actions"][0]["value"] == "old"
    assert app.got[0]["message"]["blocks"] == card.versions[0].blocks


async def test_a_deleted_message_cannot_be_pressed(workspace, app, client):
    card = await post(workspace, button())
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
    card = await post(workspace, button(confirm=confirm()))
    alice = workspace.person("alice")
    with pytest.raises(NotConfirmed, match=r"ack asks: Reboot\?"):
        await alice.press(card, "ack")
    dismissed = await alice.press(card, "ack", confirm=False)
    assert (dismissed.acked, dismissed.envelope, app.got) == (False, None, [])
    assert (await alice.press(card, "ack", confirm=True)).acked
    assert len(app.got) == 1


async def test_an_entry_of_the_overflow_menu_is_chosen_by_its_words(workspace, app, client):
    card = await post(workspace, overflow(option("Why", "why"), option("Claim", "claim")))
    await workspace.person("alice").choose(card, "more", "Claim")
    [action] = app.got[0]["actions"]
    assert (action["type"], action["selected_option"]) == ("overflow", option("Claim", "claim"))
    with pytest.raises(LookupError, match="there are: Why, Claim"):
        await workspace.person("alice").choose(card, "more", "Reboot")


async def test_a_choice_stays_in_the_state_of_the_message(workspace, app, client):
    select = {"type": "static_select", "action_id": "hours", "options": [option("1 h"), option("4 h")]}
    card = await post(workspace, select, button())
    alice = workspace.person("alice")
    await alice.press(card, "ack")
    await alice.choose(card, "hours", "4 h")
    await alice.press(card, "ack")
    states = [body["state"]["values"]["acts"]["hours"]["selected_option"] for body in app.got]
    assert states == [None, option("4 h"), option("4 h")]
    assert app.got[1]["actions"][0]["selected_option"] == option("4 h")


async def test_a_shortcut_arrives_with_its_message(workspace, app, client):
    card = await post(workspace, button())
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
