"""A copy of the database of one moment, and a bot that goes on from it elsewhere."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
from datetime import timedelta

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from bot import backup, clock
from bot.__main__ import cli
from bot.advance import Advance
from bot.config import BotConfig, Channels, Mode, Slack
from bot.fleet import Fleet
from bot.incident import RemedyAsked
from bot.judge.candidate import CandidateRule
from bot.lease import Leases
from bot.lock import only_bot
from bot.remedy.model import State
from bot.store import audit, incidents, leases, windows
from bot.store.engine import begin_for_writing, make_engine
from bot.store.migrate import upgrade
from bot.store.outbox import RowKind, RowState
from bot.store.schema import METADATA, lease
from bot.store.writer import Store
from tests.bot.build_incidents import finding
from tests.bot.build_remedies import remedy
from tests.bot.outward import Bot, rows_of_kind, sent, until
from tests.nats_server import free_port
from wire.configfile import ConfigError


@pytest.fixture
def config(tmp_path, database_url, workspace):
    return config_of(tmp_path / "here", database_url, workspace)


@pytest.fixture
def elsewhere(tmp_path, workspace):
    return config_of(tmp_path / "there", f"sqlite:///{tmp_path}/there/gpu-oncall.sqlite", workspace)


def config_of(folder, url, workspace):
    folder.mkdir(exist_ok=True)
    channels = Channels(default=workspace.channel("gpu-oncall").id, candidates=workspace.channel("gpu-candidates").id)
    return BotConfig(mode=Mode.DEMO, data_dir=folder, database=url, slack=Slack(channels=channels))


@pytest.fixture
def bot(outbox_bot):
    return outbox_bot


@contextlib.asynccontextmanager
async def another(config, workspace, settings):
    """A bot on the database of this config, as it is found there."""
    store = Store(config.database)
    fleet = Fleet(CandidateRule(), await store.read(windows.load_tracks))
    advance = Advance(store, fleet, settings)
    await advance.start()
    bot = Bot(store, fleet, advance, workspace)
    try:
        yield bot
    finally:
        await bot.stop()
        store.close()


def content(store):
    """Every row of every table that a backup has."""
    with store.engine.connect() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(sa.select(table)).all()))
            for table in METADATA.sorted_tables
            if table is not lease
        }


async def in_thread(call, *arguments, **options):
    return await asyncio.to_thread(call, *arguments, **options)


# --- there and back -------------------------------------------------------------------------------------------------


async def test_a_backup_has_every_row_and_can_be_restored_into_either_database(
    bot, config, elsewhere, other_postgres_url, workspace, tmp_path
):
    await bot.idle()
    await bot.found()
    bot.start()
    await sent(bot)
    await bot.stop()
    await in_thread(backup.back_up, config, tmp_path / "backup")
    here = content(bot.store)
    assert here["incident"]
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    other = config_of(tmp_path / "postgres", other_postgres_url, workspace)
    for target in (elsewhere, other):
        await in_thread(backup.restore, target, tmp_path / "backup", "host:root", replaces=False)
        store = Store(target.database)
        there = content(store)
        for name in set(here) - {"outbox", "audit"}:
            assert there[name] == here[name], name
        assert set(there["outbox"]) > set(here["outbox"])
        await Advance(store, Fleet(CandidateRule()), bot.advance._settings).found(finding(subject="gpu-09/chat"))
        store.close()


async def test_what_waited_is_looked_for_before_it_is_posted_and_nothing_comes_twice(
    bot, config, elsewhere, workspace, tmp_path, settings
):
    """The backup is taken while cards are on their way: some are in Slack when it is restored, and it cannot know."""
    for number in range(6):
        await bot.found(subject=f"gpu-{number:02}/chat")
    bot.start()
    await workspace.until(lambda: len(workspace.channel("gpu-oncall").cards) >= 2)
    await in_thread(backup.back_up, config, tmp_path / "backup")
    await sent(bot)
    await bot.stop()
    await in_thread(backup.restore, elsewhere, tmp_path / "backup", "host:root", replaces=False)
    async with another(elsewhere, workspace, settings) as restored:
        restored.start()
        await sent(restored)
        await sent(restored, RowKind.NOTICE)
    assert len(workspace.channel("gpu-oncall").cards) == 6 + 1
    notice = workspace.channel("gpu-oncall").cards[-1]
    assert "The bot's record was brought back to how it was at" in notice.text


async def test_a_card_of_after_the_backup_says_that_nobody_keeps_it_up_to_date(
    bot, config, elsewhere, workspace, tmp_path, settings
):
    channel = workspace.channel("gpu-oncall")
    await bot.found(subject="gpu-01/chat")
    bot.start()
    await sent(bot)
    await in_thread(backup.back_up, config, tmp_path / "backup")
    await bot.found(subject="gpu-02/chat")
    await sent(bot)
    await bot.stop()
    known, stray = channel.cards
    await in_thread(backup.restore, elsewhere, tmp_path / "backup", "host:root", replaces=False)
    async with another(elsewhere, workspace, settings) as restored:
        restored.start()
        await sent(restored, RowKind.NOTICE)
        await restored.found(subject="gpu-02/chat")  # judged again from the stream
        await sent(restored)
    assert "it is not kept up to date any more" in stray.text
    assert len(stray.versions) == 2
    assert "gpu-01 chat" in known.text
    assert ["gpu-02 chat" in card.text for card in channel.cards[3:]] == [True]


async def test_a_backup_that_is_taken_while_windows_come_is_one_moment(bot, config, elsewhere, tmp_path, settings):
    stop = asyncio.Event()

    async def load():
        number = 0
        while not stop.is_set():
            number += 1
            await bot.found(subject=f"gpu-{number}/chat")

    loading = asyncio.create_task(load())
    try:
        await until(lambda: rows_of_kind(bot.store))
        await in_thread(backup.back_up, config, tmp_path / "backup")
    finally:
        stop.set()
        await loading
    await in_thread(backup.restore, elsewhere, tmp_path / "backup", "host:root", replaces=False)
    store = Store(elsewhere.database)
    there = content(store)
    store.close()
    assert 1 <= len(there["incident"]) <= len(content(bot.store)["incident"])
    cards = [row for row in there["outbox"] if "'card'" in row]
    assert len(cards) == len(there["incident"])


# --- what an earlier time may not do --------------------------------------------------------------------------------


async def test_the_fence_rises_and_the_record_says_who_brought_the_database_back(bot, config, tmp_path):
    await bot.found()
    await in_thread(backup.back_up, config, tmp_path / "backup")
    before = clock.now()
    fence = await in_thread(backup.restore, config, tmp_path / "backup", "host:root", replaces=True)
    assert int(before.timestamp()) <= fence <= clock.now().timestamp()
    again = await in_thread(backup.restored, config, "host:root")
    assert again > fence
    with bot.store.engine.connect() as connection:
        assert leases.fence_number(connection) == again
        assert audit.verify(connection) == (2, [])
        (row,) = await rows_of_kind(bot.store)
    assert row.state is RowState.SENDING


async def test_requests_whose_order_has_not_left_are_void_and_one_that_left_is_not_sent_again(bot, config, tmp_path):
    now = clock.now()
    states = {"gpu-01": State.ASKED, "gpu-02": State.APPROVED, "gpu-03": State.SENDING}

    def ask(transaction):
        for node, state in states.items():
            request = remedy(node=node, about=None, state=state, asked_at=now, expires_at=now + timedelta(hours=1))
            bot.advance._steps.apply(transaction, None, RemedyAsked(request, ()))

    await bot.store.write(ask)
    await in_thread(backup.back_up, config, tmp_path / "backup")
    await in_thread(backup.restore, config, tmp_path / "backup", "host:root", replaces=True)
    ended = await bot.store.read(lambda connection: [one.remedy for one in incidents.recent(connection, 9)])
    assert {one.node: (one.state, one.ended_by) for one in ended} == {
        "gpu-01": (State.STOPPED, "host:root"),
        "gpu-02": (State.STOPPED, "host:root"),
        "gpu-03": (State.SENDING, ""),
    }


async def test_a_backup_of_an_earlier_version_is_brought_to_the_present_schema_and_stays_as_it_is(config, tmp_path):
    engine = make_engine(f"sqlite:///{tmp_path}/old")
    with engine.connect() as connection:
        begin_for_writing(connection)
        with connection.begin():
            upgrade(connection, "0001")
            gap = "INSERT INTO missing VALUES (7, 'gpu-01', 'epoch', 3, 4, 0)"
            connection.exec_driver_sql(gap)
    engine.dispose()
    before = (tmp_path / "old").read_bytes()
    await in_thread(backup.restore, config, tmp_path / "old", "host:root", replaces=False)
    store = Store(config.database)
    assert len(content(store)["missing"]) == 1
    store.close()
    assert (tmp_path / "old").read_bytes() == before


# --- what is refused ------------------------------------------------------------------------------------------------


async def test_a_database_with_something_in_it_is_replaced_only_when_that_is_said(bot, config, tmp_path):
    await bot.found()
    await in_thread(backup.back_up, config, tmp_path / "backup")
    with pytest.raises(ConfigError, match="not empty: with --replace"):
        await in_thread(backup.restore, config, tmp_path / "backup", "host:root", replaces=False)
    with pytest.raises(ConfigError, match="is there already: name a new file"):
        await in_thread(backup.back_up, config, tmp_path / "backup")
    (tmp_path / "nonsense").write_bytes(b"this is no database" * 100)
    with pytest.raises(ConfigError, match="/nonsense cannot be used: file is not a database"):
        await in_thread(backup.restore, config, tmp_path / "nonsense", "host:root", replaces=True)
    assert len(await bot.rows()) == 1


async def test_a_file_that_is_no_backup_of_ours_replaces_nothing(bot, config, tmp_path):
    await bot.found()
    (tmp_path / "empty").touch()  # as of a copy that failed; SQLite takes it for a database without tables
    with contextlib.closing(sqlite3.connect(tmp_path / "another")) as another:
        another.execute("CREATE TABLE report (number INTEGER)")
    for name in ("empty", "another"):
        with pytest.raises(ConfigError, match=f"/{name} is no backup of gpu-oncall: name a file"):
            await in_thread(backup.restore, config, tmp_path / name, "host:root", replaces=True)
    assert len(await bot.rows()) == 1


async def test_a_backup_of_a_later_version_is_refused_with_what_to_do(bot, config, tmp_path):
    await in_thread(backup.back_up, config, tmp_path / "backup")
    with contextlib.closing(sqlite3.connect(tmp_path / "backup")) as later:
        later.execute("UPDATE alembic_version SET version_num = '9999'")
        later.commit()
    with pytest.raises(ConfigError, match=r"/backup: .* install the version that wrote it, or restore a backup$"):
        await in_thread(backup.restore, config, tmp_path / "backup", "host:root", replaces=True)


async def test_a_backup_into_a_folder_that_is_not_there_says_what_to_do(bot, config, tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be written: No such file or directory: name a place that is there$"):
        await in_thread(backup.back_up, config, tmp_path / "nowhere" / "backup")


def test_a_database_that_does_not_answer_is_one_line_with_what_to_look_at(tmp_path):
    url = f"postgresql://bot@127.0.0.1:{free_port()}/bot"
    with pytest.raises(ConfigError) as told:
        backup.bring_to_present(BotConfig(data_dir=tmp_path, database=url))
    assert "connection" in str(told.value)
    assert str(told.value).endswith("; see bot.database and bot.data_dir")
    assert len(str(told.value).splitlines()) == 1


async def test_nothing_is_restored_while_a_bot_works(bot, config, elsewhere, other_postgres_url, workspace, tmp_path):
    await in_thread(backup.back_up, config, tmp_path / "backup")
    with only_bot(config.data_dir), pytest.raises(ConfigError, match="stop it first"):
        await in_thread(backup.restore, config, tmp_path / "backup", "host:root", replaces=True)
    shared = config_of(tmp_path / "postgres", other_postgres_url, workspace)
    other = Store(other_postgres_url)
    await Leases(other.engine, "bot-a").try_to_take()
    other.close()
    with pytest.raises(ConfigError, match=r"a bot works on this database \(bot-a\): stop it first"):
        await in_thread(backup.restore, shared, tmp_path / "backup", "host:root", replaces=True)


def test_a_disk_that_takes_no_whole_backup_is_one_sentence_and_leaves_no_half_file(tmp_path):
    config, file = tmp_path / "config.yaml", tmp_path / "backup"
    config.write_text(f"bot: {{mode: shadow, data_dir: {tmp_path / 'bot'}, bus: {{insecure: true}}}}\n")
    (tmp_path / "bot").mkdir()
    assert CliRunner().invoke(cli, ["db", "migrate", "--config", str(config)]).exit_code == 0
    command = ["db", "backup", str(file), "--config", str(config)]
    # no file of this process may grow over 64 KiB: as on a disk that is full
    small = ["prlimit", "--fsize=65536", sys.executable, "-m", "bot", *command]
    done = subprocess.run(small, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(f"gpu-oncall: {file} cannot be used: ")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.endswith(": make room there, or name another place\n")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bot", "config.yaml"]


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_commands_say_what_they_did(tmp_path):
    folder, config, file = tmp_path / "bot", tmp_path / "config.yaml", tmp_path / "backup"
    config.write_text(f"bot: {{mode: shadow, data_dir: {folder}, bus: {{insecure: true}}}}\n")
    folder.mkdir()

    def run(*arguments):
        done = CliRunner().invoke(cli, ["db", *arguments, "--config", str(config)], catch_exceptions=False)
        assert done.exit_code == 0
        return done.output

    assert run("migrate") == "The database is at this version's schema.\n"
    assert "The keys in bot.data_dir are not part of it." in run("backup", str(file))
    assert run("restore", str(file)).startswith("Restored; the next bot's orders have a number above ")
    assert run("restore", str(file), "--replace").startswith("Restored; ")
    assert run("restored").startswith("The next bot's orders have a number above ")
