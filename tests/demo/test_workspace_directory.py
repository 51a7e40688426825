"""Channels, people, files, views and the record of calls, spoken to by the real client."""

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError

from tests.demo.build_workspace import CHANNEL, actions, button, home, modal, refusal, section


async def test_channels_are_listed_as_the_app_sees_them(client):
    answer = await client.conversations_list(types="public_channel,private_channel", exclude_archived=True)
    assert [channel["name"] for channel in answer["channels"]] == [
        "gpu-oncall",
        "gpu-candidates",
        "gpu-private",
        "gpu-partners",
        "general",
    ]
    info = (await client.conversations_info(channel="C0GENERAL"))["channel"]
    assert (info["is_member"], info["is_archived"]) == (False, False)
    assert "U0ALICE" in (await client.conversations_members(channel=CHANNEL))["members"]


async def test_a_direct_message_is_opened_once(workspace, client):
    first = (await client.conversations_open(users=["U0ALICE"]))["channel"]["id"]
    await client.chat_postMessage(channel="U0ALICE", text="hello")
    assert first.startswith("D")
    assert (await client.conversations_open(users="U0ALICE"))["channel"]["id"] == first
    assert [message.text for message in workspace.channels[first].shown] == ["hello"]


async def test_people_and_groups_are_told_apart(client):
    alice = (await client.users_info(user="U0ALICE", include_locale=True))["user"]
    assert (alice["tz"], alice["is_restricted"], alice["locale"]) == ("Europe/London", False, "en-GB")
    bob = (await client.users_info(user="U0BOB"))["user"]
    assert bob["tz_offset"] == 9 * 3600
    assert (await client.users_info(user="U0DAVE"))["user"]["is_restricted"]
    erin = (await client.users_info(user="U0ERIN"))["user"]
    assert (erin["team_id"], erin["is_stranger"]) == ("T0PARTNER", True)
    assert (await refusal(client.users_info(user="U404")))["error"] == "user_not_found"
    assert len((await client.users_list())["members"]) == 6
    [admins, _] = (await client.usergroups_list(include_users=True))["usergroups"]
    assert admins["users"] == ["U0ALICE", "U0BOB"]
    assert (await client.usergroups_users_list(usergroup="S0ONCALL"))["users"] == ["U0CAROL"]
    assert (await refusal(client.usergroups_users_list(usergroup="S404")))["error"] == "no_such_subteam"


async def test_a_file_is_uploaded_in_three_steps_into_a_thread(workspace, client):
    root = (await client.chat_postMessage(channel=CHANNEL, text="report"))["ts"]
    answer = await client.files_upload_v2(
        channel=CHANNEL,
        thread_ts=root,
        content=b"\x89PNG",
        filename="heat.png",
        title="Heat map",
        alt_txt="GPU 6 is free at night",
        initial_comment="This week",
    )
    file = workspace.files[answer["file"]["id"]]
    assert (file.content, file.title, file.alt_text) == (b"\x89PNG", "Heat map", "GPU 6 is free at night")
    [reply] = workspace.channel(CHANNEL).replies(workspace.channel(CHANNEL).messages[root])
    assert (reply.text, reply.files) == ("This week", [file.id])


async def test_an_empty_file_is_refused(client):
    answer = await refusal(client.files_getUploadURLExternal(filename="a.csv", length=0))
    assert answer["error"] == "invalid_arguments"


async def test_a_file_that_was_never_uploaded_cannot_be_shared(client):
    file_id = (await client.files_getUploadURLExternal(filename="a.csv", length=3))["file_id"]
    answer = await refusal(client.files_completeUploadExternal(files=[{"id": file_id, "title": "a"}]))
    assert answer["error"] == "file_not_found"


async def test_a_reaction_is_added_once(workspace, client):
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one"))["ts"]
    await client.reactions_add(channel=CHANNEL, timestamp=ts, name="eyes")
    again = await refusal(client.reactions_add(channel=CHANNEL, timestamp=ts, name="eyes"))
    assert again["error"] == "already_reacted"
    assert workspace.channel(CHANNEL).messages[ts].reactions == {"eyes": ["U0GPUONCALL"]}


async def test_blocks_validate_names_the_wrong_place_and_posts_nothing(workspace, client):
    assert (await client.blocks_validate(blocks=[section()]))["ok"]
    assert (await client.blocks_validate(view=modal()))["ok"]
    answer = await refusal(client.blocks_validate(message={"blocks": [actions(button(), button())]}))
    assert (answer["error"], answer["errors"][0]["pointer"]) == ("invalid_message", "/blocks/0/elements")
    assert workspace.channel(CHANNEL).messages == {}


async def test_a_home_is_published_for_one_person(workspace, client):
    first = await client.views_publish(user_id="U0ALICE", view=home(section("one")))
    await client.views_publish(user_id="U0ALICE", view=home(section("two")), hash=first["view"]["hash"])
    alice = workspace.person("alice")
    assert [version["blocks"][0]["text"]["text"] for version in alice.home.versions] == ["one", "two"]
    assert workspace.person("bob").home is None
    stale = await refusal(client.views_publish(user_id="U0ALICE", view=home(), hash=first["view"]["hash"]))
    assert stale["error"] == "hash_conflict"


async def test_a_view_that_slack_refuses_says_where(client):
    answer = await refusal(client.views_publish(user_id="U0ALICE", view=home(section(""))))
    assert answer["error"] == "invalid_arguments"
    assert "/view/blocks/0/text/text" in answer["response_metadata"]["messages"][0]


async def test_every_call_is_recorded_without_the_token(workspace, client):
    with pytest.raises(SlackApiError):
        await client.chat_postMessage(channel="C404", text="hi", blocks=[section()])
    async with aiohttp.ClientSession() as session:
        await session.post(workspace.api_url + "auth.test", data={"token": workspace.bot_token})
    post, test = workspace.calls
    assert (post.method, post.outcome) == ("chat.postMessage", "channel_not_found")
    assert post.arguments["blocks"] == [section()]
    assert (test.outcome, test.arguments) == ("ok", {"token": "<secret>"})
