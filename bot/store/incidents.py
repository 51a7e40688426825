"""Incidents, their buttons, and the clicks on them."""

import secrets
from collections.abc import Sequence
from datetime import datetime

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import Connection

from bot.incident import Incident, Kind, Urgency
from bot.store.schema import button, click, incident, node_snooze, outbox
from bot.store.upsert import upsert

_decode = msgspec.json.Decoder(Incident).decode


class ChangedMeanwhileError(RuntimeError):
    """The incident in the database is not the one that was stepped: a second writer is at work."""


def load(connection: Connection, incident_id: int) -> Incident | None:
    body = connection.execute(sa.select(incident.c.body).where(incident.c.id == incident_id)).scalar()
    return _decode(body) if body else None


def open_of(connection: Connection, kind: Kind, subject: str) -> Incident | None:
    mine = (incident.c.kind == kind) & (incident.c.subject == subject) & incident.c.closed_at.is_(None)
    body = connection.execute(sa.select(incident.c.body).where(mine)).scalar()
    return _decode(body) if body else None


def all_open(connection: Connection) -> Sequence[Incident]:
    rows = connection.execute(sa.select(incident.c.body).where(incident.c.closed_at.is_(None)).order_by(incident.c.id))
    return [_decode(body) for body in rows.scalars()]


def open_by_kind(connection: Connection) -> dict[str, int]:
    """How many incidents of each kind are open; a kind without one is not there."""
    counts = sa.select(incident.c.kind, sa.func.count()).where(incident.c.closed_at.is_(None)).group_by(incident.c.kind)
    return {row.kind: row[1] for row in connection.execute(counts)}


def members_of(connection: Connection, group_id: int) -> Sequence[Incident]:
    """All incidents on the group's card, open and closed, oldest first."""
    rows = connection.execute(sa.select(incident.c.body).where(incident.c.shown_on == group_id).order_by(incident.c.id))
    return [_decode(body) for body in rows.scalars()]


def count_members(connection: Connection, group_id: int) -> tuple[int, int]:
    """How many incidents are on the group's card, and how many of them are open."""
    counts = sa.select(sa.func.count(), sa.func.count().filter(incident.c.closed_at.is_(None)))
    total, still_open = connection.execute(counts.where(incident.c.shown_on == group_id)).one()
    return total, still_open


def count_said(connection: Connection, since: datetime, kinds: Sequence[Kind], group_id: int | None = None) -> int:
    """How many of these kinds were said since, by cards of their own or on the card of this group."""
    has_own = incident.c.said_at >= since
    on_group = (incident.c.shown_on == group_id) & (incident.c.opened_at >= since)
    mine = has_own if group_id is None else has_own | on_group
    query = sa.select(sa.func.count()).select_from(incident)
    return connection.execute(query.where(mine, incident.c.kind.in_(kinds))).scalar_one()


def recent(connection: Connection, limit: int) -> Sequence[Incident]:
    """Newest first, open and closed."""
    rows = connection.execute(sa.select(incident.c.body).order_by(incident.c.id.desc()).limit(limit))
    return [_decode(body) for body in rows.scalars()]


def open_since(connection: Connection, since: datetime, kinds: Sequence[Kind]) -> Sequence[Incident]:
    """Of these kinds: all that were open at any time since then, oldest first."""
    was_open = incident.c.closed_at.is_(None) | (incident.c.closed_at >= since)
    query = sa.select(incident.c.body).where(incident.c.kind.in_(kinds) & was_open).order_by(incident.c.id)
    return [_decode(body) for body in connection.execute(query).scalars()]


def save(connection: Connection, before: Incident | None, after: Incident) -> Incident:
    """Writes `after` (with its id); raises ChangedMeanwhileError when the row is no longer at `before`'s revision."""
    if before is None:
        return _insert(connection, after)
    mine = (incident.c.id == before.id) & (incident.c.revision == before.revision)
    values = {
        "revision": after.revision,
        "urgency": after.urgency,
        "shown_on": after.shown_on,
        "said_at": after.said_at,
        "closed_at": after.closed_at,
        "body": msgspec.json.encode(after),
    }
    if connection.execute(sa.update(incident).where(mine).values(**values)).rowcount != 1:
        raise ChangedMeanwhileError(f"incident {before.id} is no longer at revision {before.revision}")
    return after


