"""Answers through response_url, and what people see of them."""

import pytest

from tests.demo.build_workspace import CHANNEL, actions, button, section
from tests.demo.listening_app import post


async def test_a_response_is_for_one_person_unless_it_says_otherwise(workspace, app, client):
    card = await post(workspace, button())
    seen = await workspace.person("alice").press(card, "ack")
    [respond] = app.responders
    await respond("only you")
    await respond("all of you", response_type="in_channel", replace_original=False)
    assert [(one.text, one.via) for one in seen.ephemerals] == [("only you", "response_url")]
    assert [message.text for message in workspace.channel(CHANNEL).shown] == ["card", "all of you"]


async def test_a_response_replaces_or_deletes_the_original(workspace, app, client):
    card = await post(workspace, button())
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


async def test_the_limit_for_all_texts_of_a_post_does_not_bind_a_response(workspace, app):
    await workspace.person("alice").command("/gpu-status")
    answer = await app.responders[0](text="x", blocks=[section("x" * 3000)] * 4)
    assert answer.status_code == 200
