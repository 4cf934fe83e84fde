"""Many rows at once, past SQLAlchemy: each database has its own fast way."""

import json
import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
import sqlalchemy as sa

from seqbatch.core.arrays import Floats, Integers


class Bulk(Protocol):
    """Adding to and asking the two indexes, tens of thousands of rows a call."""

    def __init__(self, connection: sa.Connection) -> None: ...

    def numbers(self, campaign: int, units: Sequence[str]) -> Integers:
        """Return each unit's number, -1 where it has none."""

    def outcomes(self, campaign: int, numbers: Integers) -> tuple[Integers, Floats]:
        """Return the newest version and value for each number; 0 and NaN where none."""

    def versions(self, campaign: int, numbers: Integers) -> list[tuple[int, int, float, int]]:
        """Return every version of each number's outcome: place, version, value, event."""

    def owners(self, campaign: int, ids: Sequence[str]) -> Integers:
        """Return the number of the unit that each outcome id belongs to, -1 where none."""

    def claim(self, campaign: int, units: Sequence[str], first: int) -> bool:
        """Number units from `first` on; where one has a number, do nothing and return False."""

    def add_outcomes(
        self, campaign: int, numbers: Integers, versions: Integers, values: Floats, event: int
    ) -> None:
        """Add outcomes."""

    def add_owners(self, campaign: int, ids: Sequence[str], numbers: Integers) -> None:
        """Say whose outcome ids are."""


def _placed(rows: Sequence[tuple[int, int]], count: int) -> Integers:
    """Return the number of each place, -1 where there is none."""
    result = np.full(count, -1, dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=2 * len(rows))
    result[flat[::2]] = flat[1::2]
    return result


def _newest(rows: Sequence[tuple[int, int, float, int]], count: int) -> tuple[Integers, Floats]:
    """Return the version and value of each place, the highest version of several."""
    versions, values = np.zeros(count, dtype=np.int64), np.full(count, np.nan)
    if rows:
        places, found, read, _ = (np.array(column) for column in zip(*rows, strict=True))
        order = np.argsort(found, kind="stable")
        versions[places[order]] = found[order]
        values[places[order]] = read[order]
    return versions, values


class SQLiteBulk:
    """SQLite: prepared statements run over a list, and lists handed in as JSON."""

    def __init__(self, connection: sa.Connection) -> None:
        self._raw: Any = connection.connection.driver_connection

    def numbers(self, campaign: int, units: Sequence[str]) -> Integers:
        """Return each unit's number, -1 where it has none."""
        return self._numbers("assignments", "unit", campaign, units)

    def owners(self, campaign: int, ids: Sequence[str]) -> Integers:
        """Return the number of the unit that each outcome id belongs to, -1 where none."""
        return self._numbers("outcome_ids", "id", campaign, ids)

    def _numbers(self, table: str, column: str, campaign: int, texts: Sequence[str]) -> Integers:
        found = self._raw.execute(
            "SELECT j.key, a.number FROM json_each(?) j "
            f"CROSS JOIN {table} a ON a.campaign = ? AND a.{column} = j.value",
            (json.dumps(texts, ensure_ascii=False), campaign),
        ).fetchall()
        return _placed(found, len(texts))

    def outcomes(self, campaign: int, numbers: Integers) -> tuple[Integers, Floats]:
        """Return the newest version and value for each number; 0 and NaN where none."""
        return _newest(self.versions(campaign, numbers), len(numbers))

    def versions(self, campaign: int, numbers: Integers) -> list[tuple[int, int, float, int]]:
        """Return every version of each number's outcome: place, version, value, event."""
        found: list[tuple[int, int, float, int]] = self._raw.execute(
            "SELECT j.key, o.version, o.value, o.event FROM json_each(?) j "
            # CROSS fixes the order of the loops: the list outside, the index inside.
            "CROSS JOIN outcomes o ON o.campaign = ? AND o.number = j.value",
            (json.dumps(numbers.tolist()), campaign),
        ).fetchall()
        return found

    def claim(self, campaign: int, units: Sequence[str], first: int) -> bool:
        """Number units from `first` on; where one has a number, do nothing and return False."""
        rows = zip(units, range(first, first + len(units)), strict=True)
        statement = f"INSERT INTO assignments (campaign, unit, number) VALUES ({campaign:d}, ?, ?)"
        self._raw.execute("SAVEPOINT claim")
        try:
            self._raw.executemany(statement, rows)
        except sqlite3.IntegrityError:
            self._raw.execute("ROLLBACK TO claim")
            return False
        finally:
            # After an error of another kind there may be no transaction left.
            if self._raw.in_transaction:
                self._raw.execute("RELEASE claim")
        return True

    def add_outcomes(
        self, campaign: int, numbers: Integers, versions: Integers, values: Floats, event: int
    ) -> None:
        """Add outcomes."""
        columns = (numbers.tolist(), versions.tolist(), values.tolist())
        statement = (
            "INSERT INTO outcomes (campaign, number, version, value, event) "
            f"VALUES ({campaign:d}, ?, ?, ?, {event:d})"
        )
        self._raw.executemany(statement, zip(*columns, strict=True))

    def add_owners(self, campaign: int, ids: Sequence[str], numbers: Integers) -> None:
        """Say whose outcome ids are."""
        statement = f"INSERT INTO outcome_ids (campaign, id, number) VALUES ({campaign:d}, ?, ?)"
        self._raw.executemany(statement, zip(ids, numbers.tolist(), strict=True))


