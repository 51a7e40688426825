"""Everything that can go wrong between an app and Slack, on demand."""

import asyncio

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import (
    AsyncConnectionErrorRetryHandler,
    AsyncRateLimitErrorRetryHandler,
)

from demo.workspace import Workspace
from tests.demo.build_workspace import CHANNEL, StandingClock, client_of, refusal

BROKEN = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


@pytest.fixture
def clock():
    return StandingClock()


def posted(workspace):
    return [message.text for message in workspace.channel(CHANNEL).shown]


async def post(client, text="hi"):
    return await client.chat_postMessage(channel=CHANNEL, text=text)


async def test_a_rate_limit_says_how_long_to_wait_and_ends_after_its_count(workspace, client):
    workspace.faults.rate_limited("chat.postMessage", retry_after=7, times=2)
    for _ in range(2):
        with pytest.raises(SlackApiError) as error:
            await post(client)
        assert error.value.response["error"] == "ratelimited"
        assert (error.value.response.status_code, error.value.response.headers["Retry-After"]) == (429, "7")
    await post(client)
    assert posted(workspace) == ["hi"]


async def test_the_sdk_waits_for_a_rate_limit_when_it_is_told_to(workspace):
    workspace.faults.rate_limited("chat.postMessage", retry_after=0)
    client = client_of(workspace, retry_handlers=[AsyncRateLimitErrorRetryHandler()])
    assert (await post(client))["ok"]
    assert [call.outcome for call in workspace.calls] == ["ratelimited", "ok"]


async def test_a_fault_hits_its_own_method_only(workspace, client):
    workspace.faults.rate_limited("chat.update", times=None)
    assert (await post(client))["ok"]


async def test_a_fault_for_a_time_ends_with_it(workspace, client, clock):
    workspace.faults.refuse("chat.postMessage", "internal_error", times=None, for_seconds=60)
    assert (await refusal(post(client)))["error"] == "internal_error"
    clock.advance(seconds=59)
    assert (await refusal(post(client)))["error"] == "internal_error"
    clock.advance(seconds=1)
    assert (await post(client))["ok"]


async def test_a_server_error_has_a_body_that_is_no_json(workspace, client):
    workspace.faults.server_error("*", status=503, text="upstream connect error")
    with pytest.raises(SlackApiError) as error:
        await post(client)
    assert error.value.response.status_code == 503
    assert posted(workspace) == []


async def test_a_dropped_call_had_no_effect(workspace, client):
    workspace.faults.drop("chat.postMessage")
    with pytest.raises(BROKEN):
        await post(client)
    assert posted(workspace) == []
    assert workspace.calls[0].outcome == "dropped_before_processing"


async def test_a_lost_reply_had_its_effect(workspace, client):
    workspace.faults.lose_reply("chat.postMessage")
    with pytest.raises(BROKEN):
        await post(client)
    assert posted(workspace) == ["hi"]
    assert workspace.calls[0].outcome == "reply_lost_after_processing"


async def test_a_lost_reply_makes_the_default_client_post_twice(workspace):
    workspace.faults.lose_reply("chat.postMessage")
    await post(client_of(workspace, retry_handlers=[AsyncConnectionErrorRetryHandler()]))
    assert posted(workspace) == ["hi", "hi"]


async def test_a_slow_answer_comes_after_its_effect(workspace, client):
    workspace.faults.slow("chat.postMessage", seconds=0.3)
    started = asyncio.get_running_loop().time()
    answer = asyncio.create_task(post(client))
    await workspace.until(lambda: posted(workspace) == ["hi"])
    assert not answer.done()
    assert (await answer)["ok"]
    assert asyncio.get_running_loop().time() - started >= 0.3


async def test_an_answer_slower_than_the_client_waits_for_is_a_timeout(workspace):
    workspace.faults.slow("chat.postMessage", seconds=5)
    with pytest.raises(asyncio.TimeoutError):
        await post(client_of(workspace, timeout=0.5))
    await workspace.until(lambda: posted(workspace) == ["hi"])


async def test_refused_connections_are_no_slack_answers(workspace, client):
    await workspace.stop_listening()
    with pytest.raises(aiohttp.ClientConnectorError):
        await post(client)
    await workspace.listen()
    assert (await post(client))["ok"]


@pytest.mark.parametrize("error", ["invalid_blocks", "missing_scope", "token_revoked", "is_archived", "fatal_error"])
async def test_any_error_of_slack_can_be_provoked(workspace, client, error):
    workspace.faults.refuse("chat.postMessage", error)
    assert (await refusal(post(client)))["error"] == error
    assert posted(workspace) == []


async def test_faults_can_be_cleared(workspace, client):
    workspace.faults.drop("*", times=None)
    workspace.faults.clear()
    assert (await post(client))["ok"]


async def test_faults_of_one_method_apply_in_their_order(workspace, client):
    workspace.faults.refuse("chat.postMessage", "internal_error")
    workspace.faults.refuse("*", "fatal_error")
    errors = [(await refusal(post(client)))["error"] for _ in range(2)]
    assert errors == ["internal_error", "fatal_error"]


async def test_posts_into_one_channel_are_limited_to_one_a_second_after_a_burst(workspace, client, clock):
    workspace.rate_limits.enabled = True
    for _ in range(5):
        await post(client)
    with pytest.raises(SlackApiError) as error:
        await post(client)
    assert error.value.response.headers["Retry-After"] == "1"
    assert (await client.chat_postMessage(channel="C0IDLE", text="another channel"))["ok"]
    assert (await client.auth_test())["ok"]
    clock.advance(seconds=1)
    await post(client)
    with pytest.raises(SlackApiError):
        await post(client)


async def test_a_method_of_tier_2_takes_twenty_calls_a_minute(workspace, client, clock):
    workspace.rate_limits.enabled = True
    for _ in range(20):
        await client.users_list()
    with pytest.raises(SlackApiError) as error:
        await client.users_list()
    assert error.value.response.headers["Retry-After"] == "3"
    clock.advance(seconds=3)
    assert (await client.users_list())["ok"]


async def test_rate_limits_are_on_unless_switched_off():
    assert Workspace().rate_limits.enabled


async def test_a_response_url_and_an_upload_can_fail_too(workspace):
    workspace.faults.server_error("response_url", status=502)
    workspace.faults.server_error("upload", status=502)
    async with aiohttp.ClientSession() as session:
        for path in ("/response/x", "/upload/v1/F1"):
            async with session.post(workspace.base_url + path, json={"text": "x"}) as answer:
                assert answer.status == 502
    assert [call.outcome for call in workspace.calls] == ["http 502"] * 2


async def test_the_workspace_listens_on_loopback_only(workspace):
    assert workspace.base_url == f"http://127.0.0.1:{workspace.port}"
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.2", workspace.port)
