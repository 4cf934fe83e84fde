"""Differences between a database's schema and the expected one: triggers, indexes, keys.

Triggers keep records append-only, and unique keys keep two calls from adding the same record. No
hash covers them: someone could remove them, change records and recompute the hashes. The expected
schema is read from the statements of the migrations; nothing is written.
"""

import io
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from seqbatch.storage import schema

#: The definitions of a schema's parts, by kind and name: "trigger events_no_UPDATE".
Parts = dict[str, str]

MIGRATIONS = Path(__file__).parent / "migrations"
_MADE = re.compile(r"CREATE (?:UNIQUE )?(INDEX|TRIGGER) (\w+) .*", re.DOTALL)
_FUNCTION = re.compile(r"CREATE FUNCTION (\w+)\(\).*?\$\$(.*)\$\$", re.DOTALL)
_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*?)\n\)", re.DOTALL)
_KEY = re.compile(r"(PRIMARY KEY|UNIQUE) \(([^)]*)\)")
_VERBS = re.compile(r"(?<=BEFORE )\w+(?: OR \w+)+")

_SQLITE = "SELECT sql FROM sqlite_master WHERE type IN ('trigger', 'index') AND sql IS NOT NULL"
#: The definitions in the schema `seqbatch`; a trigger that does not fire has another definition.
_POSTGRES = """
SELECT pg_get_triggerdef(t.oid) || CASE WHEN t.tgenabled IN ('O', 'A') THEN '' ELSE ' DISABLED' END
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'seqbatch'::regnamespace AND NOT t.tgisinternal
UNION ALL
SELECT pg_get_indexdef(i.indexrelid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = 'seqbatch'::regnamespace
  AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid)
UNION ALL
SELECT 'CREATE FUNCTION ' || proname || '() $$' || prosrc || '$$'
FROM pg_proc WHERE pronamespace = 'seqbatch'::regnamespace
"""


def schema_differences(
    connection: sa.Connection, known: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield each part of the schema that differs from the expected one, and the difference.

    Parameters
    ----------
    connection
        The database; it is only read.
    known
        The schemas that this version knows, oldest first. The last one is expected.
    """
    expected, there = _expected(connection.dialect.name, known[-1]), _existing(connection)
    for part in sorted(expected.keys() | there.keys()):
        if part not in there:
            yield part, "is missing"
        elif part not in expected:
            yield part, "does not belong to the schema"
        elif there[part] != expected[part]:
            yield part, f"was changed; it is {there[part][:300]!r}"
    if sa.inspect(connection).has_table(schema.migrations.name):
        yield from _migrations(connection, known)
    else:
        yield "table migrations", "is missing"


def _migrations(connection: sa.Connection, known: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the differences in the rows of the table of migrations."""
    rows = connection.execute(sa.select(schema.migrations)).mappings().all()
    if known[-1] not in {row["schema"] for row in rows}:
        yield f"migration to {known[-1]}", "is missing"
    for row in rows:
        place = f"migration to {row['schema']}"
        if row["schema"] not in known:
            yield place, f"must be to one of {', '.join(known)}"
        if not row["version"]:
            yield place, "must name the version of seqbatch that made it"
        if not _is_time(row["at"]):
            yield place, f"must have an ISO date and time; it has {row['at']!r}"


def _is_time(found: Any) -> bool:
    try:
        datetime.fromisoformat(found)
    except (TypeError, ValueError):
        # SQLite stores a value of any type in a column of texts.
        return False
    return True


@cache
def _expected(dialect: str, revision: str) -> Parts:
    """Return the parts that the migrations make, from their SQL."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    text = io.StringIO()
    context = MigrationContext.configure(
        dialect_name=dialect, opts={"as_sql": True, "output_buffer": text}
    )
    with Operations.context(context):
        scripts = ScriptDirectory(str(MIGRATIONS)).iterate_revisions(revision, "base")
        for script in reversed(list(scripts)):
            script.module.upgrade()
    statements = [each.strip() for each in text.getvalue().split(";\n\n")]
    parts = _made(statements)
    for table, body in (found for each in statements for found in _TABLE.findall(each)):
        for kind, columns in _KEY.findall(body):
            parts |= _key(table, columns, primary=kind == "PRIMARY KEY")
    return parts


def _existing(connection: sa.Connection) -> Parts:
    """Return the parts that a database has."""
    query = _SQLITE if connection.dialect.name == "sqlite" else _POSTGRES
    parts = _made(connection.execute(sa.text(query)).scalars())
    inspected = sa.inspect(connection)
    for table in set(schema.metadata.tables) & set(inspected.get_table_names()):
        if columns := inspected.get_pk_constraint(table)["constrained_columns"]:
            parts |= _key(table, ", ".join(columns), primary=True)
        for unique in inspected.get_unique_constraints(table):
            parts |= _key(table, ", ".join(map(str, unique["column_names"])), primary=False)
    return parts


def _made(statements: Iterable[str]) -> Parts:
    """Return the triggers, indexes and functions that statements make."""
    parts = {}
    for each in statements:
        if made := _FUNCTION.match(each):
            # In SQL for a driver, a percent sign is doubled.
            parts[f"function {made[1]}"] = " ".join(made[2].replace("%%", "%").split())
        elif made := _MADE.match(each):
            parts[f"{made[1].lower()} {made[2]}"] = _plain(each)
    return parts


def _key(table: str, columns: str, *, primary: bool) -> Parts:
    """Return the key of a table."""
    columns = _plain(columns)
    name = f"primary key of {table}" if primary else f"unique key of {table} ({columns})"
    return {name: columns}


def _plain(definition: str) -> str:
    """Return a definition as every database and every version of a library would write it.

    >>> _plain("CREATE TRIGGER t BEFORE UPDATE OR DELETE on seqbatch.events")
    'create trigger t before delete or update on events'
    """
    text = definition.replace("seqbatch.", "").replace("USING btree ", "").replace('"', "")
    text = _VERBS.sub(lambda verbs: " OR ".join(sorted(verbs[0].split(" OR "))), text)
    return " ".join(text.lower().split())
