"""Tokens and dashboard sessions, stored as hashes."""

import hashlib
import json
import secrets
import string
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from seqbatch.core import arguments
from seqbatch.errors import InvalidArgumentError, UncertainCommitError
from seqbatch.storage import schema
from seqbatch.storage.stores import SQLStore

# ----------------------------------------------------------------------
# API tokens
#
# A token is ``sqb_``, 32 random letters and digits, and a 6-character checksum of the rest. With
# the prefix and the checksum, a secret scanner can recognise a token offline. The token is shown
# once, when it is created. The store keeps only its SHA-256 and its first characters as an id.


PREFIX, RANDOM, CHECK = "sqb_", 32, 6
DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
#: The roles; `seqbatch.service.roles` says what each may do.
ROLES = ("viewer", "enrol", "operator", "committee", "admin")


@dataclass(frozen=True, kw_only=True)
class Token:
    """The stored record of a token, without its secret.

    Parameters
    ----------
    id
        The first characters of the token.
    name
        The author recorded in the events of its calls.
    role
        viewer, enrol, operator, committee or admin.
    campaigns
        The campaigns that it gives access to; empty for all campaigns.
    created, expires, revoked
        Times in UTC; "" for never.
    """

    id: str
    name: str
    role: str
    campaigns: tuple[str, ...]
    created: str
    expires: str
    revoked: str

    def state(self, now: datetime) -> str:
        """Return active, expired or revoked."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires and self.expires <= as_text(now) else "active"

    def sees(self, campaign: str) -> bool:
        """Return whether the token gives access to a campaign."""
        return not self.campaigns or campaign in self.campaigns


def create(
    store: SQLStore,
    name: str,
    *,
    role: str,
    campaigns: tuple[str, ...] = (),
    expires: datetime | None = None,
    now: datetime | None = None,
    seed: bytes | None = None,
) -> tuple[str, Token]:
    """Create a token; return its secret, which is not stored, and its stored record.

    A form that may be sent twice gives a secret ``seed``: both calls return the same token.
    """
    made = now or datetime.now(UTC)
    if not arguments.text("name", name).strip() or len(name) > 100:
        raise InvalidArgumentError("name", "a text of 1 to 100 characters", repr(name))
    arguments.choice("role", role, ROLES)
    if expires is not None and expires <= made:
        raise InvalidArgumentError("expires", "in the future", expires.isoformat())
    secret = new(seed)
    token = Token(
        id=secret[: len(PREFIX) + 8], name=name, role=role, campaigns=campaigns,
        created=as_text(made), expires="" if expires is None else as_text(expires), revoked="",
    )  # fmt: skip
    try:
        return secret, _add(store, token, secret)
    except UncertainCommitError as error:
        raise UncertainCommitError(
            f"{error} The token's secret is lost. List the tokens: if {name} is there, revoke it "
            "and create one with another name."
        ) from error


def _add(store: SQLStore, token: Token, secret: str) -> Token:
    """Store a new token, whose name must be free; return the stored one if it is there already."""
    with store.transaction(write=True) as connection:
        table = schema.tokens
        same = sa.select(table).where(table.c.name == token.name)
        row = connection.execute(same).mappings().first()
        if row is not None and row["hash"] == hashed(secret):
            return from_row(row)
        if row is not None:
            raise InvalidArgumentError(
                "name", "a name that no other token has or had", repr(token.name),
                "Events are signed with this name, so two tokens cannot share it.",
            )  # fmt: skip
        plain = {"campaigns": json.dumps(list(token.campaigns)), "hash": hashed(secret)}
        connection.execute(table.insert().values(**{**vars(token), **plain}))
    return token


def listed(store: SQLStore) -> list[Token]:
    """Return all tokens in order of creation."""
    with store.transaction(write=False) as connection:
        query = sa.select(schema.tokens).order_by(schema.tokens.c.created, schema.tokens.c.id)
        return [from_row(row) for row in connection.execute(query).mappings()]


def revoke(store: SQLStore, name: str, *, now: datetime | None = None) -> Token:
    """Revoke a token by its name or its id."""
    table = schema.tokens
    with store.transaction(write=True) as connection:
        either = (table.c.name == name) | (table.c.id == name)
        row = connection.execute(sa.select(table).where(either)).mappings().first()
        if row is None:
            raise InvalidArgumentError("name", "the name or id of a token", repr(name))
        if not row["revoked"]:
            when = as_text(now or datetime.now(UTC))
            connection.execute(table.update().where(table.c.id == row["id"]).values(revoked=when))
            return from_row({**row, "revoked": when})
        return from_row(row)


def find(store: SQLStore, secret: str) -> Token | None:
    """Return the record of a token; None if the token is unknown."""
    if not well_formed(secret):
        return None
    with store.transaction(write=False) as connection:
        query = sa.select(schema.tokens).where(schema.tokens.c.hash == hashed(secret))
        row = connection.execute(query).mappings().first()
        return None if row is None else from_row(row)


def new(seed: bytes | None = None) -> str:
    """Return a new token, from the operating system's random generator or from a secret seed."""
    number = int.from_bytes(
        secrets.token_bytes(64) if seed is None else hashlib.sha512(seed).digest()
    )
    body = PREFIX + _digits(number, RANDOM)
    return body + checksum(body)


