"""Tokens and answers: who may call the service, and what it said to a call that may come again.

Neither is part of a campaign's record: a token is revoked, an answer is dropped after a while.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    text = sa.Text()
    op.create_table(
        "tokens",
        sa.Column("id", text, primary_key=True),
        sa.Column("name", text, nullable=False, unique=True),
        *(sa.Column(name, text, nullable=False) for name in ("role", "campaigns", "created")),
        sa.Column("expires", text, nullable=False),
        sa.Column("revoked", text, nullable=False),
        sa.Column("hash", text, nullable=False, unique=True),
    )
    op.create_table(
        "answers",
        sa.Column("token", text, nullable=False),
        sa.Column("key", text, nullable=False),
        *(sa.Column(name, text, nullable=False) for name in ("request", "at", "headers")),
        sa.Column("status", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("token", "key"),
    )
    op.create_table(
        "answer_pieces",
        sa.Column("token", text, nullable=False),
        sa.Column("key", text, nullable=False),
        sa.Column("piece", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("token", "key", "piece"),
    )
