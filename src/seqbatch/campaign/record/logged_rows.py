"""Logged rows: the rows of outcome files that outcomes are combined from, as recorded."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files.column_values import as_column
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.outcomes import COUNTED, OUTSIDE, VERDICTS, part_name, parts_of
from seqbatch.campaign.record.store import LoggedRows, OutcomeChunk, Reader
from seqbatch.core.arrays import Bools, Floats, Integers

# ----------------------------------------------------------------------
# The columns of logged rows in a recorded chunk.


#: The columns that only logged rows have: the key, and the time as an instant or a whole day.
KEY, TIME, DAY = "key", "time", "day"
LOGGED = tuple(VERDICTS.index(verdict) for verdict in (COUNTED, OUTSIDE))
#: What separates the name of an id's column from the id.
BAR = "|"


def content_width(parts: int) -> int:
    """Return the length of a logged row's content, for outcomes with this many parts."""
    return 1 + parts + 2


def time_columns(contents: Floats) -> dict[str, pa.Array]:
    """Return the columns of a chunk for the times of contents."""
    times, none = contents[:, -2], np.isnan(contents[:, -2])
    numbers = pa.array(np.where(none, 0, times).astype(np.int64), mask=none)
    return {TIME: numbers.view(pa.timestamp("us", "UTC")), DAY: pa.array(contents[:, -1] == 1)}


def logged_in(chunk: OutcomeChunk, parts: int) -> LoggedRows:
    """Return the logged rows of a recorded chunk; `parts` is the number of an outcome's parts."""
    names = ["number", "version", "value", "verdict", KEY, TIME, DAY, *map(part_name, range(parts))]
    rows = unpack(chunk.rows, names)
    if KEY not in rows.column_names:
        return nothing_logged(parts)
    rows = rows.filter(pc.is_in(rows["verdict"], value_set=pa.array(LOGGED, type=pa.int8())))
    times = rows[TIME].cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.float64)
    days = np.where(np.isnan(times), np.nan, rows[DAY].to_numpy(zero_copy_only=False))
    columns = [rows["value"].to_numpy(), *parts_of(rows, parts).T, times, days]
    return LoggedRows(
        as_column(rows[KEY]),
        rows["version"].to_numpy().astype(np.int64),
        rows["number"].to_numpy(),
        np.column_stack(columns).astype(np.float64),
    )


def nothing_logged(parts: int) -> LoggedRows:
    """Return no rows."""
    none = np.zeros(0, dtype=np.int64)
    return LoggedRows(pa.array([], pa.string()), none, none, np.zeros((0, content_width(parts))))


# ----------------------------------------------------------------------
# The rows of some units, and the versions that count.


def logged_of(
    reader: Reader, numbers: Integers, units: int, *, parts: int, until: int
) -> LoggedRows:
    """Return the logged rows of some units up to an event, in the order of the record.

    `units` is the number of units of the campaign.
    """
    asked = np.zeros(units, dtype=np.bool_)
    asked[numbers] = True
    found = [nothing_logged(parts)]
    for chunk in reader.outcome_chunks(until_event=until):
        rows = logged_in(chunk, parts)
        found.append(rows.take(np.flatnonzero(asked[rows.numbers])))
    return together(found)


def together(rows: Iterable[LoggedRows]) -> LoggedRows:
    """Return rows one after the other."""
    every = list(rows)
    return LoggedRows(
        pa.concat_arrays([each.keys for each in every]),
        np.concatenate([each.versions for each in every]),
        np.concatenate([each.numbers for each in every]),
        np.concatenate([each.contents for each in every]),
    )


def with_ids(keys: pa.Array) -> Bools:
    """Return which rows have an id; the others are identified by their content."""
    found: Bools = pc.invert(pc.starts_with(keys, BAR)).to_numpy(zero_copy_only=False)
    return found


def that_count(rows: LoggedRows) -> LoggedRows:
    """Return the rows without earlier versions of a row with an id."""
    codes = rows.keys.dictionary_encode().indices.to_numpy()
    newest = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(newest, codes, rows.versions)
    stands = ~with_ids(rows.keys) | (rows.versions == newest[codes])
    return rows if stands.all() else rows.take(np.flatnonzero(stands))
