"""The Web API of the workspace, spoken to by the real client."""

import json
from datetime import timedelta

import aiohttp
import pytest

from demo.workspace import Workspace
from tests.demo.build_workspace import (
    CHANNEL,
    StandingClock,
    client_of,
    refusal,
    section,
)


async def test_auth_test_names_the_app_its_team_and_its_scopes(workspace, client):
    answer = await client.auth_test()
    assert (answer["team_id"], answer["user_id"]) == ("T0GPUTEAM", "U0GPUONCALL")
    assert "chat:write" in answer.headers["X-OAuth-Scopes"].split(",")


@pytest.mark.parametrize(
    ("token", "error"),
    [("xoxb-other", "invalid_auth"), ("", "not_authed"), ("app", "not_allowed_token_type")],
)
async def test_a_wrong_token_is_refused(workspace, client, token, error):
    client.token = workspace.app_token if token == "app" else token
    assert (await refusal(client.auth_test()))["error"] == error


async def test_a_revoked_token_is_refused(workspace, client):
    workspace.token_revoked = True
    assert (await refusal(client.auth_test()))["error"] == "token_revoked"


async def test_a_missing_scope_is_named(workspace, client):
    workspace.scopes.remove("chat:write")
    answer = await refusal(client.chat_postMessage(channel=CHANNEL, text="hi"))
    assert (answer["error"], answer["needed"]) == ("missing_scope", "chat:write")
    assert "users:read" in answer["provided"]


async def test_history_needs_the_scope_of_that_kind_of_channel(workspace, client):
    workspace.scopes.remove("groups:history")
    assert (await client.conversations_history(channel=CHANNEL))["ok"]
    assert (await refusal(client.conversations_history(channel="C0SECRET")))["needed"] == "groups:history"


async def test_an_unknown_method_is_refused(client):
    assert (await refusal(client.api_call("chat.shout")))["error"] == "unknown_method"


async def test_a_posted_message_is_in_the_channel_with_its_flags(workspace, client):
    answer = await client.chat_postMessage(
        channel=CHANNEL, text="STALL gpu-07", blocks=[section()], unfurl_links=False, unfurl_media=False
    )
    [message] = workspace.channel("gpu-oncall").cards
    assert (message.ts, message.text, message.edits) == (answer["ts"], "STALL gpu-07", 0)
    assert message.blocks[0]["text"]["text"] == "GPU 3 is idle"
    assert message.blocks[0]["block_id"]
    assert (message.unfurl_links, message.unfurl_media) == (False, False)


