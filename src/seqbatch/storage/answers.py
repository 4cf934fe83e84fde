"""Stored answers of idempotent calls, for calls that are repeated."""

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from seqbatch.storage import schema
from seqbatch.storage.stores import SQLStore

#: How long an answer is kept.
KEPT = timedelta(days=7)
#: How many old answers one transaction deletes, and the seconds between two of them. SQLite looks
#: for a free lock every tenth of a second, so another change gets its turn in between.
AT_ONCE, PAUSE = 500, 0.15
#: Size in bytes of the pieces in which a long answer is stored and read.
PIECE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class IdempotentCall:
    """A call that the client may repeat.

    Parameters
    ----------
    token
        The id of the caller's token; other tokens may use the same keys.
    key
        The client's idempotency key.
    request
        A hash of the whole request.
    """

    token: str
    key: str
    request: str


@dataclass(frozen=True, kw_only=True)
class StoredAnswer:
    """An answer: status, headers, and the content in pieces."""

    status: int
    headers: dict[str, str]
    pieces: Iterable[bytes]
    request: str = ""


def find(store: SQLStore, call: IdempotentCall) -> StoredAnswer | None:
    """Return the stored answer for a call's token and key; None if there is no such answer."""
    with store.transaction(write=False) as connection:
        return found(connection, store, call)


def found(connection: sa.Connection, store: SQLStore, call: IdempotentCall) -> StoredAnswer | None:
    """Do the same as `find` within a transaction; the pieces are read on demand."""
    return found_all(connection, store, [call]).get((call.token, call.key))


def found_all(
    connection: sa.Connection, store: SQLStore, calls: Sequence[IdempotentCall]
) -> dict[tuple[str, str], StoredAnswer]:
    """Return the stored answers of calls, by token and key; calls without one are left out."""
    by_token = defaultdict[str, dict[str, IdempotentCall]](dict)
    for call in calls:
        by_token[call.token][call.key] = call
    answered = {}
    for token, keys in by_token.items():
        for key, request, headers, status in store.bulk(connection).answers(token, list(keys)):
            answered[token, key] = StoredAnswer(
                status=status,
                headers=json.loads(headers),
                pieces=_Pieces(store, keys[key]),
                request=request,
            )
    return answered


def keep(connection: sa.Connection, call: IdempotentCall, answer: StoredAnswer) -> None:
    """Store an answer in the same transaction as its change."""
    connection.execute(schema.answers.insert(), _row(call, answer))
    # Insert one piece at a time, because an answer may be long.
    for number, content in enumerate(answer.pieces):
        connection.execute(schema.answer_pieces.insert(), _piece(call, number, content))


def keep_all(
    connection: sa.Connection, store: SQLStore, kept: Sequence[tuple[IdempotentCall, StoredAnswer]]
) -> None:
    """Store several answers of one piece each in one step."""
    rows = [{**_row(call, answer), "content": b"".join(answer.pieces)} for call, answer in kept]
    if rows:
        store.bulk(connection).add_answers(rows)


def _row(call: IdempotentCall, answer: StoredAnswer) -> dict[str, Any]:
    return {
        "token": call.token,
        "key": call.key,
        "request": call.request,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "headers": json.dumps(answer.headers),
        "status": answer.status,
    }


def _piece(call: IdempotentCall, number: int, content: bytes) -> dict[str, Any]:
    return {"token": call.token, "key": call.key, "piece": number, "content": content}


def forget(store: SQLStore, *, now: datetime | None = None) -> int:
    """Delete answers that are too old; return how many."""
    before, count = ((now or datetime.now(UTC)) - KEPT).isoformat(timespec="seconds"), 0
    while some := _forget_some(store, before):
        count += some
        if some < AT_ONCE:
            break
        time.sleep(PAUSE)
    return count


def _forget_some(store: SQLStore, before: str) -> int:
    """Delete the oldest answers before a time, at most AT_ONCE of them; return how many."""
    table = schema.answers
    old = sa.select(table.c.token, table.c.key).where(table.c.at < before)
    # Another worker may be deleting the oldest answers: those are skipped.
    old = old.order_by(table.c.at).limit(AT_ONCE).with_for_update(skip_locked=True)
    with store.transaction(write=True) as connection:
        keys = [{"of_token": t, "of_key": k} for t, k in connection.execute(old)]
        for each in (schema.answer_pieces, table) if keys else ():
            mine = (each.c.token == sa.bindparam("of_token"), each.c.key == sa.bindparam("of_key"))
            connection.execute(each.delete().where(*mine), keys)
    return len(keys)


@dataclass(frozen=True)
class _Pieces:
    """The pieces of a stored answer; each iteration reads them one by one."""

    store: SQLStore
    call: IdempotentCall

    def __iter__(self) -> Iterator[bytes]:
        table, number = schema.answer_pieces, 0
        while True:
            piece = (*_of(table, self.call), table.c.piece == number)
            with self.store.transaction(write=False) as connection:
                found = connection.execute(sa.select(table.c.content).where(*piece))
                content = found.scalar_one_or_none()
            if content is None:
                return
            yield bytes(content)
            number += 1


def _of(table: sa.Table, call: IdempotentCall) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.token == call.token, table.c.key == call.key
