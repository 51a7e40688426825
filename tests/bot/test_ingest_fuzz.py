"""Whatever nodes send, it is stored, dropped or refused with a reason; nothing breaks, no node speaks for another.

Observations go through decode and ingest into a real database, heartbeats into the fleet and the incidents; now and
then everything that people could see is drawn, and the bot starts again. FUZZ_RUNS sets the size, of 3 messages each.
"""

import logging
import os
import random
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from bot.advance import Advance, AdvanceSettings
from bot.config import BotConfig, Mode
from bot.fleet import Fleet
from bot.ingest import Arrived, Ingest
from bot.judge.candidate import CandidateRule
from bot.render.words import words
from bot.runners import Runners
from bot.slack.commands import Caller
from bot.slack.queries import Queries
from bot.speak import speak
from bot.store import incidents, schema, windows
from bot.store.migrate import migrate
from bot.store.writer import Store
from tests.bot.any_input import assert_fits_and_is_harmless
from tests.build import FIRST_WINDOW, START, heartbeat, observation
from tests.build_ticks import hung, tick
from tests.mutate import mutated
from wire import subjects
from wire.messages import BadMessageError, Verdict, decode_heartbeat, encode
from wire.orders import Action
from wire.remedies import JournalEntry, NodeRemedies, OrderState

RUNS = 3 * int(os.environ.get("FUZZ_RUNS", "6000"))
SEED = int(os.environ.get("FUZZ_SEED", "20261130"))
ROUND = 20_000  # messages for one database: it would grow without end
CHUNK = 100
NODES = ("gpu-01", "gpu-02", "gpu-03")
C, H, U = Verdict.CANDIDATE, Verdict.HELD, Verdict.UNKNOWN
REMEDIES = NodeRemedies(
    order_versions=[1],
    challenge="c" * 32,
    highest_fence=3,
    journal=[JournalEntry("0123456789abcdef", Action.REBOOT_NODE, OrderState.DONE, START, "b0000000")],
    restart_runner={"chat": "systemd unit vllm.service"},
    reboot_node="systemctl reboot",
)


def observed(node: str, number: int, rng: random.Random) -> bytes:
    """The node's next window, as an honest agent sends it."""
    verdicts = rng.choice(((C,), (C, C), (C, H), (C, U, H)))
    one = observation(FIRST_WINDOW + number, verdicts, node=node, errors=[])
    ticks = rng.choice(([], [tick(number * 5)], [hung(number * 5), hung(number * 5 + 0.5)]))
    return encode(replace(one, ticks=ticks))


def beat(node: str, number: int, rng: random.Random) -> bytes:
    verdicts = rng.choice(((C,), (C, C), (C, H)))
    one = heartbeat(FIRST_WINDOW + number, verdicts, node=node, sent_at=START + timedelta(seconds=number))
    runners = rng.choice(([], [hung(number * 0.5)]))
    return encode(replace(one, runners=runners, remedies=rng.choice((None, REMEDIES)), order_key="0123456789abcdef"))


class Heard(logging.Handler):
    """What the log says that no message of a node may cause."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or "cannot be stored" in record.getMessage():
            self.found.append(self.format(record))


@pytest.fixture
def log():
    handler = Heard()
    logging.getLogger("bot").addHandler(handler)
    yield handler
    logging.getLogger("bot").removeHandler(handler)


class TheBot:
    """The parts between the stream and the cards, on one database."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.fleet = Fleet(CandidateRule(), runners=Runners())
        settings = AdvanceSettings(gather=timedelta(0), edit_every=timedelta(0), shadow=False)
        self.advance = Advance(store, self.fleet, settings)
        self.ingest = Ingest(store, self.fleet, self.advance)
        self.queries = Queries(store, self.fleet, self.advance, words("en"))
        config = BotConfig(data_dir=Path("/nowhere"), mode=Mode.SHADOW)
        self.commands, _ = speak(config, store, self.fleet, self.advance, None)

    async def start(self) -> None:
        """As after a restart: everything that was written must be readable."""
        self.fleet.tracks.update(await self.store.read(windows.load_tracks))
        await self.advance.start()

    async def hear(self, subject: str, body: bytes, *, judge: bool) -> bool:
        """As the listener does; whether it could be read."""
        try:
            heartbeat = decode_heartbeat(subject, body)
        except BadMessageError:
            return False
        self.fleet.heard(heartbeat)
        if judge:
            await self.advance.refresh(heartbeat.node)
        return True

    async def take(self, chunk: list[Arrived]) -> int:
        """How many could be read. The position is at the last one, whatever they were."""
        taken = await self.ingest.take(subjects.STREAM, START, chunk)
        assert taken.stored + taken.duplicates + len(taken.rejected) == len(chunk)
        _, position = await self.store.read(lambda connection: windows.position(connection, subjects.STREAM))
        assert position == chunk[-1].stream_seq
        return taken.stored + taken.duplicates

    async def show(self) -> None:
        """Everything that people could ask for now."""
        for incident in (await self.store.read(incidents.all_open))[:5]:
            assert_fits_and_is_harmless(await self.queries.card(incident))
        asked = [("/gpu-status", ""), ("/gpu-candidates", ""), ("/gpu-incidents", ""), ("/gpu-status", NODES[0])]
        asked += [("/gpu-why", f"{NODES[0]} 0"), ("/gpu-why", f"{NODES[0]} chat"), ("/gpu-incidents", "1")]
        for name, text in asked:
            answer = await self.commands.answer(name, text, Caller("U0ALICE", "T0"))
            assert_fits_and_is_harmless(answer.message)


