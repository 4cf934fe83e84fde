"""The database tables.

All tables of campaigns except the folds are append-only: triggers refuse every update, deletion and
replacement. There are two exceptions: the rows of a campaign with a tombstone may be deleted, and
units and outcomes within the transaction of an erasure, which must end with its event. Tokens,
sessions and answers belong to the service, not to a campaign.
"""

from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData()

_BIG = sa.BigInteger
_CAMPAIGN = sa.Integer


def _table(name: str, *columns: sa.Column[Any], rowid: bool = True) -> sa.Table:
    return sa.Table(name, metadata, *columns, sqlite_with_rowid=rowid)


def _key(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True)


migrations = _table(
    "migrations",
    _key("schema", sa.Text),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("version", "at")),
)

campaigns = sa.Table(
    "campaigns",
    metadata,
    sa.Column("id", _CAMPAIGN, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)

events = _table(
    "events",
    _key("campaign", _CAMPAIGN),
    _key("sequence", _BIG),
    *(
        sa.Column(name, sa.Text, nullable=False)
        for name in (
            "kind", "at", "who", "why", "counts", "payload", "rows_hash", "previous", "version",
            "hash",
        )
    ),
)  # fmt: skip

unit_chunks = _table(
    "unit_chunks",
    _key("campaign", _CAMPAIGN),
    _key("chunk", _BIG),
    sa.Column("event", _BIG, nullable=False),
    sa.Column("wave", sa.Integer, nullable=False),
    sa.Column("first", _BIG, nullable=False),
    sa.Column("count", _BIG, nullable=False),
    sa.Column("given", sa.LargeBinary, nullable=False),
    sa.Column("decided", sa.LargeBinary, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)

outcome_chunks = _table(
    "outcome_chunks",
    _key("campaign", _CAMPAIGN),
    _key("chunk", _BIG),
    sa.Column("event", _BIG, nullable=False),
    sa.Column("count", _BIG, nullable=False),
    sa.Column("rows", sa.LargeBinary, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)

states = _table(
    "states",
    _key("campaign", _CAMPAIGN),
    _key("event", _BIG),
    sa.Column("wave", sa.Integer, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)

assignments = _table(
    "assignments",
    _key("campaign", _CAMPAIGN),
    _key("unit", sa.Text),
    sa.Column("number", _BIG, nullable=False),
    rowid=False,
)

outcomes = _table(
    "outcomes",
    _key("campaign", _CAMPAIGN),
    _key("number", _BIG),
    _key("version", sa.Integer),
    sa.Column("value", sa.Double, nullable=True),
    sa.Column("parts", sa.LargeBinary, nullable=False),
    sa.Column("event", _BIG, nullable=False),
    rowid=False,
)

outcome_rows = _table(
    "outcome_rows",
    _key("campaign", _CAMPAIGN),
    _key("key", sa.Text),
    _key("version", sa.Integer),
    sa.Column("number", _BIG, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("event", _BIG, nullable=False),
    rowid=False,
)

folds = _table(
    "folds",
    _key("campaign", _CAMPAIGN),
    sa.Column("event", _BIG, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)

erasures = _table("erasures", _key("campaign", _CAMPAIGN), _key("event", _BIG))

tombstones = _table(
    "tombstones",
    _key("campaign", _CAMPAIGN),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("events", _BIG, nullable=False),
    sa.Column("units", _BIG, nullable=False),
    *(
        sa.Column(name, sa.Text, nullable=False)
        for name in ("last", "at", "who", "why", "previous", "hash")
    ),
)

tokens = _table(
    "tokens",
    _key("id", sa.Text),
    *(
        sa.Column(name, sa.Text, nullable=False)
        for name in ("name", "role", "campaigns", "created", "expires", "revoked", "hash")
    ),
)

sessions = _table(
    "sessions",
    _key("hash", sa.Text),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("token", "expires")),
)

answers = _table(
    "answers",
    _key("token", sa.Text),
    _key("key", sa.Text),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("request", "at", "headers")),
    sa.Column("status", sa.Integer, nullable=False),
)

answer_pieces = _table(
    "answer_pieces",
    _key("token", sa.Text),
    _key("key", sa.Text),
    _key("piece", sa.Integer),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
