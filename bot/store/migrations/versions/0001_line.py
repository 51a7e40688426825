"""The first schema: windows, tracks, incidents, outbox.

A migration never imports the tables of today: it must mean the same for ever.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.BigInteger()  # microseconds since 1970, UTC


def upgrade() -> None:
    op.create_table(
        "click",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("incident_id", ID, nullable=True),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "gpu_hour",
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("gpu_uuid", sa.String(), nullable=False),
        sa.Column("hour", INSTANT, nullable=False),
        sa.Column("candidate_seconds", sa.Float(), nullable=False),
        sa.Column("held_seconds", sa.Float(), nullable=False),
        sa.Column("unknown_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("node", "gpu_uuid", "hour"),
    )
    op.create_table(
        "gpu_run",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("gpu_uuid", sa.String(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("first_window", sa.BigInteger(), nullable=False),
        sa.Column("last_window", sa.BigInteger(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("gpu_run_by_gpu", "gpu_run", ["node", "gpu_uuid", "ended_at"], unique=False)
    op.create_table(
        "incident",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("urgency", sa.Integer(), nullable=False),
        sa.Column("shown_on", ID, nullable=True),
        sa.Column("opened_at", INSTANT, nullable=False),
        sa.Column("said_at", INSTANT, nullable=True),
        sa.Column("closed_at", INSTANT, nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["shown_on"],
            ["incident.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("incident_by_time", "incident", ["opened_at"], unique=False)
    op.create_index("incident_said", "incident", ["said_at"], unique=False)
    op.create_index("incident_members", "incident", ["shown_on"], unique=False)
    op.create_index(
        "incident_open",
        "incident",
        ["kind", "subject"],
        unique=True,
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_table(
        "node_snooze",
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("up_to", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("node"),
    )
    op.create_table(
        "missing",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("spool_epoch", sa.String(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("noticed_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "node_track",
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("node"),
    )
    op.create_table(
        "node_window",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("spool_epoch", sa.String(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("window_number", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", INSTANT, nullable=False),
        sa.Column("received_at", INSTANT, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("node", "spool_epoch", "seq"),
    )
    op.create_index("node_window_by_age", "node_window", ["received_at"], unique=False)
    op.create_index("node_window_by_time", "node_window", ["node", "closed_at"], unique=False)
    op.create_table(
        "rejected",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("stream_seq", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "stream_position",
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stream"),
    )
    op.create_table(
        "button",
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("incident_id", ID, nullable=False),
        sa.Column("decision_revision", sa.Integer(), nullable=False),
        sa.Column("made_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"],
            ["incident.id"],
        ),
        sa.PrimaryKeyConstraint("token"),
        sa.UniqueConstraint("incident_id", "decision_revision"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("incident_id", ID, nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("delivery_key", sa.String(), nullable=False),
        sa.Column("wanted_revision", sa.Integer(), nullable=False),
        sa.Column("sent_revision", sa.Integer(), nullable=False),
        sa.Column("not_before", INSTANT, nullable=False),
        sa.Column("wanted_at", INSTANT, nullable=False),
        sa.Column("late_seconds", sa.Integer(), nullable=False),
        sa.Column("possibly_twice", sa.Boolean(), nullable=False),
        sa.Column("is_frozen", sa.Boolean(), nullable=False),
        sa.Column("was_reposted", sa.Boolean(), nullable=False),
        sa.Column("told_elsewhere", sa.String(), nullable=True),
        sa.Column("line_key", sa.String(), nullable=True),
        sa.Column("line_values", sa.JSON(), nullable=True),
        sa.Column("channel", sa.String(), nullable=True),
        sa.Column("ts", sa.String(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("attempt_at", INSTANT, nullable=True),
        sa.Column("sent_at", INSTANT, nullable=True),
        sa.Column("last_error", sa.String(), nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"],
            ["incident.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("delivery_key"),
    )
    op.create_index("outbox_due", "outbox", ["state", "not_before"], unique=False)
    op.create_index(
        "outbox_one_card",
        "outbox",
        ["incident_id"],
        unique=True,
        sqlite_where=sa.text("kind = 'card'"),
        postgresql_where=sa.text("kind = 'card'"),
    )
    op.create_table(
        "trouble",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