async def play(store: Store, seeds: range) -> int:
    """One database's share; how many messages could be read."""
    bot, readable, seq = TheBot(store), 0, 0
    await bot.start()
    numbers = dict.fromkeys(NODES, 0)
    for first in range(seeds.start, seeds.stop, CHUNK):
        chunk = []
        for run in range(first, min(first + CHUNK, seeds.stop)):
            rng = random.Random(run)
            node = rng.choice(NODES)
            numbers[node] += 1
            if run % 3:
                seq += 1
                body = mutated(observed(node, numbers[node], rng), rng)
                chunk.append(Arrived(subjects.observations(node), seq, body))
            else:
                body = mutated(beat(node, numbers[node], rng), rng)
                readable += await bot.hear(subjects.heartbeat(node), body, judge=run % 5 == 0)
        readable += await bot.take(chunk)
        if first // CHUNK % 10 == 0:
            await bot.show()
        if first // CHUNK % 50 == 49:
            bot = TheBot(store)
            await bot.start()
    assert set(bot.fleet.nodes()) <= set(NODES)
    stored = sa.select(schema.node_window.c.node).distinct()
    assert set(await store.read(lambda connection: connection.execute(stored).scalars().all())) <= set(NODES)
    return readable


def fresh_store(folder: Path, name: str) -> Store:
    store = Store(f"sqlite:///{folder}/{name}.db")
    migrate(store.engine)
    return store


@pytest.mark.fuzz
async def test_mutated_reports_break_nothing_and_speak_for_nobody_else(tmp_path, log):
    readable = 0
    for first in range(SEED, SEED + RUNS, ROUND):
        store = fresh_store(tmp_path, "fuzz")
        try:
            readable += await play(store, range(first, min(first + ROUND, SEED + RUNS)))
        finally:
            store.close()
            for file in tmp_path.glob("fuzz.db*"):
                file.unlink()
        assert log.found == [], f"seeds from {first} on"
    print(f"{RUNS} mutated reports, {readable} of them read")
    assert readable >= RUNS / 2


async def test_a_spool_that_comes_back_is_known_by_what_it_sent_before(tmp_path, log):
    """Two hosts with one key, or an old disk put back: what is stored already is a duplicate, not an error."""
    store = fresh_store(tmp_path, "spools")
    try:
        bot, other = TheBot(store), {"spool_epoch": "f" * 32}
        numbers = [(1, {}), (9, {}), (1, other), (4, {}), (9, {}), (2, other), (5, {}), (9, {}), (2, other)]
        sent = [encode(observation(FIRST_WINDOW + n, seq=n, **changes)) for n, changes in numbers]
        arrived = [Arrived(subjects.observations("gpu-01"), 1 + n, body) for n, body in enumerate(sent)]
        for chunk in ([one] for one in arrived):
            await bot.take(chunk)
        await bot.take(arrived)
        stored = await store.read(lambda connection: connection.execute(sa.select(schema.node_window.c.seq)).all())
        refused = await store.read(lambda connection: connection.execute(sa.select(schema.rejected.c.reason)).all())
    finally:
        store.close()
    assert (len(stored), refused, log.found) == (6, [], [])
