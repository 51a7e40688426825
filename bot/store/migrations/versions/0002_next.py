"""What came after the first schema; one function for each part that needed it.

A migration never imports the tables of today: it must mean the same for ever.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.BigInteger()  # microseconds since 1970, UTC


def upgrade() -> None:
    """Each part's tables, one after another."""
    _claims()
    _energy()
    _remedies()
    _lease()


def _claims() -> None:
    op.create_table(
        "claim",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("gpu_uuid", sa.String(), nullable=False),
        sa.Column("gpu_index", sa.Integer(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("asked_at", INSTANT, nullable=True),
        sa.Column("asks", sa.Integer(), nullable=False),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.Column("ended_by", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("token"),
    )
    op.create_index(
        "claim_not_ended",
        "claim",
        ["node", "gpu_uuid"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )


def _energy() -> None:
    """What reports add up: hours before this have no energy, and say so."""
    names = ("held_idle_seconds", "idle_joules", "idle_read_seconds", "held_idle_joules", "held_idle_read_seconds")
    for name in names:
        op.add_column("gpu_hour", sa.Column(name, sa.Float(), nullable=False, server_default="0"))
    op.create_index("gpu_hour_by_time", "gpu_hour", ["hour"])


def _remedies() -> None:
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("what", sa.String(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("remedy", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("before", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("audit_by_remedy", "audit", ["remedy"])
    op.create_table(
        "remedy",
        sa.Column("incident_id", ID, autoincrement=False, nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("runner", sa.String(), nullable=False),
        sa.Column("group_name", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("about", ID, nullable=True),
        sa.Column("order_id", sa.String(), nullable=True),
        sa.Column("asked_at", INSTANT, nullable=False),
        sa.Column("sent_at", INSTANT, nullable=True),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"]),
        sa.PrimaryKeyConstraint("incident_id"),
        sa.UniqueConstraint("order_id"),
    )
    op.create_index(
        "remedy_one_per_node",
        "remedy",
        ["node"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("remedy_by_time", "remedy", ["node", "sent_at"])
    op.create_table(
        "remedy_switch",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _lease() -> None:
    op.create_table(
        "lease",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
