"""Whether rows are in a lake's files: only the lake that they belong to can go on there."""

import sqlalchemy as sa

from seqbatch.errors import StoreError
from seqbatch.storage import schema

#: How a record begins that names a file instead of holding rows.
FILE = b'{"file":'


def refuse_ledger(connection: sa.Connection, label: str) -> None:
    """Refuse the ledger of a lake: whoever does not read its files assigns its units twice."""
    tables = {table.name for table in (schema.campaigns, schema.unit_chunks, schema.outcome_chunks)}
    if not tables <= set(sa.inspect(connection).get_table_names()):
        # A damaged store is for whoever reads it to report.
        return
    found = connection.execute(_IN_FILES).scalar()
    if found is not None:
        raise StoreError(
            f"{label}: is the ledger of a lake; the rows of campaign {found} are in its files. "
            "Nothing was touched. Name the lake: lake:folder, or lake:folder?ledger=postgresql://"
            "user@host/database."
        )


def _newest_in_file(table: sa.Table, content: str) -> sa.ColumnElement[bool]:
    """Say whether the newest chunk of a campaign is in a file.

    The newest is enough: once a lake has written a chunk, no other store adds one.
    """
    start = sa.func.substr(table.c[content], 1, len(FILE), type_=sa.LargeBinary)
    mine = sa.select(start).where(table.c.campaign == schema.campaigns.c.id)
    newest = mine.order_by(table.c.chunk.desc()).limit(1).correlate(schema.campaigns)
    return newest.scalar_subquery() == FILE


_IN_FILES = (
    sa.select(schema.campaigns.c.name)
    .where(
        _newest_in_file(schema.unit_chunks, "given")
        | _newest_in_file(schema.outcome_chunks, "rows")
    )
    .limit(1)
)
