"""Cards of findings and groups on their way to a Slack workspace on loopback: mentions, recoveries, one for many."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from bot import clock
from bot.advance import AdvanceSettings, Click
from bot.groups import Group
from bot.incident import Acknowledged, Kind
from bot.judge.verdict import Presence
from demo.workspace.block_kit import message_problems
from tests.bot.build_incidents import finding
from tests.bot.outward import C, H, until
from tests.build import FIRST_WINDOW, heartbeat, observation
from tests.build import gpu_uuid as uuid_of
from wire.messages import GpuNow

ON_CALL = "U0ALICE"


@pytest.fixture
def settings():
    groups = [Group("all", ["*"], on_call=[ON_CALL], second=["U0CAROL"])]
    return AdvanceSettings(timedelta(0), timedelta(0), shadow=False, groups=groups, again_after=timedelta(0))


@pytest.fixture
async def bot(outbox_bot):
    outbox_bot.start()
    return outbox_bot


def mentions(message):
    """How often anybody was mentioned by the message as it was posted: an edit notifies nobody."""
    return message.versions[0].text.count("<@")


async def free(bot, node, number, verdict=C):
    """The node's only GPU, which is not another node's, is free."""
    gpus = [replace(observation().gpus[0], uuid=uuid_of(number))]
    now = [GpuNow(0, uuid_of(number), verdict, [], 3.0, [])]
    bot.fleet.heard(heartbeat(FIRST_WINDOW + 2, node=node, gpus=now, sent_at=clock.now()))
    await bot.report(*(observation(FIRST_WINDOW + i, node=node, gpus=gpus) for i in range(3)))


async def taken(bot, node, number):
    now = [GpuNow(0, uuid_of(number), H, list(observation(verdicts=[H]).gpus[0].reasons), 3.0, [])]
    bot.fleet.heard(heartbeat(FIRST_WINDOW + 2, node=node, gpus=now, sent_at=clock.now()))
    await bot.advance.refresh(node)


async def test_a_new_stall_mentions_once_is_reminded_of_and_its_recovery_mentions_nobody(bot, advance, workspace, home):
    await advance.found(finding(subject="gpu-07/chat"))
    await workspace.until(lambda: home.cards)
    (card,) = home.cards
    assert (mentions(card), message_problems(card.blocks)) == (1, [])

    async def is_reminded():
        await advance.look_around()
        return home.replies(card)

    await until(is_reminded)
    assert home.replies(card)[0].text == "<@U0ALICE>: nobody has acknowledged this for 10 min"
    (incident,) = advance.open_incidents()
    await advance.command(incident.id, Click("", "ack", ON_CALL, "T"), Acknowledged(ON_CALL))
    await advance.found(finding(subject="gpu-07/chat", presence=Presence.ABSENT))
    await workspace.until(lambda: len(home.replies(card)) == 3 and card.text.startswith("RECOVERED gpu-07 chat"))
    assert [line.text for line in home.replies(card)[1:]] == ["Acknowledged", "Recovered"]
    assert not any(block["type"] == "actions" for block in card.blocks)


async def test_seven_nodes_need_six_cards_and_the_last_one_is_kept_up_to_date(bot, workspace, candidates, home):
    for number in range(7):
        await free(bot, f"gpu-{number:02d}", number)
    await workspace.until(lambda: len(candidates.cards) == 6)
    fleet_card = next(card for card in candidates.cards if " nodes" in card.text or " node" in card.text.split("\n")[0])
    await workspace.until(lambda: fleet_card.text.startswith("FREE 2 GPUs on 2 nodes"))
    assert "gpu-05 · GPU 0 free" in fleet_card.text
    assert sum(mentions(card) for card in candidates.cards) == 0
    await taken(bot, "gpu-05", 5)
    await workspace.until(lambda: fleet_card.text.startswith("FREE 1 GPU on 1 node"))
    await taken(bot, "gpu-06", 6)
    await workspace.until(lambda: fleet_card.text.startswith("RECOVERED the fleet. It was: free GPUs"))
    assert home.cards == []


async def test_many_lost_nodes_are_one_card_that_mentions_once(bot, advance, fleet, workspace, home):
    def lost(node, presence=Presence.PRESENT):
        return finding("node_lost", presence, kind=Kind.NODE_LOST, subject=node)

    await bot.stop()  # so that nothing leaves between the first and the third
    nodes = [f"gpu-{number:02d}" for number in range(5)]
    for node in nodes:
        fleet.heard(heartbeat(FIRST_WINDOW, node=node, sent_at=clock.now()))
        await advance.found(lost(node))
    bot.start()
    await workspace.until(lambda: home.cards and home.cards[0].text.startswith("BLIND 5 nodes cannot be seen"))
    for node in nodes:
        await advance.found(lost(node, Presence.ABSENT))
    await workspace.until(lambda: home.cards[0].text.startswith("RECOVERED the fleet"))
    assert (len(home.cards), mentions(home.cards[0])) == (1, 1)