class PostgresBulk:
    """PostgreSQL: COPY in, and lists handed in as text for asking."""

    def __init__(self, connection: sa.Connection) -> None:
        self._raw: Any = connection.connection.driver_connection

    def numbers(self, campaign: int, units: Sequence[str]) -> Integers:
        """Return each unit's number, -1 where it has none."""
        return self._numbers("assignments", "unit", campaign, units)

    def owners(self, campaign: int, ids: Sequence[str]) -> Integers:
        """Return the number of the unit that each outcome id belongs to, -1 where none."""
        return self._numbers("outcome_ids", "id", campaign, ids)

    def _numbers(self, table: str, column: str, campaign: int, texts: Sequence[str]) -> Integers:
        found = self._raw.execute(
            "SELECT u.place - 1, a.number "
            "FROM json_array_elements_text(%s::json) WITH ORDINALITY u (text, place) "
            f"JOIN {table} a ON a.campaign = %s AND a.{column} = u.text",
            (json.dumps(texts, ensure_ascii=False), campaign),
        ).fetchall()
        return _placed(found, len(texts))

    def outcomes(self, campaign: int, numbers: Integers) -> tuple[Integers, Floats]:
        """Return the newest version and value for each number; 0 and NaN where none."""
        return _newest(self.versions(campaign, numbers), len(numbers))

    def versions(self, campaign: int, numbers: Integers) -> list[tuple[int, int, float, int]]:
        """Return every version of each number's outcome: place, version, value, event."""
        found: list[tuple[int, int, float, int]] = self._raw.execute(
            "SELECT u.place - 1, o.version, o.value, o.event "
            "FROM unnest(%s::bigint[]) WITH ORDINALITY u (number, place) "
            "JOIN outcomes o ON o.campaign = %s AND o.number = u.number",
            (f"{{{','.join(map(str, numbers.tolist()))}}}", campaign),
        ).fetchall()
        return found

    def claim(self, campaign: int, units: Sequence[str], first: int) -> bool:
        """Number units from `first` on; where one has a number, do nothing and return False."""
        from psycopg.errors import UniqueViolation

        statement = "COPY assignments (campaign, unit, number) FROM STDIN (FORMAT BINARY)"
        try:
            # A transaction within the transaction: a savepoint.
            with (
                self._raw.transaction(),
                self._raw.cursor() as cursor,
                cursor.copy(statement) as copy,
            ):
                copy.set_types(["int4", "text", "int8"])
                for number, unit in enumerate(units, start=first):
                    copy.write_row((campaign, unit, number))
        except UniqueViolation:
            return False
        return True

    def add_outcomes(
        self, campaign: int, numbers: Integers, versions: Integers, values: Floats, event: int
    ) -> None:
        """Add outcomes."""
        statement = (
            "COPY outcomes (campaign, number, version, value, event) FROM STDIN (FORMAT BINARY)"
        )
        rows = zip(numbers.tolist(), versions.tolist(), values.tolist(), strict=True)
        with self._raw.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(["int4", "int8", "int4", "float8", "int8"])
            for number, version, value in rows:
                copy.write_row((campaign, number, version, value, event))

    def add_owners(self, campaign: int, ids: Sequence[str], numbers: Integers) -> None:
        """Say whose outcome ids are."""
        statement = "COPY outcome_ids (campaign, id, number) FROM STDIN (FORMAT BINARY)"
        with self._raw.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(["int4", "text", "int8"])
            for text, number in zip(ids, numbers.tolist(), strict=True):
                copy.write_row((campaign, text, number))
