"""A record to report on: hours, incidents, cards."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from bot.incident import CardGpu, CardState, Finding, Incident, Kind
from bot.judge.hours import Hour
from bot.judge.track import Evidence, LastHeld
from bot.judge.verdict import Because, Presence, Said
from bot.store import incidents, outbox, windows
from tests.build import gpu_uuid
from wire.messages import Process

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
NEXT_MONDAY = MONDAY + timedelta(days=7)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def hour(at, idle=0.0, held=0.0, unknown=0.0, held_idle=0.0, watts=None):
    """Shares of the hour; `watts` None: the power was not read."""
    seconds = {"candidate_seconds": idle, "held_seconds": held, "unknown_seconds": unknown}
    seconds |= {"held_idle_seconds": held_idle}
    if watts is not None:
        seconds |= {"idle_joules": idle * watts, "idle_read_seconds": idle}
        seconds |= {"held_idle_joules": held_idle * watts, "held_idle_read_seconds": held_idle}
    return Hour(at, **{name: share * 3600 for name, share in seconds.items()})


def week(node="gpu-01", gpu=0, days=7, **shares):
    """The hours of one GPU from MONDAY on; a share may be a function of the hour of the day."""
    rows = []
    for number in range(days * 24):
        at = MONDAY + timedelta(hours=number)
        values = {name: share(at.hour) if callable(share) else share for name, share in shares.items()}
        rows.append((node, gpu_uuid(gpu), hour(at, **values)))
    return rows


async def add_hours(store, *weeks):
    rows = [row for one in weeks for row in one]
    await store.write(lambda transaction: windows.add_hours(transaction.connection, rows))


def stall(opened_at=MONDAY + HOUR, what="stalled", subject="gpu-07/chat", **changes):
    finding = Finding(Kind.RUNNER, subject, Presence.PRESENT, what, opened_at - 17 * MINUTE, Said("title.stalled"), ())
    return Incident(0, Kind.RUNNER, subject, opened_at, finding=finding, said_at=opened_at, **changes)


def free_card(opened_at=MONDAY + HOUR, left_after=None, owner="alice", node="gpu-01", **changes):
    """A GPU that was called free; `left_after` None: it still is."""
    held = LastHeld(1, opened_at - HOUR, Process(4321, user=owner) if owner else None)
    gpu = CardGpu(
        uuid=gpu_uuid(0),
        index=0,
        model="H100",
        state=CardState.CONFIRMED,
        since=opened_at - 15 * MINUTE,
        changed_at=opened_at,
        window_seconds=300.0,
        streak=3,
        judged_up_to=3,
        evidence=(Evidence(3, opened_at, 0, 0, 0),),
        last_held=held,
    )
    if left_after is not None:
        gpu = replace(
            gpu,
            state=CardState.LEFT,
            changed_at=opened_at + left_after,
            because=Because.SAMPLE_HELD,
            detail="memory_held",
        )
    return Incident(0, Kind.CANDIDATE, node, opened_at, gpus=(gpu,), said_at=opened_at, **changes)


async def add_incident(store, incident, *, in_slack=True):
    """With its card, in Slack or kept in shadow mode."""

    def work(transaction):
        connection, at = transaction.connection, incident.opened_at
        saved = incidents.save(connection, None, incident)
        incidents.save(connection, saved, saved)
        outbox.want_card(connection, saved.id, 1, f"key {saved.id}", at, shadow=not in_slack, now=at)
        card = outbox.card_of(connection, saved.id)
        if in_slack:
            outbox.mark_sent(connection, card.id, outbox.Delivered("C1", f"{saved.id}.1", 1, 0, at), at)
        return saved

    return await store.write(work)
