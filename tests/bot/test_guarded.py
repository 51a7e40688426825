"""What leaves for Slack: asked about right before it leaves; what is given up on its way is noted."""

import asyncio

import pytest

from bot.notify import Notifier, make_client
from bot.render.message import Message
from bot.store.engine import LostLeaseError
from bot.store.tenure import Tenure
from bot.store.writer import Store
from demo.workspace import Workspace

HELLO = Message("hello", [])


@pytest.fixture
async def workspace():
    async with Workspace() as workspace:
        yield workspace


@pytest.fixture
def tenure():
    return Tenure(1, None)


@pytest.fixture
def notifier(workspace, tenure, tmp_path):
    store = Store(f"sqlite:///{tmp_path}/bot.db", tenure)
    yield Notifier(make_client(workspace.bot_token, workspace.api_url, store))
    store.close()


async def test_a_bot_at_work_speaks_and_one_whose_time_is_over_sends_nothing(workspace, notifier, tenure):
    channel = workspace.channel("gpu-oncall")
    await notifier.post(channel.id, HELLO, "one")
    tenure.end()
    with pytest.raises(LostLeaseError, match="nothing leaves it"):
        await notifier.post(channel.id, HELLO, "two")
    assert len(channel.messages) == 1
    assert not tenure.is_unsure


async def test_a_message_that_was_given_up_on_its_way_is_noted(workspace, notifier, tenure):
    workspace.faults.slow("chat.postMessage", 60.0)
    post = asyncio.create_task(notifier.post(workspace.channel("gpu-oncall").id, HELLO, "one"))
    await asyncio.sleep(0)  # it has begun
    post.cancel()
    with pytest.raises(asyncio.CancelledError):
        await post
    assert tenure.is_unsure
