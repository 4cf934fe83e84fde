"""Read units from a file: check the whole file first, and store the checked units.

Later decisions use exactly the units that were checked, even if the file changes meanwhile.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.files.carried import CarriedColumns, carried
from seqbatch.campaign.files.column_values import Problems, Reason, as_column, python_value, texts
from seqbatch.campaign.files.doubts import (
    NAMED_TOTALS,
    Summed,
    UnclearDots,
    doubt,
    ending_in_sums,
    misspelled_levels,
    misspelled_strata,
    near_misses,
    repeated_header,
)
from seqbatch.campaign.files.ids import (
    plain_ids,
    prints_of,
    read_ids,
    repeated_ids,
    similar_ids,
    with_nul,
)
from seqbatch.campaign.files.parallel_pieces import ahead, over
from seqbatch.campaign.files.profile import OddRows
from seqbatch.campaign.files.reading import NO_ROWS, Source, no_such_column
from seqbatch.campaign.files.stand_ins import stand_ins
from seqbatch.campaign.files.unpacked_size import text_bytes
from seqbatch.campaign.spec.input_limits import LONGEST_ID, MOST_PROBLEMS
from seqbatch.core.arrays import AnyArray
from seqbatch.errors import Doubt, RowProblem

NOTHING = "nothing was assigned"
#: The advice for numbers that can be read in two ways.
REWRITE = (
    "declare the right format in the spec before you create the campaign, or write the numbers "
    "without thousands separators and with two decimals"
)
#: Why a unit without a stratum is refused, where its place in the stratum's order matters.
NO_STRATUM = Reason(
    "is missing",
    '; it is one of strata, and draw = "blocks" or "minimise" needs a value of each: write one, '
    "such as unknown",
    "missing",
)
#: The bytes of checked units that are held in memory before they go to disk.
SMALL = 1 << 20


class UnitPiece(NamedTuple):
    """Some units: their ids, the columns to store, and the columns that are only copied."""

    ids: pa.Array
    given: pa.Table
    carried: pa.Table

    def take(self, rows: Any) -> "UnitPiece":
        """Return some of the units."""
        copied = self.carried.take(rows) if self.carried.num_columns else self.carried
        return UnitPiece(self.ids.take(rows), self.given.take(rows), copied)


class UnitsToAssign(Protocol):
    """Checked units, readable in pieces as often as needed."""

    @property
    def carried(self) -> CarriedColumns:
        """The columns that are only copied."""

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What may be wrong with the units."""

    def pieces(self) -> Iterator[UnitPiece]:
        """Yield the units, in order."""

    def require_fit(self, encoder: Encoder) -> None:
        """Refuse numbers too large for this encoder, if another one checked them."""


@dataclass(frozen=True)
class CheckedUnits:
    """The checked units of a file, readable in pieces as often as needed."""

    _spool: IO[bytes]
    _pieces: int
    _source: Source
    _encoder: Encoder
    carried: CarriedColumns
    doubts: tuple[Doubt, ...] = ()

    def pieces(self) -> Iterator[UnitPiece]:
        """Yield the units, in the order and the pieces of the file."""
        self._spool.seek(0)
        start = 0
        for _ in range(self._pieces):
            given = pa.ipc.open_stream(self._spool).read_all()
            copied = self.carried.rows(start, given.num_rows)
            yield UnitPiece(as_column(given.column(0)), given, copied)
            start += given.num_rows

    def tables(self) -> Iterator[pa.Table]:
        """Yield the stored columns."""
        return (piece.given for piece in self.pieces())

    def place(self, row: int) -> str:
        """Return the position of a row of data in the file, such as `line 7`."""
        return self.places([row])[0]

    def places(self, rows: Sequence[int]) -> list[str]:
        """Return the positions of rows of data in the file."""
        return self._source.where(rows)

    def require_fit(self, encoder: Encoder) -> None:
        """Refuse numbers too large for this encoder, if another one checked them.

        A wave may close during the check of a file, and its scaling is learned then.
        """
        if encoder == self._encoder:
            return
        problems, start = Problems(), 0
        for given in self.tables():
            encoder.check_sizes(given, start, problems)
            start += given.num_rows
        _refuse(self._source, problems, empty=False)


