"""The page in a real browser, with an app that keeps what it gets."""

import re
from contextlib import AsyncExitStack, asynccontextmanager

from demo.page import Page
from tests.demo.browser import opened, patient_workspace
from tests.demo.build_workspace import CHANNEL, actions, app_of, button, client_of, connected, home, section

COMMANDS = [{"command": "/gpu-status", "description": "how it is", "usage_hint": "[node]"}]
SHORTCUTS = [{"name": "Acknowledge GPU incident", "callback_id": "ack_message"}]


class Kept:
    """An app that opens `view` for a press, answers submissions with `answer`, and keeps every payload."""

    def __init__(self, workspace):
        self.workspace, self.got, self.view, self.answer = workspace, [], None, {}
        self.app = app_of(workspace)
        everything = re.compile(".*", re.DOTALL)
        for listen in (self.app.action, self.app.view, self.app.shortcut, self.app.view_closed):
            listen(everything)(self.take)
        self.app.command(everything)(self.command)
        self.app.event("app_home_opened")(self.take_home)

    async def take(self, ack, body, client):
        await ack(**(self.answer if body["type"] == "view_submission" else {}))
        if self.view and body["type"] == "block_actions":
            view, self.view = self.view, None
            await client.views_open(trigger_id=body["trigger_id"], view=view)
        self.keep(body)

    async def command(self, ack, body, respond):
        await ack()
        await respond(text=f"heard {body['command']} {body['text']}")
        self.keep(body)

    async def take_home(self, ack, body, client):
        await ack()
        await client.views_publish(
            user_id=body["event"]["user"], view=home(section("*Fleet*"), actions(button("mine")))
        )
        self.keep(body)

    def keep(self, body):
        self.got.append(body)
        self.workspace.changed()

    async def next(self):
        """The next payload that nobody has asked for yet."""
        await self.workspace.until(lambda: self.got, seconds=20)
        return self.got.pop(0)

    async def action(self):
        (action,) = (await self.next())["actions"]
        return action


@asynccontextmanager
async def shown(chromium, direct=lambda workspace: None, **options):
    """(app, tab, workspace): the page as alice sees it, in #gpu-oncall. `direct` makes its story."""
    async with AsyncExitStack() as stack:
        workspace = await stack.enter_async_context(patient_workspace())
        page = Page(workspace, COMMANDS, SHORTCUTS, direct(workspace))
        url = await stack.enter_async_context(page.serving(0))
        kept, start = Kept(workspace), f"{url}#alice/{CHANNEL}"
        async with connected(workspace, kept.app, sockets=1), opened(chromium, start, **options) as tab:
            await tab.get_by_role("heading", name="# gpu-oncall").wait_for()
            yield kept, tab, workspace
            assert tab.problems == []


async def post(workspace, *blocks, **fields):
    return await client_of(workspace).chat_postMessage(channel=CHANNEL, text="card", blocks=list(blocks), **fields)
