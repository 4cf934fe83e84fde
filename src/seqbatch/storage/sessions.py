"""Sessions: who is signed in to the dashboard, kept as hashes.

A session is a random text in a cookie. It stands for the token that was used to sign in, until it
expires or is ended; revoking the token ends it at once.
"""

import secrets
from datetime import UTC, datetime

import sqlalchemy as sa

from seqbatch.storage import schema, tokens
from seqbatch.storage.stores import SQLStore
from seqbatch.storage.tokens import Token, as_text, hashed

#: Random bytes of a session.
BYTES = 32


def begin(store: SQLStore, token: Token, *, until: datetime) -> str:
    """Begin a session of a token; return what its cookie holds, this once."""
    secret = secrets.token_urlsafe(BYTES)
    row = {"hash": hashed(secret), "token": token.id, "expires": as_text(until)}
    with store.transaction(write=True) as connection:
        connection.execute(schema.sessions.insert().values(**row))
    return secret


def find(store: SQLStore, secret: str, *, now: datetime | None = None) -> Token | None:
    """Return the token of a session, None where either is not there or no longer valid."""
    now, table, known = now or datetime.now(UTC), schema.sessions, schema.tokens
    query = (
        sa.select(known)
        .join(table, table.c.token == known.c.id)
        .where(table.c.hash == hashed(secret), table.c.expires > as_text(now))
    )
    with store.transaction(write=False) as connection:
        row = connection.execute(query).mappings().first()
    token = None if row is None else tokens.from_row(row)
    return token if token is not None and token.state(now) == "active" else None


def end(store: SQLStore, secret: str) -> None:
    """End a session."""
    table = schema.sessions
    with store.transaction(write=True) as connection:
        connection.execute(table.delete().where(table.c.hash == hashed(secret)))


def forget(store: SQLStore, *, now: datetime | None = None) -> int:
    """Drop the sessions that have expired; return how many."""
    table, before = schema.sessions, as_text(now or datetime.now(UTC))
    with store.transaction(write=True) as connection:
        return connection.execute(table.delete().where(table.c.expires <= before)).rowcount
