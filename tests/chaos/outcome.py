"""What a fault left behind: what was lost, what was done twice, and how long until everything was as before."""

import asyncio
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import psycopg

from bench.scale.reports import GPUS
from bot import clock
from bot.judge.track import NodeTrack
from bot.store.schema import microseconds
from tests.build import WINDOW_SECONDS
from tests.chaos.world import World

NORMAL_SECONDS = 120.0
NOTED_SECONDS = 30.0  # a message is in Slack before the database knows it
_SECONDS_OF_A_NODE = GPUS * WINDOW_SECONDS


@dataclass(frozen=True)
class Moment:
    """One fault at one moment, and the seconds from its end until all was normal; None: not in time.

    `judged_seconds` until the next window of every node was judged, `said_seconds` until what came of it was in Slack.
    """

    fault: str
    judged_seconds: float | None
    said_seconds: float | None
    lost: int
    judged_twice: int
    cards_doubled: int
    orders_doubled: int
    why: str = ""

    @property
    def is_good(self) -> bool:
        doubled = self.judged_twice or self.cards_doubled or self.orders_doubled
        return self.said_seconds is not None and not self.lost and not doubled


async def outcome(world: World, fault: str) -> Moment:
    """Waits until all is normal, or not any longer."""
    began = time.monotonic()
    wanted = {name: seq + 1 for name, seq in world.spools().items()}
    judged, why = await _seconds_until(lambda: _not_judged(world, wanted), began)
    before = microseconds(clock.now())
    said, why = (None, why) if why else await _seconds_until(lambda: _not_said(world, before), began)
    return Moment(fault, judged, said, *await asyncio.to_thread(harm, world, wanted), why=why)


async def _seconds_until(obstacle: Callable[[], str], began: float) -> tuple[float | None, str]:
    """Since `began`; None after two minutes, with what stood in the way."""
    while True:
        try:
            why = await asyncio.to_thread(obstacle)
        except psycopg.OperationalError as error:
            why = str(error)
        seconds = time.monotonic() - began
        if not why:
            return seconds, ""
        if seconds > NORMAL_SECONDS:
            return None, why
        await asyncio.sleep(0.25)


def _not_judged(world: World, wanted: Mapping[str, int]) -> str:
    """Nodes of which fewer windows than `wanted` are stored: their numbers begin with 1 and have no gap."""
    rows = world.pair.rows("SELECT node, count(*) FROM node_window GROUP BY node")
    stored = {row.node: row.count for row in rows}
    late = [f"{name}: {stored.get(name, 0)} of {seq}" for name, seq in wanted.items() if stored.get(name, 0) < seq]
    return ", ".join(late[:5])


def _not_said(world: World, before: int) -> str:
    """Messages that people should have seen before then, in microseconds since 1970."""
    query = "SELECT kind, state, last_error FROM outbox WHERE state IN ('waiting', 'sending') AND wanted_at <= %s"
    unsaid = world.pair.rows(query, before)
    return ", ".join(str(row) for row in unsaid[:5])


def harm(world: World, wanted: Mapping[str, int]) -> tuple[int, int, int, int]:
    """Lost windows, windows judged twice, cards doubled, orders done twice: of all that happened so far."""
    query = "SELECT node, count(*) FROM node_window WHERE seq <= %s AND node = %s GROUP BY node"
    lost = sum(
        seq - 1 - sum(row.count for row in world.pair.rows(query, seq - 1, name)) for name, seq in wanted.items()
    )
    lost += len(world.pair.rows("SELECT 1 FROM missing")) + len(world.pair.rows("SELECT 1 FROM rejected"))
    return lost, _judged_twice(world), _doubled(world), world.orders.done_twice()


def _judged_twice(world: World) -> int:
    """The seconds that were summed while judging, beside those of the windows that are stored."""
    names = [node.name for node in world.fleet.nodes]
    with psycopg.connect(world.database.url("bot")) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        tracks = connection.execute("SELECT node, body FROM node_track WHERE node = ANY(%s)", (names,)).fetchall()
        hours = connection.execute(
            "SELECT node, sum(candidate_seconds + held_seconds + unknown_seconds) FROM gpu_hour GROUP BY node"
        ).fetchall()
        stored = connection.execute("SELECT node, count(*) FROM node_window GROUP BY node").fetchall()
    seconds: dict[str, float] = defaultdict(float, hours)
    for node, body in tracks:
        for gpu in msgspec.msgpack.decode(body, type=NodeTrack).gpus.values():
            if gpu.hour is not None:
                seconds[node] += gpu.hour.candidate_seconds + gpu.hour.held_seconds + gpu.hour.unknown_seconds
    counts: dict[str, int] = dict(stored)
    differences = [round(seconds[name] / _SECONDS_OF_A_NODE) - counts.get(name, 0) for name in names]
    return sum(abs(difference) for difference in differences)


def _doubled(world: World) -> int:
    """Messages in Slack that stand there twice, or that no row of the outbox knows after a while."""
    keys = Counter(world.pair.keys())
    known = {row.ts for row in world.pair.rows("SELECT ts FROM outbox WHERE ts IS NOT NULL")}
    noted_before = world.workspace.now().timestamp() - NOTED_SECONDS
    cards = [card for card in world.pair.channel.cards if card.metadata and float(card.ts) < noted_before]
    return sum(count - 1 for count in keys.values()) + sum(card.ts not in known for card in cards)


def table(moments: Iterable[Moment], faults: Sequence[str], not_run: Sequence[str]) -> str:
    lines = [
        "| fault | moments | windows lost | judged twice | cards doubled | orders doubled |"
        " s until judged, min/median/max | s until Slack knows all |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    all_moments = list(moments)
    for fault in faults:
        mine = [one for one in all_moments if one.fault == fault]
        if mine:
            lines.append(_row(fault, mine))
    lines += [f"| {fault} | 0: nobody may mount a disk here | | | | | | |" for fault in not_run]
    return "\n".join(lines)


def _row(fault: str, moments: Sequence[Moment]) -> str:
    """Harm is counted since the beginning, so the worst of the moments says it."""
    judged, said = _spread(one.judged_seconds for one in moments), _spread(one.said_seconds for one in moments)
    harm = [max(getattr(one, name) for one in moments) for name in ("lost", "judged_twice", "cards_doubled")]
    harm.append(max(one.orders_doubled for one in moments))
    return f"| {fault} | {len(moments)} | {' | '.join(map(str, harm))} | {judged} | {said} |"


def _spread(values: Iterable[float | None]) -> str:
    given = list(values)
    seconds = [value for value in given if value is not None]
    if not seconds:
        return "never"
    said = f"{min(seconds):.1f}/{statistics.median(seconds):.1f}/{max(seconds):.1f}"
    return said if len(seconds) == len(given) else f"{said}, {len(given) - len(seconds)} not in time"
