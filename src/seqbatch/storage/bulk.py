"""Bulk inserts and look-ups that bypass SQLAlchemy, in each database's fastest way."""

import json
import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
import sqlalchemy as sa

from seqbatch.campaign.record.store import KnownRows, LoggedRows
from seqbatch.core.arrays import Bools, Floats, Integers

#: An outcome version in the index: position, version, value (None for NaN), parts, event.
Version = tuple[int, int, float | None, bytes, int]
#: A version of a logged row in the index: position, version, number, content, event.
RowVersion = tuple[int, int, int, bytes, int]
#: A stored answer without its content: key, request, headers, status.
Known = tuple[str, str, str, int]
_ANSWER = ("token", "key", "request", "at", "headers", "status")
#: Up to this many units, PostgreSQL numbers them in one statement. Above it, COPY is used, which is
#: faster per unit but needs more steps.
FEW = 256


class Bulk(Protocol):
    """Bulk inserts into and look-ups in the indexes, tens of thousands of rows per call."""

    def __init__(self, connection: sa.Connection) -> None: ...

    def numbers(self, campaign: int, units: Sequence[str]) -> Integers:
        """Return each unit's number; -1 for unknown units."""

    def versions(self, campaign: int, numbers: Integers) -> list[Version]:
        """Return all versions of the outcomes: position, version, value, parts, event."""

    def row_versions(self, campaign: int, keys: Sequence[str]) -> list[RowVersion]:
        """Return all versions of logged rows: position, version, number, content, event."""

    def claim(self, campaign: int, units: Sequence[str], first: int) -> bool:
        """Number units from `first` on; if any already has one, do nothing and return False."""

    def add_outcomes(
        self, campaign: int, numbers: Integers, versions: Integers, cells: Floats, event: int
    ) -> None:
        """Add outcomes; a row of cells holds an outcome's value and its parts."""

    def add_rows(self, campaign: int, rows: LoggedRows, event: int) -> None:
        """Add logged rows."""

    def answers(self, token: str, keys: Sequence[str]) -> list[Known]:
        """Return the stored answers for a token's keys: key, request, headers, status."""

    def add_answers(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add answers whose content is a single piece."""


def _placed(rows: Sequence[tuple[int, int]], count: int) -> Integers:
    """Return the number at each position; -1 where no row was found."""
    result = np.full(count, -1, dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=2 * len(rows))
    result[flat[::2]] = flat[1::2]
    return result


def newest(rows: Sequence[Version], count: int, parts: int) -> tuple[Integers, Floats, Bools]:
    """Return the highest version at each position, its cells, and whether there is a version 0."""
    versions, cells = np.zeros(count, dtype=np.int64), np.full((count, 1 + parts), np.nan)
    absent = np.zeros(count, dtype=np.bool_)
    if rows:
        places, found, values, packs, _ = zip(*rows, strict=True)
        own, where = np.array(found), np.array(places)
        absent[where[own == 0]] = True
        order = np.argsort(own, kind="stable")
        order = order[own[order] > 0]
        where = where[order]
        versions[where] = own[order]
        cells[where, 0] = np.array(values, dtype=np.float64)[order]
        if parts:
            cells[where, 1:] = unpacked(packs, parts)[order]
    return versions, cells, absent


def newest_rows(rows: Sequence[RowVersion], count: int, width: int) -> KnownRows:
    """Return the highest version of the logged row at each position."""
    made = KnownRows(
        versions=np.zeros(count, dtype=np.int64),
        numbers=np.full(count, -1, dtype=np.int64),
        contents=np.full((count, width), np.nan),
        events=np.zeros(count, dtype=np.int64),
    )
    if rows:
        places, found, numbers, packs, events = zip(*rows, strict=True)
        order = np.argsort(np.array(found), kind="stable")
        where = np.array(places)[order]
        made.versions[where] = np.array(found)[order]
        made.numbers[where] = np.array(numbers)[order]
        made.contents[where] = unpacked(packs, width)[order]
        made.events[where] = np.array(events)[order]
    return made


def _nulls(values: Floats) -> list[float | None]:
    """Return numbers for a database, with NaN as null: SQLite does not know NaN."""
    made: list[float | None] = values.tolist()
    for row in np.flatnonzero(np.isnan(values)).tolist():
        made[row] = None
    return made


def packed(parts: Floats) -> list[bytes]:
    """Return each row's numbers as bytes; equal numbers give equal bytes."""
    count, width = parts.shape
    if not width:
        return [b""] * count
    # Floating point has two zeros and many NaNs; normalise them to one of each.
    plain = np.where(np.isnan(parts), np.nan, parts + 0.0)
    content, size = plain.astype("<f8").tobytes(), 8 * width
    return [content[start : start + size] for start in range(0, len(content), size)]


def unpacked(packs: Sequence[bytes], parts: int) -> Floats:
    """Return rows of numbers from their bytes; NaN for rows whose bytes are missing."""
    nothing = np.full(parts, np.nan).astype("<f8").tobytes()
    content = b"".join(bytes(pack) or nothing for pack in packs)
    return np.frombuffer(content, dtype="<f8").reshape(len(packs), parts).astype(np.float64)


class SQLiteBulk:
    """Bulk operations of SQLite: ``executemany`` for inserts, JSON lists for look-ups."""

    def __init__(self, connection: sa.Connection) -> None:
        self._raw: Any = connection.connection.driver_connection

    def numbers(self, campaign: int, units: Sequence[str]) -> Integers:
        """Return each unit's number; -1 for unknown units."""
        found = self._raw.execute(
            "SELECT j.key, a.number FROM json_each(?) j "
            "CROSS JOIN assignments a ON a.campaign = ? AND a.unit = j.value",
            (json.dumps(units, ensure_ascii=False), campaign),
        ).fetchall()
        return _placed(found, len(units))

    def row_versions(self, campaign: int, keys: Sequence[str]) -> list[RowVersion]:
        """Return all versions of logged rows: position, version, number, content, event."""
        found: list[RowVersion] = self._raw.execute(
            "SELECT j.key, r.version, r.number, r.content, r.event FROM json_each(?) j "
            "CROSS JOIN outcome_rows r ON r.campaign = ? AND r.key = j.value",
            (json.dumps(keys, ensure_ascii=False), campaign),
        ).fetchall()
        return found

    def versions(self, campaign: int, numbers: Integers) -> list[Version]:
        """Return all versions of the outcomes: position, version, value, parts, event."""
        found: list[Version] = self._raw.execute(
            "SELECT j.key, o.version, o.value, o.parts, o.event FROM json_each(?) j "
            # CROSS JOIN fixes the order of the loops: the list outside, the index inside.
            "CROSS JOIN outcomes o ON o.campaign = ? AND o.number = j.value",
            (json.dumps(numbers.tolist()), campaign),
        ).fetchall()
        return found

    def claim(self, campaign: int, units: Sequence[str], first: int) -> bool:
        """Number units from `first` on; if any already has one, do nothing and return False."""
        rows = zip(units, range(first, first + len(units)), strict=True)
        statement = f"INSERT INTO assignments (campaign, unit, number) VALUES ({campaign:d}, ?, ?)"
        self._raw.execute("SAVEPOINT claim")
        try:
            self._raw.executemany(statement, rows)
        except sqlite3.IntegrityError:
            self._raw.execute("ROLLBACK TO claim")
            return False
        finally:
            # After other kinds of errors, the transaction may already have ended.
            if self._raw.in_transaction:
                self._raw.execute("RELEASE claim")
        return True

    def add_outcomes(
        self, campaign: int, numbers: Integers, versions: Integers, cells: Floats, event: int
    ) -> None:
        """Add outcomes; a row of cells holds an outcome's value and its parts."""
        columns = (numbers.tolist(), versions.tolist(), _nulls(cells[:, 0]), packed(cells[:, 1:]))
        statement = (
            "INSERT INTO outcomes (campaign, number, version, value, parts, event) "
            f"VALUES ({campaign:d}, ?, ?, ?, ?, {event:d})"
        )
        self._raw.executemany(statement, zip(*columns, strict=True))

    def add_rows(self, campaign: int, rows: LoggedRows, event: int) -> None:
        """Add logged rows."""
        statement = (
            "INSERT INTO outcome_rows (campaign, key, version, number, content, event) "
            f"VALUES ({campaign:d}, ?, ?, ?, ?, {event:d})"
        )
        columns = (
            rows.keys.to_pylist(), rows.versions.tolist(), rows.numbers.tolist(),
            packed(rows.contents),
        )  # fmt: skip
        self._raw.executemany(statement, zip(*columns, strict=True))

    def answers(self, token: str, keys: Sequence[str]) -> list[Known]:
        """Return the stored answers for a token's keys: key, request, headers, status."""
        found: list[Known] = self._raw.execute(
            "SELECT a.key, a.request, a.headers, a.status FROM json_each(?) j "
            "CROSS JOIN answers a ON a.token = ? AND a.key = j.value",
            (json.dumps(keys), token),
        ).fetchall()
        return found

    def add_answers(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add answers whose content is a single piece."""
        places = ", ".join(f":{name}" for name in _ANSWER)
        self._raw.executemany(f"INSERT INTO answers ({', '.join(_ANSWER)}) VALUES ({places})", rows)
        self._raw.executemany(
            "INSERT INTO answer_pieces (token, key, piece, content) "
            "VALUES (:token, :key, 0, :content)",
            rows,
        )


class PostgresBulk:
    """Bulk operations of PostgreSQL: COPY for inserts, text lists for look-ups."""

    def __init__(self, connection: sa.Connection) -> None:
        self._raw: Any = connection.connection.driver_connection

    def numbers(self, campaign: int, units: Sequence[str]) -> Integers:
        """Return each unit's number; -1 for unknown units."""
        found = self._raw.execute(
            "SELECT u.place - 1, a.number "
            "FROM json_array_elements_text(%s::json) WITH ORDINALITY u (text, place) "
            "JOIN assignments a ON a.campaign = %s AND a.unit = u.text",
            (json.dumps(units, ensure_ascii=False), campaign),
        ).fetchall()
        return _placed(found, len(units))

    def row_versions(self, campaign: int, keys: Sequence[str]) -> list[RowVersion]:
        """Return all versions of logged rows: position, version, number, content, event."""
        found: list[RowVersion] = self._raw.execute(
            "SELECT u.place - 1, r.version, r.number, r.content, r.event "
            "FROM json_array_elements_text(%s::json) WITH ORDINALITY u (text, place) "
            "JOIN outcome_rows r ON r.campaign = %s AND r.key = u.text",
            (json.dumps(keys, ensure_ascii=False), campaign),
        ).fetchall()
        return found

    def versions(self, campaign: int, numbers: Integers) -> list[Version]:
        """Return all versions of the outcomes: position, version, value, parts, event."""
        found: list[Version] = self._raw.execute(
            "SELECT u.place - 1, o.version, o.value, o.parts, o.event "
            "FROM unnest(%s::bigint[]) WITH ORDINALITY u (number, place) "
            "JOIN outcomes o ON o.campaign = %s AND o.number = u.number",
            (f"{{{','.join(map(str, numbers.tolist()))}}}", campaign),
        ).fetchall()
        return found

    def claim(self, campaign: int, units: Sequence[str], first: int) -> bool:
        """Number units from `first` on; if any already has one, do nothing and return False."""
        if len(units) <= FEW:
            return self._claim_few(campaign, units, first)
        from psycopg.errors import UniqueViolation

        statement = "COPY assignments (campaign, unit, number) FROM STDIN (FORMAT BINARY)"
        try:
            # A nested transaction is a savepoint.
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

    def _claim_few(self, campaign: int, units: Sequence[str], first: int) -> bool:
        """Claim in one statement; the campaign's lock excludes concurrent claims."""
        if len(set(units)) < len(units):
            return False
        values = {
            "campaign": campaign, "first": first, "units": json.dumps(units, ensure_ascii=False),
        }  # fmt: skip
        added: int = self._raw.execute(
            "INSERT INTO assignments (campaign, unit, number) "
            "SELECT %(campaign)s, u.text, %(first)s::bigint + u.place - 1 "
            "FROM json_array_elements_text(%(units)s::json) WITH ORDINALITY u (text, place) "
            "WHERE NOT EXISTS (SELECT FROM json_array_elements_text(%(units)s::json) v (text) "
            "JOIN assignments a ON a.campaign = %(campaign)s AND a.unit = v.text)",
            values,
        ).rowcount
        return added == len(units)

    def add_outcomes(
        self, campaign: int, numbers: Integers, versions: Integers, cells: Floats, event: int
    ) -> None:
        """Add outcomes; a row of cells holds an outcome's value and its parts."""
        statement = (
            "COPY outcomes (campaign, number, version, value, parts, event) "
            "FROM STDIN (FORMAT BINARY)"
        )
        columns = (numbers.tolist(), versions.tolist(), _nulls(cells[:, 0]), packed(cells[:, 1:]))
        with self._raw.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(["int4", "int8", "int4", "float8", "bytea", "int8"])
            for row in zip(*columns, strict=True):
                copy.write_row((campaign, *row, event))

    def add_rows(self, campaign: int, rows: LoggedRows, event: int) -> None:
        """Add logged rows."""
        statement = (
            "COPY outcome_rows (campaign, key, version, number, content, event) "
            "FROM STDIN (FORMAT BINARY)"
        )
        columns = (
            rows.keys.to_pylist(), rows.versions.tolist(), rows.numbers.tolist(),
            packed(rows.contents),
        )  # fmt: skip
        with self._raw.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(["int4", "text", "int4", "int8", "bytea", "int8"])
            for row in zip(*columns, strict=True):
                copy.write_row((campaign, *row, event))

    def answers(self, token: str, keys: Sequence[str]) -> list[Known]:
        """Return the stored answers for a token's keys: key, request, headers, status."""
        found: list[Known] = self._raw.execute(
            "SELECT key, request, headers, status FROM answers "
            "WHERE token = %s AND key IN (SELECT json_array_elements_text(%s::json))",
            (token, json.dumps(keys)),
        ).fetchall()
        return found

    def add_answers(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add answers whose content is a single piece."""
        values = ", ".join(f"%({name})s" for name in _ANSWER)
        with self._raw.cursor() as cursor:
            cursor.executemany(
                # Insert into both tables in one statement.
                f"WITH kept AS (INSERT INTO answers ({', '.join(_ANSWER)}) VALUES ({values})) "
                "INSERT INTO answer_pieces (token, key, piece, content) "
                "VALUES (%(token)s, %(key)s, 0, %(content)s)",
                rows,
            )
