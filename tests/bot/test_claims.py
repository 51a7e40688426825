"""Claims: when their owner is asked, and what the store keeps of them."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace
from sqlalchemy.exc import IntegrityError

from bot import clock
from bot.claims import Claim, is_to_ask, kept_until, tomorrow
from bot.judge.track import observed
from bot.judge.verdict import Because
from bot.store import claims
from bot.store.claims import Ended
from tests.build import START, gpu_uuid, observation
from wire.messages import Verdict

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
C = Verdict.CANDIDATE


def claim(index=0, length=4 * HOUR, node="gpu-01", by="U0ALICE", **changes):
    new = Claim(node, gpu_uuid(index), index, by, START, START + length, "tuning")
    return replace(new, token=f"{node} {index} {by}", **changes)


@pytest.mark.parametrize(
    ("length", "after", "asks"),
    [
        (4 * HOUR, 4 * HOUR - 16 * MINUTE, False),
        (4 * HOUR, 4 * HOUR - 15 * MINUTE, True),
        (20 * MINUTE, 14 * MINUTE, False),
        (20 * MINUTE, 15 * MINUTE, True),  # a quarter of its time
        (4 * HOUR, 4 * HOUR, False),  # it is over
    ],
)
def test_the_owner_is_asked_a_quarter_of_an_hour_before_the_end_at_most(length, after, asks):
    assert is_to_ask(claim(length=length), START + after) is asks


def test_the_owner_is_asked_once():
    assert not is_to_ask(claim(asked_at=START), START + 4 * HOUR - MINUTE)


def test_a_claim_that_is_kept_lasts_four_hours_more():
    assert kept_until(claim()) == START + 8 * HOUR


@pytest.mark.parametrize("hour", [0, 8, 15, 23])
def test_tomorrow_is_nine_in_the_morning_of_the_next_day_on_the_channels_clock(hour):
    tokyo = ZoneInfo("Asia/Tokyo")
    now = datetime(2026, 11, 30, hour, tzinfo=tokyo).astimezone(UTC)
    assert tomorrow(now, tokyo) == datetime(2026, 12, 1, 9, tzinfo=tokyo)


def test_a_claim_holds_its_gpu_on_whatever_node_it_is_seen(fleet):
    """A node that got another name, a card that was put into another one, a host with two agents."""
    tracks = {node: observed(None, observation(verdicts=[C, C], node=node)) for node in ("gpu-01", "gpu-09")}
    fleet.tracks.update(tracks)
    held = replace(claim(), until=clock.now() + HOUR)
    fleet.note_claim(held)
    assert [why(fleet, node) for node in tracks] == [[Because.CLAIMED, Because.STREAK_TOO_SHORT]] * 2
    assert (set(fleet.claims_of("gpu-01")), fleet.claims_of("gpu-09")) == ({gpu_uuid(0)}, {})
    fleet.forget_claim(held)
    assert [why(fleet, node) for node in tracks] == [[Because.STREAK_TOO_SHORT] * 2] * 2


def why(fleet, node):
    return [facts.standing.because for facts in fleet.judged(node).gpus.values()]


async def write(store, work, *arguments):
    return await store.write(lambda transaction: work(transaction.connection, *arguments))


async def read(store, work, *arguments):
    return await store.read(lambda connection: work(connection, *arguments))


async def test_a_node_has_the_claims_that_hold_now_by_the_index_of_the_gpu(store):
    second, first = [await write(store, claims.add, claim(index)) for index in (1, 0)]
    await write(store, claims.add, claim(node="gpu-02"))
    await write(store, claims.add, claim(2, length=HOUR))
    assert [one.id for one in await read(store, claims.claims_of_node, "gpu-01", START + 2 * HOUR)] == [
        first.id,
        second.id,
    ]
    assert len(await read(store, claims.claims_of_user, "U0ALICE", START)) == 4


async def test_a_gpu_has_one_claim_at_a_time_and_another_when_that_has_ended(store):
    first = await write(store, claims.add, claim())
    with pytest.raises(IntegrityError):
        await write(store, claims.add, claim(by="U0BOB"))
    assert await write(store, claims.end, first.id, Ended(START + HOUR, "U0ALICE"))
    assert not await write(store, claims.end, first.id, Ended(START + 2 * HOUR))
    second = await write(store, claims.add, claim(by="U0BOB"))
    assert (await read(store, claims.claim_of, "gpu-01", gpu_uuid(0))).id == second.id
    assert await read(store, claims.claim_of_token, first.token) == (first, Ended(START + HOUR, "U0ALICE"))
    assert await read(store, claims.claim_of_token, "another") is None


async def test_what_ended_long_ago_is_forgotten_and_what_holds_is_not(store):
    ended = await write(store, claims.add, claim())
    await write(store, claims.end, ended.id, Ended(START + HOUR))
    held = await write(store, claims.add, claim())
    assert await write(store, claims.forget_old, START + 2 * HOUR) == 1
    assert [one.id for one in await read(store, claims.not_ended)] == [held.id]
