"""Sessions: who is signed in to the dashboard, with which token, until when."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text(), primary_key=True),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("expires", sa.Text(), nullable=False),
    )
