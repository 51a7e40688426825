"""The page's server: what it gives, to whom, and what it refuses."""

import json
import socket
from contextlib import asynccontextmanager

import aiohttp
import pytest

from demo.page import Page, PageCannotListen
from demo.workspace import File, Workspace
from tests.demo.build_workspace import CHANNEL, client_of, section
from tests.demo.listening_app import listening_app

COMMANDS = [{"command": "/gpu-status", "description": "how it is", "usage_hint": "[node]"}]
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
async def workspace():
    async with Workspace(rate_limits=False) as workspace:
        yield workspace


@pytest.fixture
async def page(workspace):
    page = Page(workspace, COMMANDS)
    async with page.serving(0) as page.url:
        yield page


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as session:
        yield session


async def do(session, page, deed, who="alice", **headers):
    given = {"X-Page-Token": page.token, **headers}
    async with session.post(f"{page.url}/deed?as={who}", json=deed, headers=given) as answer:
        return answer.status, await answer.text()


@asynccontextmanager
async def snapshots(session, page, who="alice"):
    """A function that waits for the first snapshot for which `condition` holds."""
    async with session.get(f"{page.url}/events?as={who}&token={page.token}") as answer:

        async def until(condition):
            async for line in answer.content:
                if line.startswith(b"data: ") and condition(shown := json.loads(line[6:])):
                    return shown
            raise AssertionError("the events ended")

        yield until


def messages(shown, name="gpu-oncall"):
    return next(one for one in shown["channels"] if one["name"] == name)["messages"]


# --- what it shows --------------------------------------------------------------------------------------------------


async def test_a_snapshot_comes_at_once_and_after_every_change(workspace, page, session):
    async with snapshots(session, page) as until:
        assert (await until(lambda shown: True))["me"]["name"] == "alice"
        posted = await client_of(workspace).chat_postMessage(channel=CHANNEL, text="GPU 3 is free", blocks=[section()])
        (message,) = messages(await until(messages))
        assert (message["text"], message["version"], message["by"]["is_app"]) == ("GPU 3 is free", 0, True)
        await client_of(workspace).chat_update(channel=CHANNEL, ts=posted["ts"], text="GPU 3 is in use")
        await until(lambda shown: messages(shown)[0]["version"] == 1)


async def test_a_person_sees_nothing_that_only_others_see(workspace, page, session):
    client = client_of(workspace)
    await client.chat_postEphemeral(channel=CHANNEL, user="U0BOB", text="only for bob")
    await client.chat_postMessage(channel="U0BOB", text="to bob alone")
    async with snapshots(session, page, "alice") as until:
        assert "bob alone" not in json.dumps(shown := await until(lambda shown: True))
        assert shown["ephemerals"] == []
    async with snapshots(session, page, "bob") as until:
        shown = await until(lambda shown: True)
        assert [one["text"] for one in shown["ephemerals"]] == ["only for bob"]
        assert "to bob alone" in json.dumps(shown["channels"])
    async with snapshots(session, page, "erin") as until:  # of another team: in the shared channel only
        assert [one["name"] for one in (await until(lambda shown: True))["channels"]] == ["gpu-partners"]


async def test_a_long_channel_is_cut_and_says_so(workspace, page, session):
    for number in range(205):
        await client_of(workspace).chat_postMessage(channel=CHANNEL, text=f"message {number}")
    async with snapshots(session, page) as until:
        shown = await until(lambda shown: True)
    channel = next(one for one in shown["channels"] if one["name"] == "gpu-oncall")
    assert (len(channel["messages"]), channel["left_out"]) == (200, 5)


@pytest.mark.parametrize(
    ("content", "kind", "disposition"),
    [(PNG, "image/png", None), (b"<script>alert(1)</script>", "application/octet-stream", "attachment")],
)
async def test_only_what_is_a_picture_is_given_as_one(workspace, page, session, content, kind, disposition):
    workspace.files["F1"] = File("F1", "heat.png", len(content), content=content)
    async with session.get(f"{page.url}/files/F1") as answer:
        assert answer.headers["Content-Type"] == kind
        assert answer.headers.get("Content-Disposition") == disposition
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


