"""Tombstones: what is left of a campaign that was deleted, and the one way to delete it.

Rows of a campaign may be deleted once it has a tombstone, which nothing removes. It cannot have one
while there are outcomes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

#: The tables that a campaign without outcomes has rows in, with the column that names it.
BURIED = {
    "campaigns": "id",
    "events": "campaign",
    "unit_chunks": "campaign",
    "states": "campaign",
    "assignments": "campaign",
}


def upgrade() -> None:
    """Make the table, and let deletions pass that a tombstone stands for."""
    text, big = sa.Text(), sa.BigInteger()
    op.create_table(
        "tombstones",
        sa.Column("campaign", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", text, nullable=False),
        sa.Column("events", big, nullable=False),
        sa.Column("units", big, nullable=False),
        *(sa.Column(name, text, nullable=False) for name in ("last", "at", "who", "why")),
        sa.Column("previous", text, nullable=False, unique=True),
        sa.Column("hash", text, nullable=False),
    )
    sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in _sqlite_rules() if sqlite else _postgres_rules():
        op.execute(sa.text(statement))


def _sqlite_rules() -> list[str]:
    def refusal(table: str) -> str:
        return f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"

    rules = []
    for table, column in BURIED.items():
        stands = f"EXISTS (SELECT 1 FROM tombstones WHERE campaign = OLD.{column})"
        rules += [
            f"DROP TRIGGER {table}_no_DELETE",
            f"CREATE TRIGGER {table}_no_DELETE BEFORE DELETE ON {table} WHEN NOT {stands} "
            f"{refusal(table)}",
        ]
    rules += [
        f"CREATE TRIGGER tombstones_no_{verb} BEFORE {verb} ON tombstones {refusal('tombstones')}"
        for verb in ("UPDATE", "DELETE")
    ]
    same = "campaign = NEW.campaign OR previous = NEW.previous"
    rules.append(
        "CREATE TRIGGER tombstones_no_REPLACE BEFORE INSERT ON tombstones "
        f"WHEN EXISTS (SELECT 1 FROM tombstones WHERE {same}) {refusal('tombstones')}"
    )
    rules.append(
        "CREATE TRIGGER tombstones_no_outcomes BEFORE INSERT ON tombstones "
        "WHEN EXISTS (SELECT 1 FROM outcome_chunks WHERE campaign = NEW.campaign) "
        "BEGIN SELECT RAISE(ABORT, 'the campaign has outcomes'); END"
    )
    return rules


def _postgres_rules() -> list[str]:
    rules = []
    for table, column in BURIED.items():
        # After the statement, of all rows at once: one by one would take long for many units.
        rules += [
            f"CREATE FUNCTION keep_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF EXISTS (SELECT 1 FROM gone WHERE {column} NOT IN "
            "(SELECT campaign FROM seqbatch.tombstones)) THEN "
            f"RAISE EXCEPTION '{table} is append-only'; END IF; RETURN NULL; END $$",
            f"DROP TRIGGER {table}_append_only ON {table}",
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()",
            f"CREATE TRIGGER {table}_kept AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone "
            f"FOR EACH STATEMENT EXECUTE FUNCTION keep_{table}()",
        ]
    rules += [
        "CREATE TRIGGER tombstones_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON tombstones "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()",
        "CREATE FUNCTION refuse_outcomes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF EXISTS (SELECT 1 FROM seqbatch.outcome_chunks WHERE campaign = NEW.campaign) THEN "
        "RAISE EXCEPTION 'the campaign has outcomes'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER tombstones_no_outcomes BEFORE INSERT ON tombstones "
        "FOR EACH ROW EXECUTE FUNCTION refuse_outcomes()",
    ]
    return rules
