"""What came after the first schema; one function for each part that needed it.

A migration never imports the tables of today: it must mean the same for ever.
"""

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Each part's tables, one after another."""
