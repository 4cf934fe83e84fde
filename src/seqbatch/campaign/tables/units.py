"""Units read from a file: the whole of it checked first, and kept aside as it was checked.

What is decided on later is what was checked, bit for bit, whatever becomes of the file meanwhile.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.design.limits import LONGEST_ID
from seqbatch.campaign.tables.columns import Problems, texts
from seqbatch.campaign.tables.encoder import Encoder
from seqbatch.campaign.tables.ids import joined, parted, read_ids
from seqbatch.campaign.tables.reading import Source, no_such_column
from seqbatch.campaign.tables.sizes import text_bytes
from seqbatch.campaign.tables.totals import HEADER, is_total, refusal
from seqbatch.campaign.tables.unclear import UnclearDots
from seqbatch.core.arrays import Integers

NOTHING = "nothing was assigned"
#: What to do about numbers that can be read in two ways.
REWRITE = (
    "declare which in the spec before the campaign is created, or write the numbers without "
    "thousands and with two decimals"
)
#: Bytes of units that are kept aside in memory.
SMALL = 1 << 20
#: Pairs of similar ids that are named.
NAMED = 5
Piece = tuple[list[str], pa.Table]


@dataclass(frozen=True)
class Units:
    """The checked units of a file, to be read in pieces as often as needed."""

    _spool: IO[bytes]
    _pieces: int
    _source: Source
    _encoder: Encoder
    warnings: tuple[str, ...] = ()

    def pieces(self) -> Iterator[Piece]:
        """Yield ids, and the columns that are kept, in the order and the pieces of the file."""
        self._spool.seek(0)
        for _ in range(self._pieces):
            # A stream for each piece: the levels of its categories are its own.
            given = pa.ipc.open_stream(self._spool).read_all()
            yield given.column(0).to_pylist(), given

    def lines(self, *rows: int) -> list[int]:
        """Return the lines that rows of data have in the file."""
        return [int(line) for line in self._source.lines(np.array(rows, dtype=np.int64))]

    def require_fit(self, encoder: Encoder) -> None:
        """Refuse numbers too large for this encoder, where it is not the one they were checked by.

        A wave may be closed while a file is checked, and its scaling learned.
        """
        if encoder == self._encoder:
            return
        problems, start = Problems(), 0
        for ids, given in self.pieces():
            encoder.check_sizes(given, start, problems)
            start += len(ids)
        _refuse(self._source, problems, empty=False)


@contextmanager
def read_units(source: Source, encoder: Encoder, report: Callable[[int], None]) -> Iterator[Units]:
    """Check a whole file of units and keep it aside; refuse it with all of its problems."""
    _require_columns(source, encoder)
    # On disk and without a name, but for a few: memory stays flat, and nobody else can write to it.
    with tempfile.SpooledTemporaryFile(max_size=SMALL) as spool:
        problems, start = Problems(), 0
        prints: list[Integers] = []
        alike: list[Integers] = []
        last = None
        unclear = UnclearDots(source, _unspelled(encoder))
        for batch in source.batches(file_columns(encoder)):
            unclear.look(batch, start)
            batch = _with_ids(batch, encoder, start, problems)
            ids, given = source.reading(partial(encoder.prepared, batch, start, problems))
            given = _with_clusters(given, batch, encoder, start, problems)
            given = _with_beside(given, batch, encoder, start, problems)
            _refuse_unfit_ids(batch.column(encoder.unit), ids, start, encoder.unit, problems)
            _refuse_headers(batch, encoder, start, problems)
            # Python's own hash is salted, fast, and good enough to find candidates by.
            prints.append(np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids)))
            alike.append(
                np.fromiter(map(hash, _plain(ids, encoder)), dtype=np.int64, count=len(ids))
            )
            with pa.ipc.new_stream(spool, given.schema) as writer:
                writer.write_table(given)
            start += len(ids)
            last = batch.slice(len(ids) - 1)
            report(start)
        _refuse_totals(last, encoder, start, problems)
        problems.found.extend(unclear.problems(REWRITE))
        source.require_unchanged()
        units = Units(spool, len(prints), source, encoder)
        if not problems.found and not source.ragged:
            problems.found.extend(_repeated(encoder.unit, units, prints, source))
        _refuse(source, problems, empty=start == 0)
        yield replace(units, warnings=similar_ids(units, alike))


def _require_columns(source: Source, encoder: Encoder) -> None:
    there = source.columns()
    missing = [name for name in file_columns(encoder) if name not in there]
    if missing:
        found = [(0, name, no_such_column(name, there)) for name in missing]
        raise source.invalid(found, NOTHING)


def file_columns(encoder: Encoder) -> tuple[str, ...]:
    """Return the columns that are read from a file of units."""
    cluster = () if encoder.cluster is None else (encoder.cluster,)
    beside = (column.name for column in encoder.beside)
    return (*encoder.unit_columns, *cluster, *beside, *encoder.columns[1:])


def _unspelled(encoder: Encoder) -> list[str]:
    """Return the columns of numbers for which no format is declared."""
    numeric = encoder.features.numeric
    return [name for name, rules in numeric.items() if rules.format is None]


def _with_ids(batch: Any, encoder: Encoder, start: int, problems: Problems) -> Any:
    """Join the columns that ids are made of, where there are several, into one."""
    if len(encoder.unit_columns) == 1:
        return batch
    ids, wrong = read_ids(batch, encoder.unit_columns)
    for row, (column, reason) in wrong.items():
        problems.add(start, column, {row: reason})
    columns = [*batch.columns, pa.array(ids, type=pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, encoder.unit])


def _with_clusters(
    given: pa.Table, batch: Any, encoder: Encoder, start: int, problems: Problems
) -> pa.Table:
    """Keep each unit's cluster beside what the model is made of."""
    if encoder.cluster is None:
        return given
    clusters, wrong = texts(batch.column(encoder.cluster))
    problems.add(start, encoder.cluster, wrong)
    return given.append_column(encoder.cluster, pa.array(clusters, type=pa.string()))


