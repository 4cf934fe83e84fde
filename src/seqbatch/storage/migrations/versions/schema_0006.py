"""The schema: campaigns with their events, chunks, states and indexes, all append-only, and folds.

Schema 0001 belonged to versions that were never released; there is no way from it to here.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = None
branch_labels = None
depends_on = None

#: The append-only tables, with the columns that tell their rows apart.
KEYS = {
    "campaigns": ("id",),
    "events": ("campaign", "sequence"),
    "unit_chunks": ("campaign", "chunk"),
    "outcome_chunks": ("campaign", "chunk"),
    "states": ("campaign", "event"),
    "assignments": ("campaign", "unit"),
    "outcomes": ("campaign", "number", "version"),
    "outcome_ids": ("campaign", "id"),
}


def upgrade() -> None:
    """Make the tables and the triggers that keep them append-only."""
    big, text = sa.BigInteger(), sa.Text()
    sqlite = op.get_bind().dialect.name == "sqlite"
    # Ids are compared byte by byte, whatever the language of the database.
    plain = sa.Text() if sqlite else sa.Text(collation="C")

    def column(name: str, kind: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
        return sa.Column(name, kind, nullable=False)

    def belongs() -> sa.ForeignKeyConstraint:
        # The event is written last: its hash is that of the rows it brings.
        return sa.ForeignKeyConstraint(
            ["campaign", "event"],
            ["events.campaign", "events.sequence"],
            deferrable=True,
            initially="DEFERRED",
        )

    def campaign() -> sa.Column[Any]:
        return sa.Column("campaign", sa.Integer, sa.ForeignKey("campaigns.id"), nullable=False)

    op.create_table(
        "campaigns",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", text, nullable=False, unique=True),
    )
    op.create_table(
        "events",
        campaign(),
        column("sequence", big),
        *(column(name, text) for name in ("kind", "at", "who", "why", "counts", "payload")),
        *(column(name, text) for name in ("rows_hash", "previous", "hash")),
        sa.PrimaryKeyConstraint("campaign", "sequence"),
        sa.UniqueConstraint("campaign", "previous"),
    )
    op.create_table(
        "unit_chunks",
        campaign(),
        column("chunk", big),
        column("event", big),
        column("wave", sa.Integer()),
        column("first", big),
        column("count", big),
        column("given", sa.LargeBinary()),
        column("decided", sa.LargeBinary()),
        column("hash", text),
        sa.PrimaryKeyConstraint("campaign", "chunk"),
        belongs(),
    )
    op.create_table(
        "outcome_chunks",
        campaign(),
        column("chunk", big),
        column("event", big),
        column("count", big),
        column("rows", sa.LargeBinary()),
        column("hash", text),
        sa.PrimaryKeyConstraint("campaign", "chunk"),
        belongs(),
    )
    op.create_table(
        "states",
        campaign(),
        column("event", big),
        column("wave", sa.Integer()),
        column("content", sa.LargeBinary()),
        column("hash", text),
        sa.PrimaryKeyConstraint("campaign", "event"),
        belongs(),
    )
    op.create_table(
        "assignments",
        column("campaign", sa.Integer()),
        column("unit", plain),
        column("number", big),
        sa.PrimaryKeyConstraint("campaign", "unit"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "outcomes",
        column("campaign", sa.Integer()),
        column("number", big),
        column("version", sa.Integer()),
        column("value", sa.Double()),
        # The other numbers of the outcome, eight bytes each: they are compared, never summed here.
        column("parts", sa.LargeBinary()),
        column("event", big),
        sa.PrimaryKeyConstraint("campaign", "number", "version"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "outcome_ids",
        column("campaign", sa.Integer()),
        column("id", plain),
        column("number", big),
        sa.PrimaryKeyConstraint("campaign", "id"),
        sqlite_with_rowid=False,
    )
    # One row a campaign, replaced by every change: not a record, but what the records say.
    op.create_table(
        "folds",
        campaign(),
        column("event", big),
        column("content", text),
        column("hash", text),
        sa.PrimaryKeyConstraint("campaign"),
    )
    # A unit's chunk is found by its number, a wave's chunks by the wave, and what is new by the
    # events since the last state. And with every event SQLite looks for rows that waited for it:
    # without an index, in all of them.
    op.create_index("unit_chunks_first", "unit_chunks", ["campaign", "first"])
    op.create_index("unit_chunks_wave", "unit_chunks", ["campaign", "wave", "chunk"])
    op.create_index("unit_chunks_event", "unit_chunks", ["campaign", "event"])
    op.create_index("outcome_chunks_event", "outcome_chunks", ["campaign", "event"])
    for statement in _sqlite_rules() if sqlite else _postgres_rules():
        op.execute(sa.text(statement))


def _sqlite_rules() -> list[str]:
    rules = []
    for table, keys in KEYS.items():
        refusal = f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        rules += [
            f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} {refusal}"
            for verb in ("UPDATE", "DELETE")
        ]
        # INSERT OR REPLACE deletes without a trigger for deletion being asked.
        same = " AND ".join(f"{key} = NEW.{key}" for key in keys)
        rules.append(
            f"CREATE TRIGGER {table}_no_REPLACE BEFORE INSERT ON {table} "
            f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {same}) {refusal}"
        )
    return rules


def _postgres_rules() -> list[str]:
    function = (
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    triggers = [
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        for table in KEYS
    ]
    # Records come compressed: to compress them again would only cost time.
    plain = [
        f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL"
        for table, column in (
            ("unit_chunks", "given"),
            ("unit_chunks", "decided"),
            ("outcome_chunks", "rows"),
        )
    ]
    return [function, *triggers, *plain]
