"""What a fault left behind: what was lost, what was done twice, and how long until everything was as before."""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import psycopg

from bench.scale.reports import GPUS
from bot.judge.track import NodeTrack
from tests.build import WINDOW_SECONDS
from tests.chaos.world import World

NORMAL_SECONDS = 120.0
_SECONDS_OF_A_NODE = GPUS * WINDOW_SECONDS


@dataclass(frozen=True)
class Moment:
    """One fault at one moment. `seconds` from its end until all was normal; None: it did not become so in time."""

    fault: str
    seconds: float | None
    lost: int
    judged_twice: int
    cards_doubled: int
    orders_doubled: int
    why: str = ""

    @property
    def is_good(self) -> bool:
        doubled = self.judged_twice or self.cards_doubled or self.orders_doubled
        return self.seconds is not None and not self.lost and not doubled


async def outcome(world: World, fault: str) -> Moment:
    """Waits until all is normal, or not any longer."""
    began, why = time.monotonic(), "nothing was seen"
    wanted = {name: seq + 1 for name, seq in world.spools().items()}
    while time.monotonic() - began < NORMAL_SECONDS:
        why = await asyncio.to_thread(_not_normal, world, wanted)
        if not why:
            seconds = time.monotonic() - began
            return Moment(fault, seconds, *await asyncio.to_thread(_harm, world, wanted))
        await asyncio.sleep(0.5)
    return Moment(fault, None, *await asyncio.to_thread(_harm, world, wanted), why=why)


def _not_normal(world: World, wanted: Mapping[str, int]) -> str:
    """Why it is not; "" it is: each node's next window is stored, and Slack has heard of everything."""
    try:
        stored = _stored(world)
        unsaid = world.pair.rows("SELECT kind, state, last_error FROM outbox WHERE state IN ('waiting', 'sending')")
    except psycopg.OperationalError as error:
        return str(error)
    late = {name: f"{stored.get(name, 0)} of {seq}" for name, seq in wanted.items() if stored.get(name, 0) < seq}
    return f"windows: {dict(list(late.items())[:5])}" if late else f"not said: {unsaid[:3]}" if unsaid else ""


def _stored(world: World) -> dict[str, int]:
    """How many windows of each node; their numbers begin with 1 and have no gap, unless some are lost."""
    return {row.node: row.count for row in world.pair.rows("SELECT node, count(*) FROM node_window GROUP BY node")}


def _harm(world: World, wanted: Mapping[str, int]) -> tuple[int, int, int, int]:
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
    seconds = Counter(dict(hours))
    for node, body in tracks:
        for gpu in msgspec.msgpack.decode(body, type=NodeTrack).gpus.values():
            if gpu.hour is not None:
                seconds[node] += gpu.hour.candidate_seconds + gpu.hour.held_seconds + gpu.hour.unknown_seconds
    counts = dict(stored)
    differences = [round(seconds[name] / _SECONDS_OF_A_NODE) - counts.get(name, 0) for name in names]
    return sum(abs(difference) for difference in differences)


def _doubled(world: World) -> int:
    """Messages in Slack that stand there twice, or that no row of the outbox knows."""
    keys = Counter(world.pair.keys())
    known = {row.ts for row in world.pair.rows("SELECT ts FROM outbox WHERE ts IS NOT NULL")}
    cards = [card for card in world.pair.channel.cards if card.metadata]
    return sum(count - 1 for count in keys.values()) + sum(card.ts not in known for card in cards)


def table(moments: Iterable[Moment], faults: Sequence[str], not_run: Sequence[str]) -> str:
    lines = [
        "| fault | moments | windows lost | judged twice | cards doubled | orders doubled | s to normal, min/median/max |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    all_moments = list(moments)
    for fault in faults:
        mine = [one for one in all_moments if one.fault == fault]
        if mine:
            lines.append(_row(fault, mine))
    lines += [f"| {fault} | 0: nobody may mount a disk here | | | | | |" for fault in not_run]
    return "\n".join(lines)


def _row(fault: str, moments: Sequence[Moment]) -> str:
    """Harm is counted since the beginning, so the worst of the moments says it."""
    seconds = [one.seconds for one in moments if one.seconds is not None]
    never = len(moments) - len(seconds)
    said = f"{min(seconds):.1f}/{statistics.median(seconds):.1f}/{max(seconds):.1f}" if seconds else ""
    said += f", {never} not in time" if never else ""
    harm = [max(getattr(one, name) for one in moments) for name in ("lost", "judged_twice", "cards_doubled")]
    harm.append(max(one.orders_doubled for one in moments))
    return f"| {fault} | {len(moments)} | {' | '.join(map(str, harm))} | {said} |"
