"""The tables, as SQLAlchemy Core knows them; migrations/ creates them."""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

METADATA = sa.MetaData()


def microseconds(instant: datetime) -> int:
    """The number that stands for an instant in the tables."""
    return round(instant.timestamp() * 1_000_000)


class Instant(sa.TypeDecorator[datetime]):
    """An aware UTC instant, kept as microseconds since 1970 so that both databases sort and return it alike."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> int | None:
        return None if value is None else microseconds(value)

    def process_result_value(self, value: Any, dialect: Any) -> datetime | None:
        return None if value is None else datetime.fromtimestamp(value / 1_000_000, UTC)


_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers only INTEGER keys by itself


def _id() -> sa.Column[int]:
    return sa.Column("id", _ID, primary_key=True, autoincrement=True)


stream_position = sa.Table(
    "stream_position",
    METADATA,
    sa.Column("stream", sa.String, primary_key=True),
    sa.Column("created_at", Instant, nullable=False),  # the stream's own creation time: its numbers can start again
    sa.Column("seq", sa.BigInteger, nullable=False),
)

node_window = sa.Table(
    "node_window",
    METADATA,
    _id(),
    sa.Column("node", sa.String, nullable=False),
    sa.Column("spool_epoch", sa.String, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("boot_id", sa.String, nullable=False),
    sa.Column("window_number", sa.BigInteger, nullable=False),
    sa.Column("closed_at", Instant, nullable=False),
    sa.Column("received_at", Instant, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # the report as it came, zlib
    sa.UniqueConstraint("node", "spool_epoch", "seq"),
    sa.Index("node_window_by_time", "node", "closed_at"),
    sa.Index("node_window_by_age", "received_at"),
)

node_track = sa.Table(
    "node_track",
    METADATA,
    sa.Column("node", sa.String, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),  # NodeTrack as MessagePack: rewritten with every window
)

missing = sa.Table(
    "missing",
    METADATA,
    _id(),
    sa.Column("node", sa.String, nullable=False),
    sa.Column("spool_epoch", sa.String, nullable=False),
    sa.Column("first_seq", sa.BigInteger, nullable=False),
    sa.Column("last_seq", sa.BigInteger, nullable=False),
    sa.Column("noticed_at", Instant, nullable=False),
)

gpu_run = sa.Table(
    "gpu_run",
    METADATA,
    _id(),
    sa.Column("node", sa.String, nullable=False),
    sa.Column("gpu_uuid", sa.String, nullable=False),
    sa.Column("boot_id", sa.String, nullable=False),
    sa.Column("verdict", sa.String, nullable=False),
    sa.Column("first_window", sa.BigInteger, nullable=False),
    sa.Column("last_window", sa.BigInteger, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("ended_at", Instant, nullable=False),
    sa.Index("gpu_run_by_gpu", "node", "gpu_uuid", "ended_at"),
)

gpu_hour = sa.Table(
    "gpu_hour",
    METADATA,
    sa.Column("node", sa.String, primary_key=True),
    sa.Column("gpu_uuid", sa.String, primary_key=True),
    sa.Column("hour", Instant, primary_key=True),
    sa.Column("candidate_seconds", sa.Float, nullable=False),
    sa.Column("held_seconds", sa.Float, nullable=False),
    sa.Column("unknown_seconds", sa.Float, nullable=False),
    sa.Column("held_idle_seconds", sa.Float, nullable=False),  # of the held ones: a process, memory, and no utilisation
    # Energy, with the seconds in which the power was read.
    sa.Column("idle_joules", sa.Float, nullable=False),
    sa.Column("idle_read_seconds", sa.Float, nullable=False),
    sa.Column("held_idle_joules", sa.Float, nullable=False),
    sa.Column("held_idle_read_seconds", sa.Float, nullable=False),
    sa.Index("gpu_hour_by_time", "hour"),
)

rejected = sa.Table(
    "rejected",
    METADATA,
    _id(),
    sa.Column("subject", sa.String, nullable=False),
    sa.Column("stream_seq", sa.BigInteger),
    sa.Column("reason", sa.String, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("received_at", Instant, nullable=False),
)

incident = sa.Table(
    "incident",
    METADATA,
    _id(),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("subject", sa.String, nullable=False),
    sa.Column("urgency", sa.Integer, nullable=False),  # the order in which messages leave
    sa.Column("shown_on", _ID, sa.ForeignKey("incident.id")),  # the group on whose card it stands
    sa.Column("opened_at", Instant, nullable=False),
    sa.Column("said_at", Instant),  # since when people may have heard of it, by a card of its own
    sa.Column("closed_at", Instant),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # Incident as JSON
    sa.Index(
        "incident_open",
        "kind",
        "subject",
        unique=True,
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    ),
    sa.Index("incident_members", "shown_on"),
    sa.Index("incident_by_time", "opened_at"),
    sa.Index("incident_said", "said_at"),
)

node_snooze = sa.Table(
    "node_snooze",
    METADATA,
    sa.Column("node", sa.String, primary_key=True),
    sa.Column("until", Instant, nullable=False),
    sa.Column("by", sa.String, nullable=False),
    sa.Column("reason", sa.String, nullable=False),
    sa.Column("up_to", sa.Integer, nullable=False),  # the severity that it keeps quiet
)

claim = sa.Table(
    "claim",
    METADATA,
    _id(),
    sa.Column("node", sa.String, nullable=False),
    sa.Column("gpu_uuid", sa.String, nullable=False),
    sa.Column("gpu_index", sa.Integer, nullable=False),
    sa.Column("by", sa.String, nullable=False),
    sa.Column("since", Instant, nullable=False),
    sa.Column("until", Instant, nullable=False),
    sa.Column("reason", sa.String, nullable=False),
    sa.Column("token", sa.String, nullable=False, unique=True),  # opaque: what its buttons carry
    sa.Column("asked_at", Instant),
    sa.Column("asks", sa.Integer, nullable=False),
    sa.Column("ended_at", Instant),
    sa.Column("ended_by", sa.String, nullable=False),  # "": its time ran out
    sa.Index(
        "claim_not_ended",
        "node",
        "gpu_uuid",
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    ),
)

button = sa.Table(
    "button",
    METADATA,
    sa.Column("token", sa.String, primary_key=True),  # opaque: what a Slack button carries
    sa.Column("incident_id", _ID, sa.ForeignKey("incident.id"), nullable=False),
    sa.Column("decision_revision", sa.Integer, nullable=False),
    sa.Column("made_at", Instant, nullable=False),
    sa.UniqueConstraint("incident_id", "decision_revision"),
)

click = sa.Table(
    "click",
    METADATA,
    _id(),
    sa.Column("at", Instant, nullable=False),
    sa.Column("team", sa.String, nullable=False),
    sa.Column("user", sa.String, nullable=False),
    sa.Column("action", sa.String, nullable=False),
    sa.Column("incident_id", _ID),
    sa.Column("outcome", sa.String, nullable=False),
)

outbox = sa.Table(
    "outbox",
    METADATA,
    _id(),
    sa.Column("incident_id", _ID, sa.ForeignKey("incident.id")),  # none: a notice of the bot's own
    sa.Column("kind", sa.String, nullable=False),  # card | thread | notice
    sa.Column("state", sa.String, nullable=False),  # waiting | sending | sent | dropped | shadow
    sa.Column("delivery_key", sa.String, nullable=False, unique=True),  # in the message's metadata: finds a lost post
    sa.Column("wanted_revision", sa.Integer, nullable=False),
    sa.Column("sent_revision", sa.Integer, nullable=False),
    sa.Column("not_before", Instant, nullable=False),
    sa.Column("wanted_at", Instant, nullable=False),  # when people should have seen the state that is not in Slack yet
    sa.Column("late_seconds", sa.Integer, nullable=False),  # how late the message came when it was posted
    sa.Column("possibly_twice", sa.Boolean, nullable=False),
    sa.Column("is_frozen", sa.Boolean, nullable=False),  # Slack lets nobody edit it: changes go into its thread
    sa.Column("was_reposted", sa.Boolean, nullable=False),  # somebody deleted it, and it was posted once more
    sa.Column("told_elsewhere", sa.String),  # what people heard by the second path: opened | closed
    sa.Column("line_key", sa.String),
    sa.Column("line_values", sa.JSON),
    sa.Column("channel", sa.String),
    sa.Column("ts", sa.String),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("attempt_at", Instant),
    sa.Column("sent_at", Instant),
    sa.Column("last_error", sa.String),
    sa.Column("created_at", Instant, nullable=False),
    sa.Index("outbox_due", "state", "not_before"),
    sa.Index(
        "outbox_one_card",
        "incident_id",
        unique=True,
        sqlite_where=sa.text("kind = 'card'"),
        postgresql_where=sa.text("kind = 'card'"),
    ),
)

trouble = sa.Table(
    "trouble",
    METADATA,
    sa.Column("name", sa.String, primary_key=True),  # what is in trouble: slack, a channel, a method
    sa.Column("message", sa.String, nullable=False),
    sa.Column("since", Instant, nullable=False),
    sa.Column("times", sa.Integer, nullable=False),
)

audit = sa.Table(
    "audit",
    METADATA,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),  # without gaps: one that is gone shows
    sa.Column("at", Instant, nullable=False),
    sa.Column("who", sa.String, nullable=False),
    sa.Column("what", sa.String, nullable=False),
    sa.Column("why", sa.String, nullable=False),
    sa.Column("remedy", sa.BigInteger, nullable=False),  # the incident that is its card; 0: none
    sa.Column("node", sa.String, nullable=False),
    sa.Column("before", sa.String, nullable=False),  # the hash of the row before
    sa.Column("hash", sa.String, nullable=False),
    sa.Index("audit_by_remedy", "remedy"),
)

# What rules ask about requests for remedies; each request itself is in the body of its incident.
remedy = sa.Table(
    "remedy",
    METADATA,
    sa.Column("incident_id", _ID, sa.ForeignKey("incident.id"), primary_key=True, autoincrement=False),
    sa.Column("node", sa.String, nullable=False),
    sa.Column("runner", sa.String, nullable=False),
    sa.Column("group_name", sa.String, nullable=False),  # when it was asked for: rules go by the node's group of now
    sa.Column("action", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("about", _ID),
    sa.Column("order_id", sa.String, unique=True),
    sa.Column("asked_at", Instant, nullable=False),
    sa.Column("sent_at", Instant),
    sa.Column("ended_at", Instant),
    sa.Index(
        "remedy_one_per_node",
        "node",
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    ),
    sa.Index("remedy_by_time", "node", "sent_at"),
)

remedy_switch = sa.Table(
    "remedy_switch",
    METADATA,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("by", sa.String, nullable=False),
    sa.Column("at", Instant, nullable=False),
    sa.Column("reason", sa.String, nullable=False),
)

lease = sa.Table(
    "lease",
    METADATA,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("fence", sa.BigInteger, nullable=False),  # rises whenever a bot begins to work; every order carries it
    sa.Column("holder", sa.String, nullable=False),  # the bot that works, for people
    sa.Column("until", sa.BigInteger, nullable=False),  # new with each renewal: microseconds of the database's clock
)
