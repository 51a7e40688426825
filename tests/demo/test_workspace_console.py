"""The workspace as a command, and people moved from the keyboard."""

import asyncio
import sys

import pytest

from demo.workspace import Workspace
from demo.workspace.console import News, obey
from tests.demo.build_workspace import (
    CHANNEL,
    actions,
    app_of,
    button,
    client_of,
    confirm,
    connected,
    modal,
    option,
    overflow,
)


@pytest.fixture
async def workspace():
    async with Workspace(rate_limits=False) as workspace:
        yield workspace


@pytest.fixture
async def app(workspace):
    app = app_of(workspace)
    app.got = []

    async def keep(ack, body):
        await ack()
        app.got.append(body)

    app.command("/gpu-status")(keep)
    app.action("ack")(keep)
    app.action("more")(keep)
    app.view("snooze")(keep)
    async with connected(workspace, app, sockets=1):
        yield app


async def test_lines_are_actions_of_people(workspace, app):
    client = client_of(workspace)
    blocks = [actions(button(confirm=confirm()), overflow(option("Why"), option("Claim it")))]
    await client.chat_postMessage(channel=CHANNEL, text="card", blocks=blocks)
    assert await obey(workspace, "alice /gpu-status gpu-07") == "ok"
    assert await obey(workspace, "alice press Acknowledge") == "ack asks: Reboot?"
    assert await obey(workspace, "alice press! Acknowledge") == "ok"
    assert await obey(workspace, "bob choose more Claim it") == "ok"
    await client.views_open(trigger_id=app.got[-1]["trigger_id"], view=modal())
    assert await obey(workspace, "bob submit reason='stuck driver'") == "ok"
    assert await obey(workspace, "bob say done") == ""
    assert "done" in await obey(workspace, "show gpu-oncall")
    assert app.got[0]["text"] == "gpu-07"
    assert app.got[-1]["view"]["state"]["values"]["why"]["reason"]["value"] == "stuck driver"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("zoe press x", "zoe: not in this workspace"),
        ("alice press x", "x: nothing that alice sees has this"),
        ("alice submit", "alice has no such modal open"),
        ("alice dance", "WHO press"),
        ("help", "WHO press"),
        ("alice say 'x", "not understood"),
        ("show nowhere", "nowhere: not in this workspace"),
        ("alice /gpu-status", "failed: no_connection"),
    ],
)
async def test_what_cannot_be_done_is_said(workspace, line, answer):
    assert answer in await obey(workspace, line)


async def test_news_are_told_once_and_again_after_an_edit(workspace):
    client, news = client_of(workspace), News(workspace)
    ts = (await client.chat_postMessage(channel=CHANNEL, text="one"))["ts"]
    await client.chat_postEphemeral(channel=CHANNEL, user="U0ALICE", text="only you")
    first, second = news.take()
    assert first.startswith("#gpu-oncall ")
    assert first.endswith("\n  one")
    assert second == "only for @alice:\n  only you"
    assert news.take() == []
    await client.chat_update(channel=CHANNEL, ts=ts, text="two")
    [edited] = news.take()
    assert edited.endswith("(edited once)\n  two")


async def test_the_command_serves_until_it_is_told_to_stop():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "demo.workspace", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        settings = [(await process.stdout.readline()).decode().strip() for _ in range(3)]
        assert settings[0].startswith("slack.api_url: http://127.0.0.1:")
        assert [line.split("=")[0] for line in settings[1:]] == ["SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"]
        process.stdin.write(b"alice say hello\n")
        async with asyncio.timeout(30):
            while (await process.stdout.readline()).strip() != b"hello":
                pass
        process.terminate()
        async with asyncio.timeout(30):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()


async def test_a_port_in_use_is_said_without_a_trace(workspace):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "demo.workspace", "--port", str(workspace.port), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert errors.decode().startswith(f"The workspace cannot listen on port {workspace.port}: ")
    assert b"Traceback" not in errors
