"""The bot with all that remedies need, on a Slack workspace on loopback and a real bus, and a node at its other end."""

from datetime import timedelta

import pytest

from bot.advance import AdvanceSettings
from bot.groups import Group
from bot.order_key import public_order_key
from bot.remedy.model import Times
from tests.bot.remedy_bot import APPROVERS, LONG, NODE, Node, RemedyBot
from tests.nats_server import connected


@pytest.fixture
def group():
    return Group("default", ["*"], approvers=APPROVERS)


@pytest.fixture
def times():
    return Times()


@pytest.fixture
def settings(group, times):
    return AdvanceSettings(timedelta(0), timedelta(0), False, groups=[group], times=times)


@pytest.fixture
async def bot(store, fleet, advance, workspace, bus, tmp_path):
    await advance.start()
    async with bus.bot() as link:
        bot = RemedyBot(store, fleet, advance, workspace, link, tmp_path)
        bot.start()
        await workspace.until_connected(sockets=2)
        yield bot
        await bot.stop()


@pytest.fixture
async def node(bot, bus, fleet, tmp_path):
    async with connected(bus.node_link(NODE)) as link:
        node = Node(link, fleet, public_order_key(tmp_path))
        await node.listen()
        yield node


@pytest.fixture
async def stall(bot, node, workspace):
    """The card of the stalled runner, which offers what the node offers."""
    await bot.look(node, 3)
    await workspace.until(lambda: bot.cards("STALL") and "restart_runner" in str(bot.cards("STALL")[0].blocks), LONG)
    return bot.cards("STALL")[0]