# --- what people do -------------------------------------------------------------------------------------------------


async def test_a_deed_goes_through_the_app(workspace, page, session):
    async with listening_app(workspace) as app:
        status, text = await do(session, page, {"deed": "command", "channel": CHANNEL, "name": "/gpu-status"})
        assert (status, json.loads(text)) == (200, {"failure": None})
        assert app.got[0]["user_id"] == "U0ALICE"


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ({"deed": "command", "channel": CHANNEL, "name": "/gpu-stauts"}, "/gpu-stauts is not a command of this app"),
        ({"deed": "command", "channel": CHANNEL, "name": "/gpu-status"}, "The app is not connected"),
        ({"deed": "press", "place": {"channel": CHANNEL, "ts": "1.1"}, "block_id": "b", "action_id": "a"}, "not there"),
        ({"deed": "submit", "view": "V1", "values": {}}, "this dialog is not open any more"),
        ({"deed": "say", "channel": "gpu-old", "words": "hello"}, "gpu-old is archived"),
        ({"deed": "say", "channel": "nowhere", "words": "hello"}, "nowhere: not in this workspace"),
    ],
)
async def test_what_cannot_be_done_is_told_in_a_sentence(page, session, deed, said):
    status, text = await do(session, page, deed)
    assert status == 200
    assert said in json.loads(text)["failure"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"deed": "reboot"}', b'{"deed": "say"}', b"\xff\xfe", b"null"])
async def test_a_body_that_is_no_deed_is_refused(page, session, body):
    async with session.post(f"{page.url}/deed", data=body, headers={"X-Page-Token": page.token}) as answer:
        assert answer.status == 400
        assert (await answer.text()).startswith("Not understood")


# --- who may ask ----------------------------------------------------------------------------------------------------

SAY = {"deed": "say", "channel": CHANNEL, "words": "hello"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"X-Page-Token": "wrong"},
        {"X-Page-Token": ""},
        {"X-Page-Token": "é"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
async def test_another_site_can_neither_do_nor_hear_anything(workspace, page, session, headers):
    status, _ = await do(session, page, SAY, **headers)
    assert status == 403
    assert workspace.channel(CHANNEL).shown == []
    host = {"Host": headers["Host"]} if "Host" in headers else {}
    token = page.token if host else "wrong"
    async with session.get(f"{page.url}/events?token={token}", headers=host) as answer:
        assert answer.status == 403


async def test_a_name_that_points_here_gets_no_page_and_so_no_token(page, session):
    async with session.get(page.url, headers={"Host": "rebound.example"}) as answer:
        assert answer.status == 403
        assert page.token not in await answer.text()
    async with session.get(page.url.replace("127.0.0.1", "localhost")) as answer:
        assert page.token in await answer.text()


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/nothing", "/static/..%2fserver.py", "/static/index.html"])
async def test_every_answer_forbids_what_the_page_does_not_need(page, session, path):
    async with session.get(page.url + path) as answer:
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert answer.status == (200 if path in ("/", "/static/main.js") else 404)


async def test_somebody_unknown_is_told(page, session):
    status, text = await do(session, page, SAY, who="mallory")
    assert status == 404
    assert "mallory: not in this workspace; there are" in text


# --- its port -------------------------------------------------------------------------------------------------------


def taken_port():
    taken = socket.create_server(("127.0.0.1", 0))
    return taken, taken.getsockname()[1]


async def test_a_busy_port_gives_the_next_free_one(workspace):
    taken, port = taken_port()
    with taken:
        async with Page(workspace).serving(port) as url:
            assert int(url.rpartition(":")[2]) > port


async def test_no_free_port_is_told_with_what_to_do(workspace):
    taken, port = taken_port()
    with taken, pytest.raises(PageCannotListen, match="--port 9000"):
        async with Page(workspace).serving(port, ports_tried=1):
            pass
