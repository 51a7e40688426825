"""Slack's Web API at its edge: every trouble comes out as one DeliveryError that says what to do."""

import pytest

from bot import clock
from bot.notify import DeliveryError, DeliveryKind, Notifier, make_client
from bot.render.message import Message

HELLO = Message("hello", [])


@pytest.fixture
def notifier(workspace):
    return Notifier(make_client(workspace.bot_token, workspace.api_url))


async def failed(call):
    with pytest.raises(DeliveryError) as caught:
        await call
    return caught.value


@pytest.mark.parametrize(
    ("error", "kind", "advice"),
    [
        ("invalid_blocks", DeliveryKind.INVALID_BLOCKS, "please report it"),
        ("token_revoked", DeliveryKind.TOKEN, "SLACK_BOT_TOKEN"),
        ("is_archived", DeliveryKind.CHANNEL, "config.yaml"),
        ("not_in_channel", DeliveryKind.CHANNEL, "/invite"),
        ("message_not_found", DeliveryKind.GONE, "deleted"),
        ("edit_window_closed", DeliveryKind.UNEDITABLE, "edits"),
        ("internal_error", DeliveryKind.UNSURE, "trouble at Slack"),
        ("an_error_of_tomorrow", DeliveryKind.REFUSED, "report"),
    ],
)
async def test_what_slack_refuses_says_what_to_do(workspace, notifier, error, kind, advice):
    workspace.faults.refuse("chat.postMessage", error)
    caught = await failed(notifier.post("C0IDLE", HELLO, "key"))
    assert (caught.kind, caught.method) == (kind, "chat.postMessage")
    assert str(caught).startswith(f"chat.postMessage: {error}: ")
    assert advice in str(caught)


async def test_a_missing_scope_is_named(workspace, notifier):
    workspace.scopes.clear()
    caught = await failed(notifier.post("C0IDLE", HELLO, "key"))
    assert caught.kind is DeliveryKind.SCOPE
    assert "(needed: chat:write)" in str(caught)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_broken_answer_may_have_been_carried_out(workspace, notifier, status):
    workspace.faults.server_error("chat.postMessage", status=status)
    caught = await failed(notifier.post("C0IDLE", HELLO, "key"))
    assert caught.kind is DeliveryKind.UNSURE
    assert str(status) in str(caught)


async def test_a_refused_connection_was_certainly_not_carried_out(workspace, notifier):
    await workspace.stop_listening()
    assert (await failed(notifier.post("C0IDLE", HELLO, "key"))).kind is DeliveryKind.UNREACHABLE


async def test_a_connection_that_breaks_may_have_been_carried_out(workspace, notifier):
    workspace.faults.lose_reply("chat.postMessage")
    assert (await failed(notifier.post("C0IDLE", HELLO, "key"))).kind is DeliveryKind.UNSURE
    assert len(workspace.calls_of("chat.postMessage")) == 1  # and the SDK tried no second time


async def test_a_rate_limit_says_how_long(workspace, notifier):
    workspace.faults.rate_limited("chat.update", retry_after=7)
    ts = await notifier.post("C0IDLE", HELLO, "key")
    caught = await failed(notifier.update("C0IDLE", ts, HELLO))
    assert (caught.kind, caught.retry_after_seconds) == (DeliveryKind.RATE_LIMITED, 7.0)


async def test_a_message_is_found_by_its_key_only(workspace, notifier):
    before = clock.now()
    ts = await notifier.post("C0IDLE", HELLO, "mine")
    reply = await notifier.post("C0IDLE", HELLO, "my line", thread_ts=ts)
    assert await notifier.find("C0IDLE", "mine", before) == ts
    assert await notifier.find("C0IDLE", "my line", before) is None
    assert await notifier.find("C0IDLE", "my line", before, thread_ts=ts) == reply
    assert await notifier.find("C0IDLE", "another", before) is None


async def test_no_token_is_in_any_error(workspace, notifier):
    workspace.faults.refuse("*", "invalid_auth", times=None)
    for call in (notifier.identity(), notifier.post("C0IDLE", HELLO, "key"), notifier.find("C0IDLE", "k", clock.now())):
        assert workspace.bot_token not in str(await failed(call))


async def test_a_proxy_of_the_environment_is_not_used_for_a_workspace_on_this_machine(workspace, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    notifier = Notifier(make_client(workspace.bot_token, workspace.api_url))
    assert (await notifier.identity()).team == workspace.team.id
    assert make_client("xoxb", None).proxy == "http://127.0.0.1:1"
