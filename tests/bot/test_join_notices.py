"""A join token that does not count is refused, and people hear of it: once per token and hour."""

import asyncio
import os
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from msgspec.structs import replace

from agent.join import join as join_command
from bot import clock, enrol
from bot.broker import nodes
from bot.broker.enrolment import Enrolment, RefusedJoin
from bot.join_notices import _WHYS, JoinNotices
from bot.render.notice import JOIN_REFUSED, notice
from bot.render.words import words
from bot.store import schema
from tests.bot.any_input import assert_fits_and_is_harmless
from tests.nats_server import until
from tests.tls_bus import bot_config, running_bus
from wire import nkey
from wire.enrolment import Token, decode_token, encode_token

NAME, HOME = "gpu-07", "C0HOME"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


async def notices(store) -> list[dict]:
    mine = sa.select(schema.outbox.c.line_values).where(schema.outbox.c.line_key == JOIN_REFUSED)
    query = mine.order_by(schema.outbox.c.id)
    return list(await store.read(lambda connection: connection.execute(query).scalars().all()))


async def test_a_refused_join_is_told_once_per_token_and_hour_also_after_a_restart(store):
    used, other = RefusedJoin(NAME, "it was used", "UTOKEN", "10.0.0.5:1"), RefusedJoin(NAME, "it was used", "UOTHER")
    for one, at in (
        (used, NOW),
        (used, NOW + timedelta(minutes=59)),
        (other, NOW),
        (used, NOW + timedelta(minutes=61)),
    ):
        await JoinNotices(store, HOME).tell(one, at)  # each time as after a restart
    assert [(one["node"], one["address"]) for one in await notices(store)] == [
        (NAME, "10.0.0.5:1"),
        (NAME, ""),
        (NAME, "10.0.0.5:1"),
    ]


async def test_whoever_tries_again_and_again_under_made_up_reasons_is_one_notice(store):
    told = JoinNotices(store, HOME)
    for number in range(5000):
        told.refused(RefusedJoin(NAME, f"it cannot be read: {number}"))
        told.refused(RefusedJoin(NAME, "it was used", "UTOKEN", f"10.0.0.5:{number}"))
    running = asyncio.create_task(told.run())
    await until(lambda: _count(store, 2), "both notices")
    running.cancel()
    assert len(await notices(store)) == 2


async def _count(store, count: int) -> bool:
    return len(await notices(store)) >= count


@pytest.mark.parametrize("why", [*_WHYS.values(), "unusable"])
@pytest.mark.parametrize("address", ["", "10.0.0.5:1234", "<!channel>"])
def test_the_notice_says_what_happened_and_what_it_means(why, address):
    values = {"node": NAME, "why": why, "address": address}
    shown = notice(words("en"), JOIN_REFUSED, values, None, NOW)
    assert_fits_and_is_harmless(shown)
    assert shown.text.startswith("*A join as node gpu-07 was refused*: its token does not count: ")
    assert "Nothing was let in" in shown.text


@pytest.mark.timeout(60)
def test_strangers_who_knock_again_and_again_cost_nothing_and_are_no_news(tmp_path):
    """A server tells of every key that it does not know: all join files are not read for each of them."""
    config = bot_config(tmp_path / "bot")
    for number in range(300):
        nodes.open_join(config.data_dir, f"gpu-{number}", clock.now())
    refused = []
    enrolment = Enrolment(config.data_dir, None, None)
    enrolment.on_refused = refused.append
    stranger = nkey.public_key(nkey.generate_seed())
    for _ in range(20_000):  # 6,000,000 files would take minutes
        enrolment._on_refused_key(stranger, "10.0.0.5:1")
    assert refused == []
    known = nkey.public_key(nodes.open_join(config.data_dir, "one-more", clock.now()))
    nodes.remove_node(config.data_dir, "one-more", nodes.REMOVED)
    enrolment._on_refused_key(known, "10.0.0.5:1")
    assert [(one.node, one.why) for one in refused] == [("one-more", nodes.REMOVED)]


async def join(token: str, folder) -> int:
    options = ["-", "--state-dir", str(folder)]
    return (await asyncio.to_thread(lambda: CliRunner().invoke(join_command, options, input=token))).exit_code


def end_hour(data_dir, name: str) -> None:
    """As if the hour of its token were over."""
    (key,) = nodes.read_joins(data_dir, name)
    with nodes.locked(data_dir):
        nodes._write_joins(data_dir, name, [replace(key, expires_at=clock.now())])


async def test_used_twice_over_its_hour_for_another_name_or_after_remove_is_refused_and_told(store, tmp_path):
    """On the real server: each of the four, each with a token of its own."""
    async with running_bus(bot_config(tmp_path / "bot")) as bus:
        told, data_dir = JoinNotices(store, HOME), bus.config.data_dir
        bus.enrolment.on_refused = told.refused
        running = asyncio.create_task(told.run())
        try:
            tokens = {}
            for name in ("used", "over", "named", "removed"):
                tokens[name], _ = await asyncio.to_thread(enrol.add, bus.config, name)
            assert await join(tokens["used"], tmp_path / "used") == 0
            assert await notices(store) == []  # a join that succeeds is no news
            os.utime(nodes.folder(data_dir) / "used.pub", (0, 0))
            assert await join(tokens["used"], tmp_path / "again") == 1

            end_hour(data_dir, "over")
            await asyncio.to_thread(enrol.settle, bus.config)
            assert await join(tokens["over"], tmp_path / "over") == 1

            known = decode_token(tokens["named"])
            renamed = Token("other-name", known.servers, known.ca, known.bot_key, known.join_seed)
            assert await join(encode_token(renamed), tmp_path / "named") == 1

            await asyncio.to_thread(lambda: [*enrol.remove(bus.config, "removed")])
            assert await join(tokens["removed"], tmp_path / "removed") == 1
            await until(lambda: _count(store, 4), "four notices")
        finally:
            running.cancel()
        assert set(nodes.read_nodes(data_dir)) == {"used"}
    assert [(one["node"], one["why"]) for one in await notices(store)] == [
        ("used", "used"),
        ("over", "over"),
        ("named", "other_name"),
        ("removed", "removed"),
    ]
    assert all(one["address"].startswith("127.0.0.1:") for one in await notices(store))
