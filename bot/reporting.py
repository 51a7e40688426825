"""Reads a span of the record and makes its report."""

from datetime import UTC, datetime, timedelta, tzinfo

import msgspec
from sqlalchemy import Connection

from bot.incident import BLIND, Incident, Kind
from bot.report.findings import findings
from bot.report.model import Price, Report
from bot.report.usage import Named, added, energy, uses
from bot.report.words import STALLS, Return, Word, precision, remedies, soon_returned, stall
from bot.store import audit, reports, windows
from bot.store.writer import Store

MOST_RETURNS = 500
NEAR_WINDOWS = 4


class ReportSettings(msgspec.Struct, frozen=True):
    """`zone` is the channel's: a week begins on its Monday."""

    zone: tzinfo = UTC
    price: Price = Price()
    is_shadow: bool = False


class Reporter:
    """`report` reads a snapshot in a thread of its own: ingest goes on meanwhile."""

    def __init__(self, store: Store, settings: ReportSettings) -> None:
        self._store = store
        self.settings = settings

    async def report(self, until: datetime, length: timedelta) -> Report:
        return await self._store.read(lambda connection: gather(connection, until - length, until, self.settings))


def gather(connection: Connection, since: datetime, until: datetime, settings: ReportSettings) -> Report:
    rows = reports.slots(connection, since, until, settings.zone)
    gpus, odd_rows = uses(rows, _named(connection))
    candidates, odd_candidates = reports.incidents_of(connection, since, until, [Kind.CANDIDATE])
    runners, odd_runners = reports.incidents_of(connection, since, until, [Kind.RUNNER])
    blind, odd_blind = reports.incidents_of(connection, since, until, sorted(BLIND))
    asked, odd_asked = reports.incidents_of(connection, since, until, [Kind.REMEDY])
    began = [one for one in candidates if one.opened_at >= since]
    stalls = [one for one in runners if one.opened_at >= since and one.what in STALLS]
    total = added(use.total for use in gpus)
    price = settings.price
    return Report(
        since=since,
        until=until,
        is_shadow=settings.is_shadow,
        gpus=gpus,
        total=total,
        idle_energy=energy(total.candidate, total.idle_joules, total.idle_read, price),
        held_idle_energy=energy(total.held_idle, total.held_idle_joules, total.held_idle_read, price),
        stalls=[stall(one) for one in stalls],
        free_words=precision(_words(connection, began)),
        stall_words=precision(_words(connection, stalls)),
        blind=len(blind),
        blind_seconds=sum(_seconds_in(one, since, until) for one in blind),
        findings=findings(gpus),
        remedies=remedies(one for one in asked if one.opened_at >= since),
        audit_head=str(audit.head(connection) or ""),
        unreadable=odd_rows + odd_candidates + odd_runners + odd_blind + odd_asked,
        currency=price.currency,
    )


def _named(connection: Connection) -> Named:
    tracks = windows.load_tracks(connection)
    return {(node, uuid): (gpu.index, gpu.model) for node, track in tracks.items() for uuid, gpu in track.gpus.items()}


def _words(connection: Connection, found: list[Incident]) -> list[Word]:
    cards = {one.shown_on or one.id for one in found}
    reached = reports.said(connection, sorted(cards))
    returns = [back for one in found for back in soon_returned(one)][:MOST_RETURNS]
    taken_back = {back.incident_id for back in returns if _is_taken_back(connection, back)}
    return [Word(one, (one.shown_on or one.id) in reached, one.id in taken_back) for one in found]


def _is_taken_back(connection: Connection, back: Return) -> bool:
    """Whether a process of the same owner was on it within 10 minutes: then nobody had given it back."""
    left_at = datetime.fromtimestamp(back.left_at_seconds, UTC)
    around = windows.windows_around(connection, back.node, left_at + timedelta(minutes=10), NEAR_WINDOWS)
    seen = (gpu for one in around if one.closed_at >= left_at for gpu in one.gpus if gpu.uuid == back.uuid)
    return any(process.user == back.owner for gpu in seen for process in gpu.processes)


def _seconds_in(incident: Incident, since: datetime, until: datetime) -> float:
    begin, end = max(incident.opened_at, since), min(incident.closed_at or until, until)
    return max((end - begin).total_seconds(), 0.0)