async def test_form_and_json_bodies_mean_the_same(workspace):
    body = {"channel": CHANNEL, "text": "hi", "blocks": json.dumps([section()])}
    headers = {"Authorization": f"Bearer {workspace.bot_token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for arguments in ({"data": body}, {"json": {**body, "blocks": [section()]}}, {"json": body}):
            async with session.post(workspace.api_url + "chat.postMessage", **arguments) as answer:
                assert (await answer.json())["ok"]
    assert [message.blocks[0]["text"] for message in workspace.channel(CHANNEL).cards] == [section()["text"]] * 3


async def test_timestamps_are_unique_and_increase_while_the_clock_stands_still():
    async with Workspace(now=StandingClock(), rate_limits=False) as workspace:
        client = client_of(workspace)
        stamps = [(await client.chat_postMessage(channel=CHANNEL, text="hi"))["ts"] for _ in range(3)]
    assert stamps == sorted(set(stamps))


POST_REFUSALS = {
    "unknown channel": ({"channel": "C404"}, "channel_not_found"),
    "not a member": ({"channel": "C0GENERAL"}, "not_in_channel"),
    "archived": ({"channel": "C0OLD"}, "is_archived"),
    "nothing to say": ({"text": ""}, "no_text"),
    "unknown thread": ({"thread_ts": "1.000001"}, "thread_not_found"),
    "metadata without a type": ({"metadata": {"event_payload": {}}}, "invalid_metadata_schema"),
    "metadata too large": (
        {"metadata": {"event_type": "card", "event_payload": {"x": "y" * 9000}}},
        "metadata_too_large",
    ),
    "blocks that are no JSON": ({"blocks": "{"}, "invalid_blocks_format"),
    "too much in all": ({"blocks": [section("x" * 3000)] * 4}, "msg_blocks_too_long"),
}


@pytest.mark.filterwarnings("ignore:The top-level `text` argument is missing:UserWarning")
@pytest.mark.parametrize(("fields", "error"), POST_REFUSALS.values(), ids=POST_REFUSALS)
async def test_a_post_is_refused_with_slacks_error(workspace, client, fields, error):
    answer = await refusal(client.chat_postMessage(**{"channel": CHANNEL, "text": "hi", **fields}))
    assert answer["error"] == error
    assert all(not channel.messages for channel in workspace.channels.values())


async def test_invalid_blocks_say_where(client):
    answer = await refusal(client.chat_postMessage(channel=CHANNEL, text="hi", blocks=[section("x" * 3001)]))
    complaint = "must be less than 3001 characters [json-pointer:/blocks/0/text/text]"
    assert (answer["error"], answer["errors"]) == ("invalid_blocks", [complaint])
    assert answer["response_metadata"]["messages"] == [f"[ERROR] {complaint}"]


async def test_a_private_channel_without_the_app_does_not_exist_for_it(workspace, client):
    workspace.channel("gpu-private").members.remove("U0GPUONCALL")
    answer = await refusal(client.chat_postMessage(channel="C0SECRET", text="hi"))
    assert answer["error"] == "channel_not_found"


async def test_text_of_more_than_40000_characters_is_cut(workspace, client):
    await client.chat_postMessage(channel=CHANNEL, text="x" * 40_001)
    assert len(workspace.channel(CHANNEL).cards[0].text) == 40_000


async def test_an_update_keeps_every_version_with_its_time(workspace, client, clock):
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one", blocks=[section("one")]))["ts"]
    clock.advance(minutes=17)
    await client.chat_update(channel=CHANNEL, ts=ts, text="two", blocks=[section("two")])
    message = workspace.channel(CHANNEL).messages[ts]
    assert [version.text for version in message.versions] == ["one", "two"]
    assert message.versions[1].at - message.versions[0].at >= timedelta(minutes=17)


async def test_an_update_with_text_alone_removes_the_blocks(workspace, client):
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one", blocks=[section()]))["ts"]
    answer = await client.chat_update(channel=CHANNEL, ts=ts, text="two")
    assert "blocks" not in answer["message"]
    assert answer["message"]["edited"]["user"] == "U0GPUONCALL"
    assert workspace.channel(CHANNEL).messages[ts].blocks == []


async def test_an_update_with_blocks_carries_no_edited_mark(client):
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one"))["ts"]
    answer = await client.chat_update(channel=CHANNEL, ts=ts, text="two", blocks=[section()])
    assert "edited" not in answer["message"]


@pytest.mark.filterwarnings("ignore:The top-level `text` argument is missing:UserWarning")
async def test_an_update_keeps_metadata_unless_it_brings_other(workspace, client):
    first = {"event_type": "card", "event_payload": {"id": 1}}
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one", metadata=first))["ts"]
    await client.chat_update(channel=CHANNEL, ts=ts, text="two")
    assert workspace.channel(CHANNEL).messages[ts].metadata == first
    await client.chat_update(channel=CHANNEL, ts=ts, metadata={"event_type": "card", "event_payload": {"id": 2}})
    message = workspace.channel(CHANNEL).messages[ts]
    assert (message.metadata["event_payload"], message.text) == ({"id": 2}, "two")


async def _foreign(workspace, client):
    return (await workspace.person("bob").say("hello")).ts


async def _gone(workspace, client):
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one"))["ts"]
    workspace.channel(CHANNEL).messages[ts].deleted_at = workspace.now()
    return ts


async def _closed(workspace, client):
    workspace.edit_window = timedelta(minutes=5)
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one"))["ts"]
    workspace.now.advance(minutes=6)
    return ts


async def _archived(workspace, client):
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one"))["ts"]
    workspace.channel(CHANNEL).is_archived = True
    return ts


async def _unknown(workspace, client):
    return "1.000001"


UPDATE_REFUSALS = [
    (_foreign, "cant_update_message"),
    (_gone, "message_not_found"),
    (_closed, "edit_window_closed"),
    (_archived, "is_inactive"),
    (_unknown, "message_not_found"),
]


@pytest.mark.parametrize(("arrange", "error"), UPDATE_REFUSALS, ids=[error[0].__name__ for error in UPDATE_REFUSALS])
async def test_an_update_is_refused_with_slacks_error(workspace, client, arrange, error):
    ts = await arrange(workspace, client)
    assert (await refusal(client.chat_update(channel=CHANNEL, ts=ts, text="two")))["error"] == error
    assert "two" not in [message.text for message in workspace.channel(CHANNEL).messages.values()]


async def test_an_update_of_more_than_4000_characters_is_refused(client):
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one"))["ts"]
    assert (await refusal(client.chat_update(channel=CHANNEL, ts=ts, text="x" * 4001)))["error"] == "msg_too_long"
    assert (await client.chat_update(channel=CHANNEL, ts=ts, text="x" * 4000))["ok"]


async def test_a_deleted_message_is_no_longer_shown_but_remembered(workspace, client):
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one"))["ts"]
    await client.chat_delete(channel=CHANNEL, ts=ts)
    channel = workspace.channel(CHANNEL)
    assert channel.shown == []
    assert channel.messages[ts].deleted_at is not None
    assert (await client.conversations_history(channel=CHANNEL))["messages"] == []


async def test_only_own_messages_can_be_deleted(workspace, client):
    ts = await _foreign(workspace, client)
    assert (await refusal(client.chat_delete(channel=CHANNEL, ts=ts)))["error"] == "cant_delete_message"


async def test_a_thread_counts_its_replies_and_joins_replies_to_replies(workspace, client):
    root = (await client.chat_postMessage(channel=CHANNEL, text="root"))["ts"]
    reply = (await client.chat_postMessage(channel=CHANNEL, text="reply", thread_ts=root))["ts"]
    await client.chat_postMessage(channel=CHANNEL, text="reply to the reply", thread_ts=reply)
    await workspace.person("alice").say("me too", thread=workspace.channel(CHANNEL).messages[reply])
    [shown] = (await client.conversations_history(channel=CHANNEL))["messages"]
    assert (shown["reply_count"], shown["reply_users"]) == (3, ["U0GPUONCALL", "U0ALICE"])
    thread = (await client.conversations_replies(channel=CHANNEL, ts=root))["messages"]
    assert [message["text"] for message in thread] == ["root", "reply", "reply to the reply", "me too"]
    assert len(workspace.channel(CHANNEL).replies(workspace.channel(CHANNEL).messages[root])) == 3


async def test_history_comes_newest_first_page_by_page_and_the_sdk_follows_the_cursor(client):
    for number in range(5):
        await client.chat_postMessage(channel=CHANNEL, text=str(number))
    pages = [
        [message["text"] for message in page["messages"]]
        async for page in await client.conversations_history(channel=CHANNEL, limit=2)
    ]
    assert pages == [["4", "3"], ["2", "1"], ["0"]]


async def test_history_is_bounded_by_oldest_and_latest(client):
    stamps = [(await client.chat_postMessage(channel=CHANNEL, text=str(number)))["ts"] for number in range(4)]

    async def texts(**bounds):
        answer = await client.conversations_history(channel=CHANNEL, **bounds)
        return [message["text"] for message in answer["messages"]]

    assert await texts(oldest=stamps[1]) == ["3", "2"]
    assert await texts(oldest=stamps[1], inclusive=True) == ["3", "2", "1"]
    assert await texts(latest=stamps[1]) == ["0"]
    assert await texts(oldest=stamps[0], latest=stamps[3]) == ["2", "1"]


async def test_metadata_comes_back_when_asked_for(client):
    metadata = {"event_type": "card", "event_payload": {"key": "a1"}}
    await client.chat_postMessage(channel=CHANNEL, text="one", metadata=metadata)
    [without] = (await client.conversations_history(channel=CHANNEL))["messages"]
    [with_it] = (await client.conversations_history(channel=CHANNEL, include_all_metadata=True))["messages"]
    assert "metadata" not in without
    assert with_it["metadata"] == metadata


async def test_an_ephemeral_is_seen_by_one_person_and_in_no_history(workspace, client):
    await client.chat_postEphemeral(channel=CHANNEL, user="U0ALICE", text="only you")
    assert [one.text for one in workspace.person("alice").ephemerals] == ["only you"]
    assert workspace.person("bob").ephemerals == []
    assert (await client.conversations_history(channel=CHANNEL))["messages"] == []


async def test_an_ephemeral_for_somebody_elsewhere_is_refused(client):
    answer = await refusal(client.chat_postEphemeral(channel=CHANNEL, user="U0ERIN", text="you"))
    assert answer["error"] == "user_not_in_channel"


async def test_a_permalink_names_the_message(client):
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one"))["ts"]
    link = (await client.chat_getPermalink(channel=CHANNEL, message_ts=ts))["permalink"]
    assert link == f"https://gpu-cluster.slack.com/archives/{CHANNEL}/p{ts.replace('.', '')}"