@contextmanager
def read_units(
    source: Source,
    encoder: Encoder,
    report: Callable[[int], None],
    *,
    strata: Sequence[str] = (),
    complete: bool = False,
    with_columns: Sequence[str] = (),
) -> Iterator[CheckedUnits]:
    """Check a whole file of units and store it temporarily; refuse it with all its problems.

    Parameters
    ----------
    source, encoder
        The file, and the encoder for its columns.
    report
        Called now and then with the number of rows read.
    strata
        The columns within whose values actions are balanced.
    complete
        Whether every unit needs a value in these columns; otherwise, units without one are a
        stratum.
    with_columns
        The columns that are copied to the assignments.
    """
    _require_columns(source, encoder)
    if changed := source.changed_ids(encoder.unit_columns):
        raise source.invalid(changed, NOTHING)
    source.keep_one(encoder.unit_columns)
    # Large files are spooled to an unnamed file, which no other process can write to.
    with (
        carried(source, with_columns) as beside,
        tempfile.SpooledTemporaryFile(max_size=SMALL) as spool,
        closing(ahead(source.batches(file_columns(encoder)))) as batches,
    ):
        problems, start = Problems(), 0
        prints: list[AnyArray] = []
        alike: list[AnyArray] = []
        odd: OddRows | None = None
        sums: dict[str, Summed] = {}
        unclear = UnclearDots(source, _unspelled(encoder))
        needed = tuple(strata) if complete else ()
        read = _Reading(source, encoder, np.frombuffer(os.urandom(16), dtype=np.uint64), needed)
        for piece in over(read.checked, _placed(batches)):
            unclear.look(piece.batch, start)
            problems.found.extend(piece.problems[: max(MOST_PROBLEMS - len(problems.found), 0)])
            prints.append(piece.prints)
            alike.append(piece.alike)
            odd = piece.odd if odd is None else odd.then(piece.odd)
            spool.write(piece.content)
            sums = {n: sums[n].then(s) if n in sums else s for n, s in piece.sums.items()}
            start += piece.batch.num_rows
            report(start)
        summed = ending_in_sums(sums)
        problems.found.extend([] if odd is None else odd.totals(summed))
        problems.found.extend(unclear.problems(REWRITE))
        source.require_unchanged()
        units = CheckedUnits(spool, len(prints), source, encoder, beside)
        if not problems.found and not source.ragged:
            problems.found.extend(repeated_ids(units, prints, encoder.unit))
        doubts = [] if odd is None else odd.doubts()
        problems.found.extend(doubts if problems.found else [])
        _refuse(source, problems, empty=start == 0)
        found = similar_ids(units, alike, len(encoder.unit_columns))
        found += near_misses(units.tables(), encoder.eligibility)
        found += misspelled_levels(units.tables(), encoder.parts)
        found += misspelled_strata(units.tables(), strata)
        found += stand_ins(units.tables, encoder.parts)
        found += tuple(
            Doubt("totals", (f"{units.place(each.row)} {each.reason}",), column=each.column, rows=1)
            for each in doubts[:NAMED_TOTALS]
        )
        found += _doubted_totals(odd, units, summed)
        # Free the hashes before units are assigned: a file may have very many.
        prints.clear()
        alike.clear()
        yield replace(units, doubts=found)


@dataclass(frozen=True)
class _Checked:
    """A checked piece of a file: its stored columns, problems, hashes of ids, and sums."""

    batch: Any
    content: Any
    problems: list[RowProblem]
    prints: AnyArray
    alike: AnyArray
    sums: dict[str, Summed]
    odd: OddRows


@dataclass(frozen=True)
class _Reading:
    """Settings for checking pieces of a file, in any thread."""

    source: Source
    encoder: Encoder
    key: AnyArray
    needed: tuple[str, ...] = ()

    def checked(self, piece: tuple[int, Any]) -> _Checked:
        """Check a piece, given with the number of rows before it."""
        start, batch = piece
        encoder, problems = self.encoder, Problems()
        whole = _with_ids(batch, encoder, start, problems)
        ids, given = self.source.reading(partial(encoder.prepared, whole, start, problems))
        given = _with_clusters(given, whole, encoder, start, problems)
        given = _with_beside(given, whole, encoder, start, problems)
        _refuse_without(self.needed, given, start, problems)
        _refuse_unfit_ids(whole.column(encoder.unit), ids, start, encoder.unit, problems)
        names = file_columns(encoder)
        odd = OddRows.of(whole, start, names=names, ids=names[:1])
        problems.found.extend(repeated_header(row, names[0]) for row in odd.headers)
        sink = pa.BufferOutputStream()
        # One stream per piece: each piece has its own category levels.
        with pa.ipc.new_stream(sink, given.schema) as writer:
            writer.write_table(given)
        alike = prints_of(plain_ids(ids, len(encoder.unit_columns)), self.key)
        sums = {name: Summed.of(given[name].to_numpy()) for name in encoder.features.numeric}
        prints = prints_of(ids, self.key)
        return _Checked(whole, sink.getvalue(), problems.found, prints, alike, sums, odd)


