"""The baseline: all tables, and the triggers that keep campaigns' records append-only.

Schemas 0001 to 0007 were never released; stores that have them are refused. The rows of a campaign
may be deleted only after it has a tombstone. A tombstone is permanent, and a campaign that has
outcomes cannot get one.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = None
branch_labels = None
depends_on = None

#: The append-only tables, with their key columns.
KEYS = {
    "migrations": ("schema",),
    "campaigns": ("id",),
    "events": ("campaign", "sequence"),
    "unit_chunks": ("campaign", "chunk"),
    "outcome_chunks": ("campaign", "chunk"),
    "states": ("campaign", "event"),
    "assignments": ("campaign", "unit"),
    "outcomes": ("campaign", "number", "version"),
    "outcome_rows": ("campaign", "key", "version"),
    "tombstones": ("campaign",),
}
#: The tables in which a campaign without outcomes has rows, with the column that names it.
BURIED = {
    "campaigns": "id",
    "events": "campaign",
    "unit_chunks": "campaign",
    "states": "campaign",
    "assignments": "campaign",
}

Kind = sa.types.TypeEngine[Any]
BIG: Kind = sa.BigInteger()
NUMBER: Kind = sa.Integer()
TEXT: Kind = sa.Text()
BYTES: Kind = sa.LargeBinary()


def upgrade() -> None:
    """Create the tables, indexes and triggers."""
    sqlite = op.get_context().dialect.name == "sqlite"
    _migrations()
    _records()
    _indexes_of_ids(plain=TEXT if sqlite else sa.Text(collation="C"))
    _service()
    # The indexes find a unit's chunk by its number, a wave's chunks by the wave, and new chunks by
    # the events since the last state. They also serve the deferred foreign keys: for every new
    # event, SQLite looks for rows that refer to it, and would scan the tables without an index.
    op.create_index("unit_chunks_first", "unit_chunks", ["campaign", "first"])
    op.create_index("unit_chunks_wave", "unit_chunks", ["campaign", "wave", "chunk"])
    op.create_index("unit_chunks_event", "unit_chunks", ["campaign", "event"])
    op.create_index("outcome_chunks_event", "outcome_chunks", ["campaign", "event"])
    op.create_index("answers_at", "answers", ["at"])
    for statement in _sqlite_rules() if sqlite else _postgres_rules():
        op.execute(sa.text(statement))


def _table(
    name: str,
    columns: Mapping[str, Kind],
    key: tuple[str, ...],
    *constraints: sa.Constraint,
    rowid: bool = True,
    nullable: tuple[str, ...] = (),
) -> None:
    made = [
        sa.Column(column, kind, nullable=column in nullable, autoincrement=False)
        for column, kind in columns.items()
    ]
    op.create_table(
        name, *made, sa.PrimaryKeyConstraint(*key), *constraints, sqlite_with_rowid=rowid
    )


def _campaign() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["campaign"], ["campaigns.id"])


def _event() -> sa.ForeignKeyConstraint:
    # The event is written last, because its hash covers the rows that it adds.
    return sa.ForeignKeyConstraint(
        ["campaign", "event"],
        ["events.campaign", "events.sequence"],
        deferrable=True,
        initially="DEFERRED",
    )


def _texts(*names: str) -> dict[str, Kind]:
    return dict.fromkeys(names, TEXT)


def _records() -> None:
    """Create the tables of campaigns, events, chunks, states, folds and tombstones."""
    _table("campaigns", {"id": NUMBER, "name": TEXT}, ("id",), sa.UniqueConstraint("name"))
    _table(
        "events",
        {
            "campaign": NUMBER,
            "sequence": BIG,
            **_texts("kind", "at", "who", "why", "counts", "payload"),
            **_texts("rows_hash", "previous", "version", "hash"),
        },
        KEYS["events"],
        _campaign(),
        sa.UniqueConstraint("campaign", "previous"),
    )
    _table(
        "unit_chunks",
        {
            "campaign": NUMBER, "chunk": BIG, "event": BIG, "wave": NUMBER, "first": BIG,
            "count": BIG, "given": BYTES, "decided": BYTES, "hash": TEXT,
        },
        KEYS["unit_chunks"], _campaign(), _event(),
    )  # fmt: skip
    _table(
        "outcome_chunks",
        {"campaign": NUMBER, "chunk": BIG, "event": BIG, "count": BIG, "rows": BYTES, "hash": TEXT},
        KEYS["outcome_chunks"], _campaign(), _event(),
    )  # fmt: skip
    _table(
        "states",
        {"campaign": NUMBER, "event": BIG, "wave": NUMBER, "content": BYTES, "hash": TEXT},
        KEYS["states"], _campaign(), _event(),
    )  # fmt: skip
    # One row per campaign, replaced by every change: derived from the records, not one of them.
    folds = {"campaign": NUMBER, "event": BIG, "content": TEXT, "hash": TEXT}
    _table("folds", folds, ("campaign",), _campaign())
    _table(
        "tombstones",
        {
            "campaign": NUMBER, "name": TEXT, "events": BIG, "units": BIG,
            **_texts("last", "at", "who", "why", "previous", "hash"),
        },
        KEYS["tombstones"], sa.UniqueConstraint("previous"),
    )  # fmt: skip


def _migrations() -> None:
    """Create the table of migrations: which version of the software ran each, and when."""
    _table("migrations", _texts("schema", "version", "at"), ("schema",))


def _indexes_of_ids(plain: Kind) -> None:
    """Create the index tables of units, outcomes and rows; ids are compared byte by byte."""
    units = {"campaign": NUMBER, "unit": plain, "number": BIG}
    _table("assignments", units, KEYS["assignments"], rowid=False)
    # Parts are the further numbers of an outcome, eight bytes each; SQL only compares them. An
    # outcome without a value has metrics, but not all that the reward consists of.
    outcomes: dict[str, Kind] = {
        "campaign": NUMBER, "number": BIG, "version": NUMBER, "value": sa.Double(),
        "parts": BYTES, "event": BIG,
    }  # fmt: skip
    _table("outcomes", outcomes, KEYS["outcomes"], rowid=False, nullable=("value",))
    # The content of a row is its metrics and its date, eight bytes each.
    rows: dict[str, Kind] = {
        "campaign": NUMBER, "key": plain, "version": NUMBER, "number": BIG, "content": BYTES,
        "event": BIG,
    }  # fmt: skip
    _table("outcome_rows", rows, KEYS["outcome_rows"], rowid=False)


def _service() -> None:
    """Create the service's tables, which do not belong to any campaign's record."""
    _table(
        "tokens",
        _texts("id", "name", "role", "campaigns", "created", "expires", "revoked", "hash"),
        ("id",), sa.UniqueConstraint("name"), sa.UniqueConstraint("hash"),
    )  # fmt: skip
    _table("sessions", _texts("hash", "token", "expires"), ("hash",))
    answers = {**_texts("token", "key", "request", "at", "headers"), "status": NUMBER}
    _table("answers", answers, ("token", "key"))
    pieces = {**_texts("token", "key"), "piece": NUMBER, "content": BYTES}
    _table("answer_pieces", pieces, ("token", "key", "piece"))


def _sqlite_rules() -> list[str]:
    rules = []
    for table, keys in KEYS.items():
        refusal = f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        buried = f"EXISTS (SELECT 1 FROM tombstones WHERE campaign = OLD.{BURIED.get(table)})"
        when = f"WHEN NOT {buried} " if table in BURIED else ""
        # INSERT OR REPLACE deletes rows without firing the delete trigger.
        same = " AND ".join(f"{key} = NEW.{key}" for key in keys)
        same += " OR previous = NEW.previous" if table == "tombstones" else ""
        rules += [
            f"CREATE TRIGGER {table}_no_UPDATE BEFORE UPDATE ON {table} {refusal}",
            f"CREATE TRIGGER {table}_no_DELETE BEFORE DELETE ON {table} {when}{refusal}",
            f"CREATE TRIGGER {table}_no_REPLACE BEFORE INSERT ON {table} "
            f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {same}) {refusal}",
        ]
    rules.append(
        "CREATE TRIGGER tombstones_no_outcomes BEFORE INSERT ON tombstones "
        "WHEN EXISTS (SELECT 1 FROM outcome_chunks WHERE campaign = NEW.campaign) "
        "BEGIN SELECT RAISE(ABORT, 'the campaign has outcomes'); END"
    )
    return rules


def _postgres_rules() -> list[str]:
    rules = [
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$",
        "CREATE FUNCTION refuse_outcomes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF EXISTS (SELECT 1 FROM seqbatch.outcome_chunks WHERE campaign = NEW.campaign) THEN "
        "RAISE EXCEPTION 'the campaign has outcomes'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER tombstones_no_outcomes BEFORE INSERT ON tombstones "
        "FOR EACH ROW EXECUTE FUNCTION refuse_outcomes()",
    ]
    for table in KEYS:
        verbs = "UPDATE OR TRUNCATE" if table in BURIED else "UPDATE OR DELETE OR TRUNCATE"
        rules.append(
            f"CREATE TRIGGER {table}_append_only BEFORE {verbs} ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
    for table, column in BURIED.items():
        # A statement-level trigger: checking row by row would be slow for many units.
        rules += [
            f"CREATE FUNCTION keep_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF EXISTS (SELECT 1 FROM gone WHERE {column} NOT IN "
            "(SELECT campaign FROM seqbatch.tombstones)) THEN "
            f"RAISE EXCEPTION '{table} is append-only'; END IF; RETURN NULL; END $$",
            f"CREATE TRIGGER {table}_kept AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone "
            f"FOR EACH STATEMENT EXECUTE FUNCTION keep_{table}()",
        ]
    # Records are already compressed; compressing them again would only cost time.
    rules += [
        f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL"
        for table, column in (
            ("unit_chunks", "given"),
            ("unit_chunks", "decided"),
            ("outcome_chunks", "rows"),
        )
    ]
    return rules
