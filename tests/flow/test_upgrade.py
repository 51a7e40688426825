"""A newer bot on the database that an older one left in the middle of its work: the same cards, and none twice."""

import json
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from slack_sdk.web.async_client import AsyncWebClient

from bot.advance import Advance, AdvanceSettings
from bot.fleet import Fleet
from bot.judge.candidate import CandidateRule
from bot.store import incidents, windows
from bot.store.migrate import migrate
from bot.store.schema import METADATA
from bot.store.writer import Store
from demo.gpus import gpu, play, training
from tests.flow.record import rows

DATABASES = Path(__file__).parents[1] / "cases/databases"
OLD = [file.stem for file in sorted(DATABASES.glob("*.sql"))]
COUNTED = ("incident", "button", "click", "outbox", "node_window", "node_track", "gpu_run", "node_snooze")


def load(sql: str, file: Path) -> None:
    with sqlite3.connect(file) as database:
        database.executescript(sql)
    database.close()


def counts(file: Path) -> dict[str, int]:
    database = sqlite3.connect(file)
    try:
        return {table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in COUNTED}  # noqa: S608
    finally:
        database.close()


@pytest.mark.parametrize("version", OLD)
async def test_an_older_database_gets_the_present_schema_and_keeps_all_that_is_in_it(tmp_path, version):
    file = tmp_path / "old.sqlite"
    load((DATABASES / f"{version}.sql").read_text(), file)
    before = counts(file)
    store = Store(f"sqlite:///{file}")
    try:
        migrate(store.engine)
        with store.engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        assert counts(file) == before
        assert min(before.values()) > 0
        fleet = Fleet(CandidateRule(), await store.read(windows.load_tracks))
        advance = Advance(store, fleet, AdvanceSettings(timedelta(0), timedelta(0), shadow=False))
        await advance.start()
        assert {one.node for one in await store.read(incidents.all_open)} == {"gpu-01", "gpu-03"}
        assert set(fleet.nodes()) == {"gpu-01", "gpu-02", "gpu-03"}
    finally:
        store.close()


async def posted_before(workspace, version: str) -> dict[str, str]:
    """The old bot's messages, put into this workspace; old ts to new."""
    client, moved = AsyncWebClient(token=workspace.bot_token, base_url=workspace.api_url), {}
    for message in json.loads((DATABASES / f"{version}-messages.json").read_text()):
        said = {name: message[name] for name in ("channel", "text", "blocks", "metadata") if message[name]}
        thread_ts = moved.get(message["thread_ts"])
        moved[message["ts"]] = (await client.chat_postMessage(thread_ts=thread_ts, **said))["ts"]
    return moved


async def test_a_newer_bot_goes_on_with_the_cards_of_the_older_one(line, workspace, tmp_path):
    moved = await posted_before(workspace, "0001")
    sql = (DATABASES / "0001.sql").read_text()
    for old, new in moved.items():
        sql = sql.replace(old, new)
    load(sql, line.machine.data_dir / "gpu-oncall.sqlite")
    free, stall = line.cards
    play(tmp_path / "gpus.jsonl", training(0, 1), training(1, 1))
    agent = line.machine.node("gpu-01", collector="replay", replay_file=str(tmp_path / "gpus.jsonl"))
    play(tmp_path / "idle.jsonl", gpu(0, 3))
    other = line.machine.node("gpu-03", collector="replay", replay_file=str(tmp_path / "idle.jsonl"))
    bot = line.machine.bot()
    async with line.running(bot):
        await workspace.until_connected(sockets=2)
        seen = await workspace.person("alice").press(free, "Acknowledge")  # a button that the old bot drew
        assert seen.acked
        await line.until(lambda: "Acknowledged by" in free.text)
        async with line.node_running(agent), line.node_running(other):
            await line.until(lambda: free.text.startswith("OVER gpu-01"))
            # Its card waited for Slack when the old bot ended: the old word is not said, the present one is, once.
            await line.until(lambda: any(card.text.startswith("FREE gpu-03") for card in line.cards))
    assert [card.ts for card in line.cards[:2]] == [free.ts, stall.ts]
    assert len(line.cards) == 3, [card.text for card in line.cards]
    sent = rows(line.machine.data_dir, "SELECT ts FROM outbox WHERE kind = 'card' AND ts IS NOT NULL ORDER BY id")
    assert [row["ts"] for row in sent] == [card.ts for card in line.cards]
    clicks = rows(line.machine.data_dir, "SELECT user, action, outcome FROM click ORDER BY id")
    assert [(row["action"], row["outcome"]) for row in clicks][::2] == [("acknowledge", "done")] * 2
