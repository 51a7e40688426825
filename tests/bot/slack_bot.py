"""The bot with both halves, the outbox and people's side, and people who ask it."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC

import sqlalchemy as sa

from bot.act.desk import Desk
from bot.act.lists import ApproverLists
from bot.notify import make_client
from bot.render.words import words
from bot.slack.actions import Actions
from bot.slack.app import make_app
from bot.slack.claiming import Claiming
from bot.slack.claims import Claims
from bot.slack.commands import Commands
from bot.slack.dialogs import Dialogs
from bot.slack.gate import Gate
from bot.slack.home import Homes
from bot.slack.queries import Queries
from bot.slack.remedying import Remedying
from bot.slack.sockets import SOCKETS, Sockets
from bot.store import schema
from tests.bot.outward import Bot


async def carol_approves(user, node):
    return user == "U0CAROL"


class SlackBot(Bot):
    """The bot with both halves: the outbox and people's side."""

    def __init__(self, store, fleet, advance, workspace, client=None, language="en"):
        super().__init__(store, fleet, advance, workspace, client=client, language=language)
        language = words(language)
        queries = Queries(store, fleet, advance, language)
        gate = Gate(self.notifier, {workspace.channel("gpu-candidates").id, workspace.channel("gpu-oncall").id})
        self.claims = Claims(store, fleet, advance, UTC, self.outbox.wake)
        claiming = Claiming(self.claims, queries, language, UTC, carol_approves)
        self.lists = ApproverLists(advance.group_of, self.notifier)
        self.desk = Desk(store, fleet, advance, self.lists, lambda: True)
        remedying = Remedying(self.desk, language, self.notifier, self.outbox.wake)
        self.commands = commands = Commands(queries, advance, language, UTC, self.outbox.wake, claiming, remedying)
        dialogs = Dialogs(store, advance, queries, self.notifier, language, UTC)
        homes = Homes(store, queries, self.notifier, language, self.lists)
        actions = Actions(store, advance, queries, gate, language, dialogs, commands, self.outbox.wake)
        client = make_client("", workspace.api_url, store)
        self.app = app = make_app(client, actions, commands, dialogs, homes, gate, language, store.is_held)
        self.sockets = Sockets(app, workspace.app_token)
        homes.sockets = lambda: (self.sockets.connected, SOCKETS)

    def start(self):
        super().start()
        self.tasks.append(asyncio.create_task(self.sockets.run()))

    async def clicks(self):
        query = sa.select(schema.click.c["user", "action", "incident_id", "outcome"]).order_by(schema.click.c.id)
        return [tuple(row) for row in await self.store.read(lambda connection: connection.execute(query).all())]


@asynccontextmanager
async def at_work(bot, workspace):
    """Started and connected; stopped at the end."""
    bot.start()
    try:
        await workspace.until_connected(sockets=2)
        yield bot
    finally:
        await bot.stop()


async def answer(workspace, seen):
    """The one message that the person saw for it."""
    assert seen.acked, seen.failure
    await workspace.until(lambda: seen.ephemerals)
    (one,) = seen.ephemerals
    return one.text


async def ask(workspace, name, text="", person="alice", channel="gpu-oncall"):
    return await answer(workspace, await workspace.person(person).command(name, text, channel))
