"""Erasure: within its transaction, units and outcomes may be deleted, so that others replace them.

A row of the new table names the event of an erasure. Until that event is in the table of events,
which ends the transaction, the campaign's units and outcomes may be deleted.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

#: The append-only tables whose rows an erasure deletes and replaces.
ERASED = ("unit_chunks", "outcome_chunks", "assignments", "outcomes", "outcome_rows")
#: Those in which a campaign without outcomes has rows, which its tombstone allows to delete.
BURIED = ("unit_chunks", "assignments", "erasures")


def upgrade() -> None:
    """Create the table of erasures, and replace the triggers that refuse deletions."""
    sqlite = op.get_context().dialect.name == "sqlite"
    op.create_table(
        "erasures",
        sa.Column("campaign", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("event", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("campaign", "event"),
        sa.ForeignKeyConstraint(["campaign"], ["campaigns.id"]),
        sa.ForeignKeyConstraint(
            ["campaign", "event"],
            ["events.campaign", "events.sequence"],
            deferrable=True,
            initially="DEFERRED",
        ),
    )
    for statement in _sqlite_rules() if sqlite else _postgres_rules():
        op.execute(sa.text(statement))


def _sqlite_rules() -> list[str]:
    rules = []
    for table in ERASED:
        unless = f"NOT ({_erasing('OLD.campaign')})"
        if table in BURIED:
            unless += f" AND NOT ({_buried('OLD.campaign')})"
        rules += [
            f"DROP TRIGGER {table}_no_DELETE",
            f"CREATE TRIGGER {table}_no_DELETE BEFORE DELETE ON {table} WHEN {unless} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END",
        ]
    refusal = "BEGIN SELECT RAISE(ABORT, 'erasures is append-only'); END"
    same = "SELECT 1 FROM erasures WHERE campaign = NEW.campaign AND event = NEW.event"
    return [
        *rules,
        f"CREATE TRIGGER erasures_no_UPDATE BEFORE UPDATE ON erasures {refusal}",
        "CREATE TRIGGER erasures_no_DELETE BEFORE DELETE ON erasures "
        f"WHEN NOT ({_buried('OLD.campaign')}) {refusal}",
        "CREATE TRIGGER erasures_no_REPLACE BEFORE INSERT ON erasures "
        f"WHEN EXISTS ({same}) {refusal}",
    ]


def _postgres_rules() -> list[str]:
    rules = []
    for table in (*ERASED, "erasures"):
        allowed = [_erasing("gone.campaign", "seqbatch.")] if table in ERASED else []
        allowed += [_buried("gone.campaign", "seqbatch.")] if table in BURIED else []
        if table in ERASED:
            rules.append(f"DROP TRIGGER {table}_append_only ON {table}")
        if table in BURIED and table in ERASED:
            rules += [f"DROP TRIGGER {table}_kept ON {table}", f"DROP FUNCTION keep_{table}()"]
        rules += [
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()",
            f"CREATE FUNCTION keep_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF EXISTS (SELECT 1 FROM gone WHERE NOT ({' OR '.join(allowed)})) THEN "
            f"RAISE EXCEPTION '{table} is append-only'; END IF; RETURN NULL; END $$",
            f"CREATE TRIGGER {table}_kept AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone "
            f"FOR EACH STATEMENT EXECUTE FUNCTION keep_{table}()",
        ]
    return rules


def _erasing(campaign: str, schema: str = "") -> str:
    """Return the condition that an erasure of a campaign has begun and not yet ended."""
    return (
        f"EXISTS (SELECT 1 FROM {schema}erasures WHERE erasures.campaign = {campaign} "
        f"AND NOT EXISTS (SELECT 1 FROM {schema}events WHERE events.campaign = {campaign} "
        "AND events.sequence = erasures.event))"
    )


def _buried(campaign: str, schema: str = "") -> str:
    """Return the condition that a campaign has a tombstone."""
    return f"EXISTS (SELECT 1 FROM {schema}tombstones WHERE tombstones.campaign = {campaign})"
