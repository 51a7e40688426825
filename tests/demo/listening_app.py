"""An app that keeps what it gets, for the tests of people, modals and response URLs."""

from contextlib import asynccontextmanager

from slack_bolt.async_app import AsyncApp

from demo.workspace import Message, Workspace
from tests.demo.build_workspace import CHANNEL, actions, app_of, client_of, connected


@asynccontextmanager
async def listening_app(workspace: Workspace):
    """Keeps the payloads it got in `app.got`; acknowledges with `app.answer` where Slack takes an answer."""
    app: AsyncApp = app_of(workspace)
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


async def post(workspace: Workspace, *elements: dict, **fields) -> Message:
    """A message of the app with these elements in the block `acts`."""
    blocks = [actions(*elements, block_id="acts")]
    answer = await client_of(workspace).chat_postMessage(channel=CHANNEL, text="card", blocks=blocks, **fields)
    return workspace.channel(CHANNEL).messages[answer["ts"]]
