"""Socket Mode as Slack does it, with the real clients on the other end."""

import asyncio
import re
from datetime import timedelta

import aiohttp
import pytest

from demo.workspace import Workspace
from tests.demo.build_workspace import CHANNEL, actions, app_of, button, client_of, connected, refusal

PATIENT, HASTY = timedelta(seconds=20), timedelta(seconds=0.2)


@pytest.fixture
async def workspace():
    async with Workspace(rate_limits=False, ack_within=PATIENT) as workspace:
        yield workspace


@pytest.fixture
def app(workspace):
    """Counts what it handles in `app.handled`."""
    app = app_of(workspace)
    app.handled = []

    @app.action("ack")
    async def acknowledge(ack, body):
        await ack()
        app.handled.append(body["actions"][0]["action_ts"])

    @app.event("app_home_opened")
    async def opened(event):
        app.handled.append(event["user"])

    return app


async def post_button(workspace):
    ts = (await client_of(workspace).chat_postMessage(channel=CHANNEL, text="x", blocks=[actions(button())]))["ts"]
    return workspace.channel(CHANNEL).messages[ts]


async def test_each_envelope_goes_to_exactly_one_of_two_sockets_and_not_always_the_same(workspace, app):
    async with connected(workspace, app, sockets=2):
        card = await post_button(workspace)
        presses = [await workspace.person("alice").press(card, "ack") for _ in range(12)]
        assert all(seen.acked for seen in presses)
        await workspace.until(lambda: len(app.handled) == 12)
    assert len(set(app.handled)) == 12
    assert {seen.envelope.socket for seen in presses} == {1, 2}
    assert all(timedelta(0) < seen.envelope.acked_at - seen.envelope.sent_at < PATIENT for seen in presses)


async def test_a_click_that_nobody_acknowledges_in_time_is_seen_as_a_failure(workspace, app):
    slow = asyncio.Event()

    @app.action("slow")
    async def acknowledge_late(ack):
        await slow.wait()
        await ack()

    async with connected(workspace, app, sockets=1):
        client = client_of(workspace)
        ts = (await client.chat_postMessage(channel=CHANNEL, text="x", blocks=[actions(button("slow"))]))["ts"]
        workspace.sockets.ack_within = HASTY
        seen = await workspace.person("alice").press(workspace.channel(CHANNEL).messages[ts], "slow")
        assert (seen.acked, seen.failure) == (False, "timeout")
        slow.set()
        await workspace.until(lambda: seen.envelope.acked_at)
    assert not seen.acked
    assert len(workspace.sockets.envelopes) == 1


async def test_an_action_that_the_app_does_not_know_is_a_failure_for_the_person(workspace, app):
    async with connected(workspace, app, sockets=1):
        client = client_of(workspace)
        ts = (await client.chat_postMessage(channel=CHANNEL, text="x", blocks=[actions(button("unknown"))]))["ts"]
        workspace.sockets.ack_within = HASTY
        seen = await workspace.person("alice").press(workspace.channel(CHANNEL).messages[ts], "unknown")
    assert seen.failure == "timeout"


async def test_without_a_socket_the_person_sees_a_failure_at_once(workspace):
    card = await post_button(workspace)
    seen = await workspace.person("alice").press(card, "ack")
    assert (seen.failure, seen.envelope.socket) == ("no_connection", None)


async def test_an_event_that_is_not_acknowledged_is_repeated_three_times_with_the_same_id(workspace, app):
    workspace.sockets.ack_within = HASTY
    workspace.sockets.swallow(3)
    envelopes = workspace.sockets.envelopes
    async with connected(workspace, app, sockets=1):
        opening = asyncio.create_task(workspace.person("alice").open_home())
        await workspace.until(lambda: len(envelopes) == 3)
        workspace.sockets.ack_within = PATIENT  # with the fourth, which arrives
        assert (await opening).acked
        await workspace.until(lambda: app.handled)
    assert [envelope.retry_attempt for envelope in envelopes] == [0, 1, 2, 3]
    assert len({envelope.payload["event_id"] for envelope in envelopes}) == 1
    assert app.handled == ["U0ALICE"]


async def test_an_envelope_can_be_delivered_twice(workspace, app):
    workspace.sockets.duplicate()
    async with connected(workspace, app, sockets=1):
        card = await post_button(workspace)
        await workspace.person("alice").press(card, "ack")
        await workspace.until(lambda: len(app.handled) == 2)
    assert len(set(app.handled)) == 1


@pytest.mark.parametrize("goodbye", ["warn", "refresh", "close"])
async def test_the_client_comes_back_after_its_socket_was_ended(workspace, app, goodbye):
    async with connected(workspace, app, sockets=1):
        card = await post_button(workspace)
        await getattr(workspace.sockets, goodbye)(1)
        await workspace.until(lambda: workspace.sockets.numbers == [2])
        assert (await workspace.person("alice").press(card, "ack")).acked