def _with_beside(
    given: pa.Table, batch: Any, encoder: Encoder, start: int, problems: Problems
) -> pa.Table:
    """Keep the columns of rules and strata, and refuse units that may get nothing."""
    before = len(problems.found)
    for column in encoder.beside:
        kept, wrong = column.read(batch.column(column.name))
        problems.add(start, column.name, wrong)
        given = given.append_column(column.name, kept)
    if encoder.eligibility is not None and len(problems.found) == before:
        problems.add(start, encoder.unit, encoder.eligibility.nothing(given))
    return given


def _refuse_unfit_ids(
    column: Any, ids: list[str], start: int, unit: str, problems: Problems
) -> None:
    """Refuse ids that not every store could keep."""
    if any("\0" in each for each in ids):
        rule = "must not hold a NUL character"
        problems.add(start, unit, {row: rule for row, each in enumerate(ids) if "\0" in each})
    lengths = text_bytes(column)
    rule = f"must have at most {LONGEST_ID:,} bytes"
    too_long = np.flatnonzero(lengths > LONGEST_ID).tolist()
    problems.add(start, unit, {row: f"{rule}; received {lengths[row]:,}" for row in too_long})


def _refuse_headers(batch: Any, encoder: Encoder, start: int, problems: Problems) -> None:
    """Refuse rows that repeat the header, as in files that were put one below another."""
    names = file_columns(encoder)
    rows = np.arange(batch.num_rows)
    for name in dict.fromkeys(names):
        column = batch.column(name)
        if not pa.types.is_string(column.type) or not len(rows):
            return
        same = pc.equal(pc.utf8_trim_whitespace(column.take(rows)), name).fill_null(False)
        rows = rows[same.to_numpy(zero_copy_only=False)]
    problems.add(start, names[0], {int(row): HEADER for row in rows})


