"""A fleet that becomes free within one chunk of the stream: what its card costs does not grow with each node."""

from bot import clock
from bot.incident import Kind
from bot.ingest import Arrived
from tests.build import FIRST_WINDOW, START, heartbeat, observation
from wire.messages import encode

NODES = [f"gpu-{number:02d}" for number in range(40)]


def windows_of_all(number):
    first_seq = 1 + number * len(NODES)
    return [
        Arrived(f"gpuoncall.obs.{node}", seq, encode(observation(FIRST_WINDOW + number, node=node)))
        for seq, node in enumerate(NODES, first_seq)
    ]


async def test_all_nodes_of_a_chunk_come_to_the_fleets_card_in_one_step(fleet, ingest, advance):
    for node in NODES:
        fleet.heard(heartbeat(FIRST_WINDOW + 2, node=node, sent_at=clock.now()))
    for number in range(3):
        await ingest.take("OBS", START, windows_of_all(number))
    (card,) = [one for one in advance.open_incidents() if one.kind is Kind.FLEET]
    alone = [one for one in advance.open_incidents() if one.kind is Kind.CANDIDATE and one.shown_on is None]
    assert (card.members, card.members_open, len(alone)) == (35, 35, 5)
    assert card.revision == 2  # opened with the first of them, and all others at once