def checksum(body: str) -> str:
    """Return the checksum that ends a token.

    >>> checksum("sqb_" + "0" * 32)
    '4X0RD5'
    """
    return _digits(zlib.crc32(body.encode()), CHECK)


def _digits(number: int, count: int) -> str:
    """Return the last digits of a number, in letters and digits."""
    made = ""
    for _ in range(count):
        number, digit = divmod(number, len(DIGITS))
        made = DIGITS[digit] + made
    return made


def well_formed(secret: str) -> bool:
    """Return whether a text has the form and the checksum of a token, without using the store.

    >>> well_formed(new()), well_formed("sqb_" + "0" * 38)
    (True, False)
    """
    if len(secret) != len(PREFIX) + RANDOM + CHECK or not secret.isascii():
        return False
    return secret.startswith(PREFIX) and checksum(secret[:-CHECK]) == secret[-CHECK:]


def hashed(secret: str) -> str:
    """Return the hash of a token; no salt is needed for 190 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def from_row(row: Mapping[Any, Any]) -> Token:
    """Convert a table row to a token."""
    plain: dict[str, Any] = {name: value for name, value in row.items() if name != "hash"}
    return Token(**{**plain, "campaigns": tuple(json.loads(plain["campaigns"]))})


def as_text(when: datetime) -> str:
    """Return the stored text of a time; these texts sort chronologically."""
    return when.astimezone(UTC).isoformat(timespec="seconds")


# ----------------------------------------------------------------------
# Dashboard sessions
#
# A session is a random text in a cookie. It represents the token that was used to sign in, until
# the session expires or is ended. Revoking the token ends the session immediately.


#: Number of random bytes in a session's secret.
SESSION_BYTES = 32


def begin_session(store: SQLStore, token: Token, *, until: datetime) -> str:
    """Start a session for a token; return the cookie's secret, which is not stored."""
    secret = secrets.token_urlsafe(SESSION_BYTES)
    row = {"hash": hashed(secret), "token": token.id, "expires": as_text(until)}
    with store.transaction(write=True) as connection:
        connection.execute(schema.sessions.insert().values(**row))
    return secret


def find_session(store: SQLStore, secret: str, *, now: datetime | None = None) -> Token | None:
    """Return the token of a session; None if the session or the token is unknown or invalid."""
    now, table, known = now or datetime.now(UTC), schema.sessions, schema.tokens
    query = (
        sa.select(known)
        .join(table, table.c.token == known.c.id)
        .where(table.c.hash == hashed(secret), table.c.expires > as_text(now))
    )
    with store.transaction(write=False) as connection:
        row = connection.execute(query).mappings().first()
    token = None if row is None else from_row(row)
    return token if token is not None and token.state(now) == "active" else None


def end_session(store: SQLStore, secret: str) -> None:
    """End a session."""
    table = schema.sessions
    with store.transaction(write=True) as connection:
        connection.execute(table.delete().where(table.c.hash == hashed(secret)))


def forget_sessions(store: SQLStore, *, now: datetime | None = None) -> int:
    """Delete expired sessions; return how many."""
    table, before = schema.sessions, as_text(now or datetime.now(UTC))
    with store.transaction(write=True) as connection:
        return connection.execute(table.delete().where(table.c.expires <= before)).rowcount