def _refuse_totals(last: Any, encoder: Encoder, rows: int, problems: Problems) -> None:
    """Refuse a last row that holds totals."""
    if rows < 2:
        return
    [cells] = last.to_pylist()
    unit, *_ = encoder.unit_columns
    others = [cell for name, cell in cells.items() if name not in (unit, encoder.unit)]
    if is_total(str(cells[unit]), others):
        problems.add(rows - 1, unit, {0: refusal(str(cells[unit]))})


def _refuse(source: Source, problems: Problems, *, empty: bool) -> None:
    """Raise all problems of a file at once, with the places that its rows have in it."""
    rows = np.array([row for row, _, _ in problems.found], dtype=np.int64)
    # A problem of the header has no row.
    places = np.where(rows > 0, source.lines(np.maximum(rows, 1)), 0).tolist()
    found = [(place, *rest) for place, (_, *rest) in zip(places, problems.found, strict=True)]
    found.extend(source.ragged)
    if empty and not found:
        found.append((0, "", "the file has no rows"))
    if found:
        raise source.invalid(sorted(found), NOTHING)


def plain_forms(ids: list[str]) -> list[str]:
    """Return ids without what is easily changed on the way: case, outer spaces, leading zeros.

    >>> plain_forms(["007", "Ann ", "0"])
    ['7', 'ann', '']
    """
    text = pc.utf8_normalize(pa.array(ids, type=pa.string()), form="NFC")
    trimmed = pc.utf8_trim_whitespace(pc.utf8_lower(text))
    plain: list[str] = pc.utf8_ltrim(trimmed, characters="0").to_pylist()
    return plain


def _plain(ids: list[str], encoder: Encoder) -> list[str]:
    """Return the plain forms of ids, column by column."""
    return joined([plain_forms(part) for part in parted(ids, len(encoder.unit_columns))])


def similar_ids(units: Units, alike: list[Integers]) -> tuple[str, ...]:
    """Return a warning where different ids of a file may be meant for the same unit."""
    every = np.concatenate(alike)
    ordered = np.sort(every)
    twins = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(twins):
        return ()
    suspects = np.isin(every, twins)
    first: dict[str, str] = {}
    pairs, start = [], 0
    for ids, _ in units.pieces():
        rows = np.flatnonzero(suspects[start : start + len(ids)])
        chosen = [ids[row] for row in rows.tolist()]
        for each, plain in zip(chosen, _plain(chosen, units._encoder), strict=True):
            if first.setdefault(plain, each) != each:
                pairs.append(f"{first[plain]!a} and {each!a}")
        start += len(ids)
        if len(pairs) >= NAMED:
            break
    shown = "; ".join(pairs[:NAMED]) + ("; ..." if len(pairs) > NAMED else "")
    return (
        (
            f"some ids differ only by case, spaces around them, leading zeros or Unicode form, and "
            f"count as different units: {shown}",
        )
        if pairs
        else ()
    )


def _repeated(
    unit: str, units: Units, prints: list[Integers], source: Source
) -> list[tuple[int, str, str]]:
    """Return the rows whose id stood in an earlier row, found by hash and then by text."""
    every = np.concatenate(prints) if prints else np.zeros(0, dtype=np.int64)
    ordered = np.sort(every)
    twins = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(twins):
        return []
    suspects = set(np.flatnonzero(np.isin(every, twins)).tolist())
    seen: dict[str, int] = {}
    found, row = [], 0
    for ids, _ in units.pieces():
        for each in ids:
            if row in suspects:
                if each in seen:
                    [place] = units.lines(seen[each])
                    earlier = f"{source.place} {place:,}"
                    found.append((row + 1, unit, f"repeats the id {each!r} of {earlier}"))
                seen.setdefault(each, row + 1)
            row += 1
    return found