async def test_with_two_sockets_the_loss_of_one_loses_no_click(workspace, app):
    async with connected(workspace, app, sockets=2):
        card = await post_button(workspace)
        await workspace.sockets.close(1)
        presses = [await workspace.person("alice").press(card, "ack") for _ in range(6)]
        assert [seen.failure for seen in presses] == [None] * 6
        await workspace.until(lambda: workspace.sockets.count == 2)


async def test_the_client_comes_back_after_the_workspace_was_unreachable(workspace, app):
    async with connected(workspace, app, sockets=1):
        card = await post_button(workspace)
        await workspace.stop_listening()
        assert workspace.sockets.count == 0
        assert (await workspace.person("alice").press(card, "ack")).failure == "no_connection"
        await workspace.listen()
        await workspace.until_connected(1, seconds=15)
        assert (await workspace.person("alice").press(card, "ack")).acked


async def test_a_person_can_wait_for_a_connection_that_opens_after_refusals(workspace, app):
    workspace.faults.refuse("apps.connections.open", "internal_error", times=1)
    async with connected(workspace, app, sockets=1):
        assert [call.outcome for call in workspace.calls_of("apps.connections.open")] == ["internal_error", "ok"]


async def open_socket(workspace, session):
    client = client_of(workspace)
    url = (await client.apps_connections_open(app_token=workspace.app_token))["url"]
    return await session.ws_connect(url)


async def test_hello_counts_the_sockets_and_an_eleventh_is_turned_away(workspace):
    async with aiohttp.ClientSession() as session:
        sockets = [await open_socket(workspace, session) for _ in range(10)]
        greetings = [await socket.receive_json() for socket in sockets]
        assert [greeting["num_connections"] for greeting in greetings] == list(range(1, 11))
        assert greetings[0]["debug_info"]["approximate_connection_time"] > 0
        last = await open_socket(workspace, session)
        assert (await last.receive_json())["reason"] == "too_many_websockets"
        assert (await last.receive()).type is aiohttp.WSMsgType.CLOSE
        assert workspace.sockets.count == 10


async def test_a_disabled_link_says_so_and_closes(workspace):
    async with aiohttp.ClientSession() as session:
        socket = await open_socket(workspace, session)
        await socket.receive_json()
        await workspace.sockets.disable_link()
        assert (await socket.receive_json())["reason"] == "link_disabled"
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_pings_are_answered_with_their_own_words(workspace):
    async with aiohttp.ClientSession() as session:
        url = (await client_of(workspace).apps_connections_open(app_token=workspace.app_token))["url"]
        socket = await session.ws_connect(url, autoping=False)
        await socket.receive_json()
        await socket.ping(b"sdk-ping-pong:1")
        pong = await socket.receive()
        assert (pong.type, pong.data) == (aiohttp.WSMsgType.PONG, b"sdk-ping-pong:1")
        await socket.close()


async def test_an_address_opens_one_socket_only(workspace):
    url = (await client_of(workspace).apps_connections_open(app_token=workspace.app_token))["url"]
    async with aiohttp.ClientSession() as session:
        first = await session.ws_connect(url)
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(url)
        await first.close()


async def test_a_connection_is_opened_with_the_app_token_in_the_header_only(workspace):
    client = client_of(workspace)
    wrong = await refusal(client.apps_connections_open(app_token=workspace.bot_token))
    assert wrong["error"] == "not_allowed_token_type"
    async with aiohttp.ClientSession() as session:
        url = workspace.api_url + "apps.connections.open"
        async with session.post(url, data={"token": workspace.app_token}) as answer:
            assert (await answer.json())["error"] == "not_authed"


async def test_the_envelopes_of_a_socket_say_what_slack_says(workspace):
    async with aiohttp.ClientSession() as session:
        socket = await open_socket(workspace, session)
        await socket.receive_json()
        typing = asyncio.create_task(workspace.person("alice").command("/gpu-status", "gpu-07"))
        frame = await socket.receive_json()
        assert frame["type"] == "slash_commands"
        assert frame["accepts_response_payload"] is True
        assert re.fullmatch("[0-9a-f]{32}", frame["envelope_id"])
        await socket.send_json({"envelope_id": frame["envelope_id"], "payload": {"text": "healthy"}})
        seen = await typing
        assert [one.text for one in seen.ephemerals] == ["healthy"]
        opening = asyncio.create_task(workspace.person("alice").open_home())
        frame = await socket.receive_json()
        assert (frame["type"], frame["retry_attempt"], frame["retry_reason"]) == ("events_api", 0, "")
        await socket.send_json({"envelope_id": frame["envelope_id"]})
        assert (await opening).acked
        await socket.close()


async def test_a_change_of_a_group_is_told_to_the_app(workspace, app):
    @app.event("subteam_members_changed")
    async def changed(event):
        app.handled.append((event["added_users"], event["removed_users"]))

    async with connected(workspace, app, sockets=1):
        await workspace.change_group("gpu-admins", add=["carol"], remove=["alice"])
        await workspace.until(lambda: app.handled)
    assert app.handled == [(["U0CAROL"], ["U0ALICE"])]
    assert workspace.group("gpu-admins").members == ["U0BOB", "U0CAROL"]
