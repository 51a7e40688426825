"""What the one that advances incidents wrote: cards and lines that wait, and whether both agree with the incidents."""

from datetime import timedelta

from bot import clock
from bot.advance import Click
from bot.incident import Kind
from bot.store import outbox
from bot.store.outbox import RowKind
from tests.bot.outward import everything, rows_of_kind

CLICK = Click("", "test", "U0ALICE", "T1")


async def cards(store):
    """The ids of the incidents that have a card of their own."""
    return {row.incident_id for row in await rows_of_kind(store, RowKind.CARD)}


async def lines(store):
    return [(row.line_key, row.line_values) for row in await rows_of_kind(store, RowKind.THREAD)]


async def put_into_slack(store):
    """As if every card that waits had been posted by now."""

    def work(transaction):
        connection, now = transaction.connection, clock.now()
        for row in outbox.due(connection, now + timedelta(hours=1), limit=1000):
            if row.kind is RowKind.CARD and row.ts is None:
                outbox.mark_sending(connection, row, now)
                sent = outbox.Delivered("C1", f"{now.timestamp():.6f}", 1, 0, now)
                outbox.mark_sent(connection, row.id, sent, now)

    await store.write(work)


async def assert_consistent(store, advance):
    rows = await everything(store)
    still_open = [one for one in rows if one.closed_at is None]
    assert len({(one.kind, one.subject) for one in still_open}) == len(still_open)
    assert {one.id: one for one in still_open} == {one.id: one for one in advance.open_incidents()}
    for group in (one for one in still_open if one.kind is Kind.MANY_BLIND):
        members = [one for one in rows if one.shown_on == group.id]
        assert (group.members, group.members_open) == (len(members), sum(one.closed_at is None for one in members))
    with_cards = await cards(store)
    assert {one.id for one in still_open if one.said_at and one.shown_on is None} <= with_cards
    assert not with_cards & {one.id for one in rows if one.shown_on is not None or (one.quiet and not one.said_at)}
