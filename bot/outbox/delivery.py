"""One row to Slack: drawn as it stands this moment, written down as `sending`, sent, written down as sent."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from bot import clock
from bot.advance import Advance
from bot.claims import Claim
from bot.incident import CANDIDATES, GROUPS, CardState, Incident, Kind
from bot.notify import DeliveryError, DeliveryKind, Notifier
from bot.outbox.settings import POST, UPDATE, OutboxSettings
from bot.outbox.strays import take_back_strays
from bot.outbox.troubles import SLACK, Troubles
from bot.pauses import Paces
from bot.render import notice, thread
from bot.render.card import Drawing, card
from bot.render.claims import NOTICES
from bot.render.message import Message, noted
from bot.render.report import report_card
from bot.render.values import length
from bot.render.words import Mrkdwn, Words
from bot.reporting import Reporter
from bot.store import audit, backlog, claims, incidents, outbox, troubles
from bot.store.outbox import Delivered, OutboxRow, RowState
from bot.store.writer import Store, Transaction

log = logging.getLogger(__name__)

NOT_FREE_YET = timedelta(seconds=2)
LATE = timedelta(seconds=60)
WEEK = timedelta(days=7)
CLAIM_OVER = timedelta(hours=1)
OVER = "it was over before anybody heard of it"
STALE = "the claim ended long ago"
INVALID_BLOCKS = "invalid blocks"


class _Ready(msgspec.Struct, frozen=True):
    """A card that may go out now."""

    row: OutboxRow
    incident: Incident
    token: str
    members: Sequence[Incident] = ()
    audit_head: str = ""
    claims: Sequence[Claim] = ()


class Delivery:
    """Raises DeliveryError for whatever Slack or the network does."""

    def __init__(
        self,
        store: Store,
        advance: Advance,
        notifier: Notifier,
        words: Words,
        settings: OutboxSettings,
        troubles: Troubles,
    ) -> None:
        self._store = store
        self._advance = advance
        self._notifier = notifier
        self._words = words
        self._settings = settings
        self._troubles = troubles
        self._reporter = Reporter(store, settings.report)
        self.paces = Paces(settings.paces)
        self.invalid_blocks = 0

    def channel(self, row: OutboxRow, incident: Incident) -> str:
        """Its own; where nothing can be said there now and it is not there yet, the home channel."""
        wanted = row.channel or self._settings.channels.get(incident.kind, self._settings.home)
        is_stuck = row.ts is None and self._troubles.seconds_left(wanted) > 0
        return self._settings.home if is_stuck else wanted

    # --- cards ------------------------------------------------------------------------------------------------------

    async def card(self, row: OutboxRow, incident: Incident) -> None:
        if await self._is_held_back(row, self.channel(row, incident)):
            return
        if incident.closed_at is None:
            await self._advance.refresh_incident(incident)
        members = await self._advance.members(incident)
        free_now = self._advance.free_now(members or [incident])
        ready = await self._store.write(lambda transaction: self._prepare(transaction, row.id, free_now))
        if ready is not None:
            await self._send_card(ready, free_now)

    def _prepare(self, transaction: Transaction, row_id: int, free_now: frozenset[str]) -> _Ready | None:
        """The card as it stands after the refresh; None where it must wait, or is never said."""
        connection, now = transaction.connection, clock.now()
        row = outbox.row_of(connection, row_id)
        incident = incidents.load(connection, row.incident_id) if row and row.incident_id else None
        if row is None or incident is None or row.state is not RowState.WAITING:
            return None
        if row.ts is None and incident.closed_at:
            outbox.drop(connection, row.id, OVER)
            return None
        if incident.quiet is not None and self._advance.take_back_in(transaction, incident):
            return None
        members = incidents.members_of(connection, incident.id) if incident.kind in GROUPS else ()
        if row.ts is None and incident.kind in CANDIDATES and not confirmed(members or [incident]) & free_now:
            outbox.postpone(connection, row.id, now + NOT_FREE_YET)
            return None
        head = audit.head(connection) if incident.remedy else None
        held = claims.claims_of_node(connection, incident.node, now) if incident.node else ()
        return _Ready(row, incident, incidents.button_token(connection, incident, now), members, str(head or ""), held)

    async def _send_card(self, ready: _Ready, free_now: frozenset[str]) -> None:
        row, incident = ready.row, ready.incident
        late_seconds = late_by(row).total_seconds()
        # One that cannot be edited is posted again and again: only its first post mentions people.
        drawn = replace(incident, mentions=()) if row.is_frozen else incident
        drawing = Drawing(
            drawn,
            ready.token,
            free_now,
            clock.now(),
            members=ready.members,
            audit_head=ready.audit_head,
            claims=ready.claims,
        )
        message = noted(card(self._words, drawing), self._notes(row, late_seconds), self._words.say("answer.more"))
        channel = self.channel(row, incident)
        if not await self._mark_sending(row):
            return
        ts = await self._with_blocks_or_text(row, channel, message, incident.revision)
        # A confirmed GPU that could not be called free this moment: the card is drawn again until it can be told.
        is_settled = incident.closed_at or confirmed(ready.members or [incident]) <= free_now
        shown = replace(incident, revision=incident.revision if is_settled else incident.revision - 1)
        await self.mark_sent(row, channel, ts, shown, round(late_seconds))

    def _notes(self, row: OutboxRow, late_seconds: float) -> list[Mrkdwn]:
        posted_late = late_seconds if row.ts is None else row.late_seconds
        notes = [
            (row.is_frozen, "note.frozen", 0.0),
            (row.was_reposted, "note.reposted", 0.0),
            (row.possibly_twice, "note.possibly_twice", 0.0),
            (posted_late > LATE.total_seconds(), "note.late", posted_late),
            (row.ts is not None and late_seconds > LATE.total_seconds(), "note.late_change", late_seconds),
        ]
        return [self._words.say(key, late=length(seconds)) for applies, key, seconds in notes if applies]

    async def _with_blocks_or_text(self, row: OutboxRow, channel: str, message: Message, revision: int) -> str:
        try:
            return await self._sent(row, channel, message, revision)
        except DeliveryError as error:
            await self._count_invalid_blocks(row, error)
            return await self._sent(row, channel, replace(message, blocks=[]), revision)

    async def _count_invalid_blocks(self, row: OutboxRow, error: DeliveryError) -> None:
        """Then the text may go alone. Raises any other error again."""
        if error.kind is not DeliveryKind.INVALID_BLOCKS:
            raise error
        self.invalid_blocks += 1
        log.error("Slack refused our blocks, the text goes alone; row=%d error=%s", row.id, error)
        await self._troubles.note(INVALID_BLOCKS, str(error))

    async def _sent(self, row: OutboxRow, channel: str, message: Message, revision: int) -> str:
        self.paces.spend(method(row), clock.monotonic_seconds())
        if row.ts is None:
            return await self._notifier.post(channel, message, row.delivery_key)
        if row.is_frozen:
            await self._notifier.post(channel, message, frozen_key(row, revision), thread_ts=row.ts)
        else:
            await self._notifier.update(channel, row.ts, message)
        return row.ts

    # --- lines of a thread, and notices -----------------------------------------------------------------------------

    async def line(self, row: OutboxRow, above: OutboxRow | None) -> None:
        if above is None or above.state is RowState.DROPPED or above.ts is None or above.channel is None:
            await self._store.write(lambda transaction: outbox.drop(transaction.connection, row.id, "it has no card"))
            return
        if await self._is_held_back(row, above.channel):
            return
        values = await self._that_holds(row)
        if values is None:
            await self._store.write(lambda transaction: outbox.drop(transaction.connection, row.id, OVER))
            return
        if not await self._mark_sending(row):
            return
        message = thread.line(self._words, row.line_key or "", values)
        self.paces.spend(method(row), clock.monotonic_seconds())
        ts = await self._notifier.post(above.channel, message, row.delivery_key, thread_ts=above.ts)
        await self.mark_sent(row, above.channel, ts, None, 0)

    async def _that_holds(self, row: OutboxRow) -> Mapping[str, str] | None:
        """A GPU that the line calls free is asked about again, as for a card; None where nothing of it holds."""
        values, incident_id = row.line_values or {}, row.incident_id
        incident = await self._store.read(lambda connection: incidents.load(connection, incident_id or 0))
        if incident is None or incident.kind is not Kind.CANDIDATE:
            return values
        await self._advance.refresh_incident(incident)
        present = await self._store.read(lambda connection: incidents.load(connection, incident.id)) or incident
        free = confirmed([present]) & self._advance.free_now([present])
        return thread.that_holds(row.line_key or "", values, [gpu.index for gpu in present.gpus if gpu.uuid in free])

    async def notice(self, row: OutboxRow) -> None:
        channel = row.channel or self._settings.home
        if is_stale_claim(row, clock.now()):
            await self._store.write(lambda transaction: outbox.drop(transaction.connection, row.id, STALE))
            return
        if await self._is_held_back(row, channel):
            return
        if row.line_key == notice.RESTORED:
            await self._take_back_strays(row.line_values or {})
        message = await self._noticed(row.line_key or "", row.line_values or {})
        if row.possibly_twice:
            message = noted(message, [self._words.say("note.possibly_twice")], self._words.say("answer.more"))
        if not await self._mark_sending(row):
            return
        try:
            channel, ts = await self._told(row, channel, message)
        except DeliveryError as error:
            await self._count_invalid_blocks(row, error)
            channel, ts = await self._told(row, channel, replace(message, blocks=[]))
        await self.mark_sent(row, channel, ts, None, 0)

    async def _told(self, row: OutboxRow, channel: str, message: Message) -> tuple[str, str]:
        """The channel that it is in, and its ts."""
        self.paces.spend(method(row), clock.monotonic_seconds())
        if row.ts is None:
            return await self._notifier.post_to(channel, message, row.delivery_key)
        await self._notifier.update(channel, row.ts, message)
        return channel, row.ts

    async def _take_back_strays(self, values: Mapping[str, str]) -> None:
        channels = {self._settings.home, *self._settings.channels.values()}
        await take_back_strays(self._store, self._notifier, self._words, channels, notice.since(values) or clock.now())

    async def _noticed(self, key: str, values: Mapping[str, str]) -> Message:
        """As it is right now."""
        if key == notice.WEEKLY_REPORT:
            until = datetime.fromisoformat(values["until"])
            return report_card(self._words, await self._reporter.report(until, WEEK))
        since = notice.since(values)
        counts = await self._store.read(lambda connection: backlog.since_then(connection, since)) if since else None
        return notice.notice(self._words, key, values, counts, clock.now())

    # --- what the database is told ----------------------------------------------------------------------------------

    async def _mark_sending(self, row: OutboxRow) -> bool:
        return await self._store.write(
            lambda transaction: outbox.mark_sending(transaction.connection, row, clock.now())
        )

    async def mark_sent(self, row: OutboxRow, channel: str, ts: str, shown: Incident | None, late_seconds: int) -> None:
        """Slack has it, a card as `shown`. A decision that was taken meanwhile is shown at once."""

        def work(transaction: Transaction) -> None:
            connection, now = transaction.connection, clock.now()
            present = incidents.load(connection, row.incident_id) if row.incident_id else None
            decided = bool(shown and present and present.decision_revision != shown.decision_revision)
            again_at = now if decided else now + self._settings.edit_every
            revision = shown.revision if shown else row.wanted_revision
            outbox.mark_sent(connection, row.id, Delivered(channel, ts, revision, late_seconds, again_at), now)

        await self._store.write(work)
        await self._troubles.worked([SLACK, method(row), troubles.of_row(row.id), channel])

    async def _is_held_back(self, row: OutboxRow, channel: str) -> bool:
        left = self._troubles.seconds_left(channel)
        if left:
            until = clock.now() + timedelta(seconds=left)
            await self._store.write(lambda transaction: outbox.hold_back(transaction.connection, row.id, until))
        return left > 0


def method(row: OutboxRow) -> str:
    return POST if row.ts is None or row.is_frozen else UPDATE


def frozen_key(row: OutboxRow, revision: int) -> str:
    """Each state that goes into the thread of a card that cannot be edited is a message of its own."""
    return f"{row.delivery_key}:{revision}"


def is_stale_claim(row: OutboxRow, now: datetime) -> bool:
    """A message about a claim that ended long ago helps nobody: Slack takes none for this person."""
    until = (row.line_values or {}).get("until")
    return row.line_key in NOTICES and until is not None and now > datetime.fromisoformat(until) + CLAIM_OVER


def late_by(row: OutboxRow) -> timedelta:
    return max(clock.now() - row.wanted_at, timedelta())


def confirmed(shown: Sequence[Incident]) -> frozenset[str]:
    return frozenset(gpu.uuid for one in shown for gpu in one.gpus if gpu.state is CardState.CONFIRMED)