def _insert(connection: Connection, new: Incident) -> Incident:
    values = {
        "kind": new.kind,
        "subject": new.subject,
        "urgency": new.urgency,
        "shown_on": new.shown_on,
        "said_at": new.said_at,
        "opened_at": new.opened_at,
        "revision": new.revision,
        "body": b"",
    }
    key = connection.execute(sa.insert(incident).values(**values)).inserted_primary_key
    assert key is not None
    saved = replace(new, id=key[0])
    body = msgspec.json.encode(saved)
    connection.execute(sa.update(incident).where(incident.c.id == saved.id).values(body=body))
    return saved


def oldest_unsaid(connection: Connection, now: datetime) -> datetime | None:
    """Since when the oldest card waits that people should have seen by now; candidates may wait, and do not count."""
    is_waiting = outbox.c.state.in_(("waiting", "sending")) & (outbox.c.kind == "card") & (outbox.c.wanted_at <= now)
    counts = (incident.c.urgency <= Urgency.RECOVERY) & (incident.c.kind != Kind.SLACK_BACKLOG)
    query = sa.select(sa.func.min(outbox.c.wanted_at)).join(incident, outbox.c.incident_id == incident.c.id)
    return connection.execute(query.where(is_waiting, counts)).scalar()


class NodeSnooze(msgspec.Struct, frozen=True):
    """Everything about one node is kept quiet until then, up to the severity `up_to`."""

    node: str
    until: datetime
    by: str
    reason: str
    up_to: int


def node_snoozes(connection: Connection) -> Sequence[NodeSnooze]:
    rows = connection.execute(sa.select(node_snooze).order_by(node_snooze.c.node)).mappings()
    return [NodeSnooze(**{str(name): value for name, value in row.items()}) for row in rows]


def save_node_snooze(connection: Connection, snooze: NodeSnooze) -> None:
    upsert(connection, node_snooze, [msgspec.structs.asdict(snooze)], update=("until", "by", "reason", "up_to"))


def end_node_snooze(connection: Connection, node: str) -> bool:
    """False: there was none."""
    return connection.execute(sa.delete(node_snooze).where(node_snooze.c.node == node)).rowcount == 1


def button_token(connection: Connection, shown: Incident, now: datetime) -> str:
    """The opaque token that this incident's buttons carry until the next decision; made when first asked for."""
    mine = (button.c.incident_id == shown.id) & (button.c.decision_revision == shown.decision_revision)
    token = connection.execute(sa.select(button.c.token).where(mine)).scalar()
    if token:
        return str(token)
    token = secrets.token_urlsafe(16)
    values = {"token": token, "incident_id": shown.id, "decision_revision": shown.decision_revision, "made_at": now}
    connection.execute(sa.insert(button).values(**values))
    return token


def incident_of_token(connection: Connection, token: str) -> tuple[Incident, int] | None:
    """The incident behind a button and the decision revision that it was drawn at; None for an unknown token."""
    query = sa.select(button.c.incident_id, button.c.decision_revision).where(button.c.token == token)
    found = connection.execute(query).first()
    if found is None:
        return None
    loaded = load(connection, found.incident_id)
    return (loaded, found.decision_revision) if loaded else None


def record_click(
    connection: Connection, at: datetime, team: str, user: str, action: str, incident_id: int | None, outcome: str
) -> None:
    """Every click, also the refused ones."""
    values = {"at": at, "team": team, "user": user, "action": action, "incident_id": incident_id, "outcome": outcome}
    connection.execute(sa.insert(click).values(**values))


def clicks_of(connection: Connection, incident_id: int) -> Sequence[tuple[datetime, str, str, str]]:
    """When, who, what and what it came to; oldest first."""
    columns = click.c.at, click.c.user, click.c.action, click.c.outcome
    rows = connection.execute(sa.select(*columns).where(click.c.incident_id == incident_id).order_by(click.c.id))
    return [(row.at, row.user, row.action, row.outcome) for row in rows]
