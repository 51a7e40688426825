"""Claims: at most one holds a GPU; what is over stays as a record."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import Connection

from bot.claims import Claim
from bot.store.schema import claim

_COLUMNS = [claim.c[name] for name in Claim.__struct_fields__]


class Ended(msgspec.Struct, frozen=True):
    """Why a claim is over. `by` "" means that its time ran out."""

    at: datetime
    by: str = ""


def not_ended(connection: Connection) -> Sequence[Claim]:
    """Those that nobody ended, oldest first. Their time may be over: `Claim.holds`."""
    return _claims(connection, claim.c.ended_at.is_(None))


def claims_of_node(connection: Connection, node: str, now: datetime) -> Sequence[Claim]:
    """Those that hold a GPU of the node now, by the GPU's index."""
    found = _claims(connection, _holds(now) & (claim.c.node == node))
    return sorted(found, key=lambda one: one.gpu_index)


def claim_of(connection: Connection, node: str, gpu_uuid: str) -> Claim | None:
    """The one that nobody ended; its time may be over."""
    mine = (claim.c.node == node) & (claim.c.gpu_uuid == gpu_uuid) & claim.c.ended_at.is_(None)
    return next(iter(_claims(connection, mine)), None)


def claims_of_user(connection: Connection, user: str, now: datetime) -> Sequence[Claim]:
    return _claims(connection, _holds(now) & (claim.c.by == user))


def claim_of_token(connection: Connection, token: str) -> tuple[Claim, Ended | None] | None:
    """The claim that a button asks about, and how it ended; None for an unknown token."""
    query = sa.select(*_COLUMNS, claim.c.ended_at, claim.c.ended_by).where(claim.c.token == token)
    row = connection.execute(query).first()
    if row is None:
        return None
    return _claim(row), (Ended(row.ended_at, row.ended_by) if row.ended_at else None)


def add(connection: Connection, new: Claim) -> Claim:
    """With its id and token. The GPU must have no other that is not ended."""
    token = secrets.token_urlsafe(16)
    values = {name: getattr(new, name) for name in Claim.__struct_fields__ if name != "id"} | {"token": token}
    key = connection.execute(sa.insert(claim).values(**values, ended_by="")).inserted_primary_key
    assert key is not None
    return replace(new, id=key[0], token=token)


def save(connection: Connection, changed: Claim) -> None:
    """Its end, its reason, and what the holder was asked."""
    values = {name: getattr(changed, name) for name in ("until", "reason", "asked_at", "asks")}
    connection.execute(sa.update(claim).where(claim.c.id == changed.id).values(**values))


def end(connection: Connection, claim_id: int, ended: Ended) -> bool:
    """False: it had ended already."""
    mine = (claim.c.id == claim_id) & claim.c.ended_at.is_(None)
    return connection.execute(sa.update(claim).where(mine).values(ended_at=ended.at, ended_by=ended.by)).rowcount == 1


def forget_old(connection: Connection, before: datetime) -> int:
    return connection.execute(sa.delete(claim).where(claim.c.ended_at < before)).rowcount


def _holds(now: datetime) -> sa.ColumnElement[bool]:
    return claim.c.ended_at.is_(None) & (claim.c.until > now)


def _claims(connection: Connection, which: sa.ColumnElement[bool]) -> Sequence[Claim]:
    return [_claim(row) for row in connection.execute(sa.select(*_COLUMNS).where(which).order_by(claim.c.id))]


def _claim(row: Any) -> Claim:
    return Claim(**{name: row._mapping[name] for name in Claim.__struct_fields__})
