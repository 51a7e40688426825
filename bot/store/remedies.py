"""What rules ask about remedies: who is under way where, what was spent, and whether all are stopped."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection

from bot.incident import Incident
from bot.remedy.blockers import Switch
from bot.remedy.model import State
from bot.store.incidents import load
from bot.store.schema import remedy, remedy_switch
from bot.store.upsert import upsert
from wire.orders import Action

_STOP = "stop"
# An order of such a state was, or may have been, carried out.
_MAYBE_ACTED = (
    State.SENDING,
    State.UNANSWERED,
    State.ACCEPTED,
    State.DONE,
    State.FAILED,
    State.OUTCOME_UNKNOWN,
)


def save(connection: Connection, saved: Incident) -> None:
    """The request of this incident, beside the incident's own row. A second unfinished one of the node is an error."""
    request = saved.remedy
    if request is None:
        return
    values = {
        "incident_id": saved.id,
        "node": request.node,
        "runner": request.runner,
        "group_name": request.group,
        "action": request.action,
        "state": request.state,
        "about": request.about,
        "order_id": request.order_id or None,
        "asked_at": request.asked_at,
        "sent_at": request.sent_at,
        "ended_at": request.ended_at,
    }
    upsert(connection, remedy, [values], update=("state", "order_id", "sent_at", "ended_at"))


def unfinished_of(connection: Connection, node: str) -> Incident | None:
    query = sa.select(remedy.c.incident_id).where(remedy.c.node == node, remedy.c.ended_at.is_(None))
    number = connection.execute(query).scalar()
    return load(connection, number) if number else None


def unfinished(connection: Connection) -> Sequence[Incident]:
    query = sa.select(remedy.c.incident_id).where(remedy.c.ended_at.is_(None)).order_by(remedy.c.incident_id)
    found = [load(connection, number) for number in connection.execute(query).scalars()]
    return [one for one in found if one is not None]


def nodes_under_way(connection: Connection, but: int = 0) -> Sequence[str]:
    """The nodes with an unfinished request, without the request `but`."""
    query = sa.select(remedy.c.node).where(remedy.c.ended_at.is_(None), remedy.c.incident_id != but)
    return connection.execute(query.order_by(remedy.c.node)).scalars().all()


def count_reboots(connection: Connection, node: str, since: datetime, but: int = 0) -> int:
    """Orders for a reboot that left since then and that were, or may have been, carried out."""
    mine = (remedy.c.node == node) & (remedy.c.action == Action.REBOOT_NODE) & (remedy.c.sent_at >= since)
    mine &= remedy.c.state.in_(_MAYBE_ACTED) & (remedy.c.incident_id != but)
    return connection.execute(sa.select(sa.func.count()).select_from(remedy).where(mine)).scalar_one()


class Acted(msgspec.Struct, frozen=True):
    """An order that left, and that was, or may have been, carried out."""

    node: str
    runner: str
    action: Action
    state: State
    sent_at: datetime


def acted_since(connection: Connection, since: datetime) -> Sequence[Acted]:
    query = sa.select(remedy.c.node, remedy.c.runner, remedy.c.action, remedy.c.state, remedy.c.sent_at)
    query = query.where(remedy.c.sent_at >= since, remedy.c.state.in_(_MAYBE_ACTED)).order_by(remedy.c.sent_at)
    rows = connection.execute(query)
    return [Acted(row.node, row.runner, Action(row.action), State(row.state), row.sent_at) for row in rows]


# --- the kill switch ------------------------------------------------------------------------------------------------


def stopped(connection: Connection) -> Switch | None:
    row = connection.execute(sa.select(remedy_switch).where(remedy_switch.c.name == _STOP)).first()
    return Switch(row.by, row.at, row.reason) if row else None


def stop(connection: Connection, switch: Switch) -> None:
    values = {"name": _STOP, "by": switch.by, "at": switch.at, "reason": switch.reason}
    upsert(connection, remedy_switch, [values], update=("by", "at", "reason"))


def resume(connection: Connection) -> bool:
    """False: remedies were not stopped."""
    return connection.execute(sa.delete(remedy_switch).where(remedy_switch.c.name == _STOP)).rowcount == 1
