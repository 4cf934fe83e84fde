"""What was answered to calls that may come again, kept with the changes that they made."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from seqbatch.storage import schema
from seqbatch.storage.stores import SQLStore

#: How long an answer is kept.
KEPT = timedelta(days=7)
#: Bytes of a long answer that are kept, and read, at once.
PIECE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call that may come again.

    Parameters
    ----------
    token
        The id of the token that it was made with; other tokens may use the same keys.
    key
        What the client calls it.
    request
        A hash of all that was asked.
    """

    token: str
    key: str
    request: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was answered: a status, headers, and a document in pieces."""

    status: int
    headers: dict[str, str]
    pieces: Iterable[bytes]
    request: str = ""


def find(store: SQLStore, call: Call) -> Answer | None:
    """Return what was answered to a call of this token and key, None where nothing was."""
    with store.transaction(write=False) as connection:
        return found(connection, store, call)


def found(connection: sa.Connection, store: SQLStore, call: Call) -> Answer | None:
    """Return the same within a transaction; its pieces are read when they are wanted."""
    query = sa.select(schema.answers).where(*_of(schema.answers, call))
    row = connection.execute(query).mappings().first()
    if row is None:
        return None
    return Answer(
        status=row["status"],
        headers=json.loads(row["headers"]),
        pieces=_pieces(store, call),
        request=row["request"],
    )


def keep(connection: sa.Connection, call: Call, answer: Answer) -> None:
    """Keep an answer, as a part of the transaction that makes the change."""
    own = {"token": call.token, "key": call.key}
    connection.execute(
        schema.answers.insert().values(
            **own,
            request=call.request,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            headers=json.dumps(answer.headers),
            status=answer.status,
        )
    )
    for number, content in enumerate(answer.pieces):
        row = schema.answer_pieces.insert().values(**own, piece=number, content=content)
        connection.execute(row)


def forget(store: SQLStore, *, now: datetime | None = None) -> int:
    """Drop the answers that were kept long enough; return how many."""
    before = ((now or datetime.now(UTC)) - KEPT).isoformat(timespec="seconds")
    table, pieces = schema.answers, schema.answer_pieces
    with store.transaction(write=True) as connection:
        old = connection.execute(
            sa.select(table.c.token, table.c.key).where(table.c.at < before)
        ).all()
        for token, key in old:
            call = Call(token=token, key=key, request="")
            connection.execute(pieces.delete().where(*_of(pieces, call)))
            connection.execute(table.delete().where(*_of(table, call)))
        return len(old)


def _pieces(store: SQLStore, call: Call) -> Iterator[bytes]:
    table, number = schema.answer_pieces, 0
    while True:
        query = sa.select(table.c.content).where(*_of(table, call), table.c.piece == number)
        with store.transaction(write=False) as connection:
            content = connection.execute(query).scalar_one_or_none()
        if content is None:
            return
        yield bytes(content)
        number += 1


def _of(table: sa.Table, call: Call) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.token == call.token, table.c.key == call.key