def _placed(batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Yield pieces of a file, each with the number of rows before it."""
    start = 0
    for batch in batches:
        yield start, batch
        start += batch.num_rows


def _require_columns(source: Source, encoder: Encoder) -> None:
    there = source.columns()
    missing = [name for name in file_columns(encoder) if name not in there]
    if missing:
        raise source.invalid([no_such_column(name, there) for name in missing], NOTHING)


def file_columns(encoder: Encoder) -> tuple[str, ...]:
    """Return the columns to read from a file of units."""
    cluster = () if encoder.cluster is None else (encoder.cluster,)
    beside = (column.name for column in encoder.beside)
    return (*encoder.unit_columns, *cluster, *beside, *encoder.columns[1:])


def _unspelled(encoder: Encoder) -> list[str]:
    """Return the numeric columns without a declared format."""
    numeric = encoder.features.numeric
    return [name for name, rules in numeric.items() if rules.format is None]


def _with_ids(batch: Any, encoder: Encoder, start: int, problems: Problems) -> Any:
    """Join the id columns into one if there are several."""
    if len(encoder.unit_columns) == 1:
        return batch
    ids, wrong = read_ids(batch, encoder.unit_columns)
    for row, (column, reason) in wrong.items():
        problems.add(start, column, {row: reason})
    columns = [*batch.columns, ids]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, encoder.unit])


def _with_clusters(
    given: pa.Table, batch: Any, encoder: Encoder, start: int, problems: Problems
) -> pa.Table:
    """Store each unit's cluster next to the model's inputs."""
    if encoder.cluster is None:
        return given
    clusters, wrong = texts(batch.column(encoder.cluster))
    problems.add(start, encoder.cluster, wrong)
    return given.append_column(encoder.cluster, clusters)


def _with_beside(
    given: pa.Table, batch: Any, encoder: Encoder, start: int, problems: Problems
) -> pa.Table:
    """Store the columns of rules and strata, and refuse units that may get no action."""
    before = len(problems.found)
    for column in encoder.beside:
        kept, wrong = column.read(batch.column(column.name))
        problems.add(start, column.name, wrong)
        given = given.append_column(column.name, kept)
    if encoder.eligibility is not None and len(problems.found) == before:
        problems.add(start, encoder.unit, encoder.eligibility.nothing(given))
    return given


def _refuse_without(needed: Sequence[str], given: pa.Table, start: int, problems: Problems) -> None:
    """Refuse units without a value in a column that every unit needs."""
    told = {(each.row, each.column) for each in problems.found}
    for column in needed:
        missing = np.flatnonzero(np.asarray(given.column(column).is_null()))
        new = [row for row in missing.tolist() if (start + row + 1, column) not in told]
        problems.add(start, column, dict.fromkeys(new, NO_STRATUM))


def _refuse_unfit_ids(
    column: Any, ids: pa.Array, start: int, unit: str, problems: Problems
) -> None:
    """Refuse ids that some stores cannot keep."""
    nul = Reason("must not hold a NUL character", code="nul-character")
    problems.add(start, unit, dict.fromkeys(with_nul(ids), nul))
    lengths = text_bytes(column)
    rule = f"must have at most {LONGEST_ID:,} bytes"
    too_long = np.flatnonzero(lengths > LONGEST_ID).tolist()
    reasons = {row: Reason(rule, f"; received {lengths[row]:,}", "too-long") for row in too_long}
    problems.add(start, unit, dict(reasons))


def _doubted_totals(
    odd: OddRows | None, units: CheckedUnits, sums: tuple[str, ...]
) -> tuple[Doubt, ...]:
    """Return a doubt about a last row that may hold totals."""
    if odd is None or not sums:
        return ()
    column = units._encoder.unit
    unit = python_value(odd.last.column(column)[0])
    said = doubt(str(unit), units.place(odd.rows), sums)
    return (Doubt("totals", (said,), column=column, rows=1, examples=(str(unit),)),) if said else ()


def _refuse(source: Source, problems: Problems, *, empty: bool) -> None:
    """Raise all problems of a file at once, with the positions of their rows."""
    found = [*source.placed(problems.found), *source.ragged]
    if empty and not found:
        found.append(NO_ROWS)
    if found:
        raise source.invalid(sorted(found), NOTHING)
