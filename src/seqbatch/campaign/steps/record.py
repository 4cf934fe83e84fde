"""Record outcomes from a file: give every row a verdict, and store all except duplicates."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa

from seqbatch.campaign.decide import row_verdicts
from seqbatch.campaign.decide.erased_units import ErasedUnits
from seqbatch.campaign.decide.outcome_columns import NOTHING, OutcomeColumns
from seqbatch.campaign.decide.repeated_rows import EqualRows
from seqbatch.campaign.decide.row_verdicts import (
    COUNTS,
    SAME,
    TAKEN,
    UNFIT,
    FileSoFar,
    Judged,
    KnownOutcomes,
    SecondRow,
)
from seqbatch.campaign.files.column_values import decoded
from seqbatch.campaign.files.doubts import UnclearDots
from seqbatch.campaign.files.number_format import PLAIN, THOUSANDS
from seqbatch.campaign.files.parallel_pieces import ahead, over
from seqbatch.campaign.files.reader_process import packed
from seqbatch.campaign.files.reading import CHUNK, NO_ROWS, Source
from seqbatch.campaign.files.units import SMALL
from seqbatch.campaign.record.events import Logbook, current, sealed
from seqbatch.campaign.record.logged_rows import KEY, time_columns
from seqbatch.campaign.record.outcomes import (
    ACCEPTED,
    CONFLICT,
    DUPLICATE,
    OUTSIDE,
    QUARANTINED,
    VERDICTS,
    part_name,
)
from seqbatch.campaign.record.store import Change, OutcomeChunk, Store
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.steps.misspelled_numbers import (
    DECLARE,
    Misspelled,
    declared_formats,
    other_formats,
    respelling,
)
from seqbatch.campaign.steps.recorded import Recorded, rows_text
from seqbatch.campaign.steps.row_log import Combined, RowLog, SameFileError, UnfitUnitsError
from seqbatch.campaign.steps.several_rows import equal_rows_refused, several_rows_refused
from seqbatch.campaign.steps.unknown_ids import MatchedIds, UnknownIds
from seqbatch.core import arguments
from seqbatch.core.arrays import Floats, Integers, Places
from seqbatch.errors import (
    CampaignStateError,
    Doubt,
    InvalidArgumentError,
    InvalidFileError,
)
from seqbatch.timed_steps import timed

# ----------------------------------------------------------------------
# The stored rows of an outcome file, as a table.


@dataclass(frozen=True)
class KeptRows:
    """The rows of a piece to store: all except duplicates.

    Parameters
    ----------
    judged, cells
        All rows with their verdicts, and their cells.
    kept, lines
        The positions of the rows to store, and the line numbers of all rows.
    chunk
        The number of their chunk.
    """

    judged: Judged
    cells: Floats
    kept: Places
    lines: Integers
    chunk: int

    def table(self) -> pa.Table:
        """Return the rows as the table to store."""
        judged, kept = self.judged, self.kept
        whole = len(kept) == len(self.lines)
        columns = {
            "line": self.lines[kept],
            "unit": judged.units if whole else judged.units.take(kept),
            "number": judged.numbers[kept],
            "version": judged.versions[kept].astype(np.int32),
            "verdict": judged.verdicts[kept].astype(np.int8),
            "reason": self._reasons(),
            **cell_columns(self.cells[kept]),
        }
        if judged.keys is not None and judged.logged is not None:
            columns[KEY] = judged.keys if whole else judged.keys.take(kept)
            columns |= time_columns(judged.logged[kept])
        return pa.table(columns)

    def _reasons(self) -> pa.Array:
        said = self.judged.reasons
        if not said:
            return no_reasons(len(self.kept))
        reasons = [said.get(row, "") for row in self.kept.tolist()]
        return pa.array(reasons, type=pa.string()).dictionary_encode()


def cell_columns(cells: Floats) -> dict[str, Any]:
    """Return the columns of cells in a recorded chunk."""
    # Floating point has two zeros, which would hash differently.
    parts = {part_name(place): part + 0.0 for place, part in enumerate(cells[:, 1:].T)}
    return {"value": cells[:, 0] + 0.0, **parts}


def no_reasons(count: int) -> pa.Array:
    """Return the column of reasons of rows that are not held."""
    return pa.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int32), pa.array([""]))


# ----------------------------------------------------------------------
# Read the file before the transaction.


class OutcomeRows:
    """The rows of an outcome file, read before the transaction, in which others must wait.

    Parameters
    ----------
    source, spec
        The file, and the spec of the campaign.
    spool
        A temporary file for the rows; None to read a table in memory again.
    """

    def __init__(self, source: Source, spec: Spec, spool: IO[bytes] | None) -> None:
        self.source = source
        self.columns = OutcomeColumns.of(spec, source)
        self._keep_one(spec)
        self._spool, self._end = spool, 0
        self._metrics = spec.metrics
        formats = declared_formats(self.columns)
        plain = tuple(column for column, example in formats.items() if example is None)
        self._unclear = UnclearDots(source, plain)

    def _keep_one(self, spec: Spec) -> None:
        """Refuse ids that Excel has changed, and read one row of each id if that was asked for."""
        row_id = self.columns.row_id
        ids = (*spec.unit, *([row_id] if row_id else []))
        if changed := self.source.changed_ids(ids):
            raise self.source.invalid(changed, NOTHING)
        if self.source.dedupe is not None and self.columns.logged and row_id is None:
            combined = ", ".join(one.name for one in self.columns.metrics if one.logged)
            raise InvalidArgumentError(
                "dedupe", f"left out: {combined} counts all rows of a unit", self.source.dedupe,
                "To count a row that was delivered twice once, declare row_id.",
            )  # fmt: skip
        self.source.keep_one(ids)

    def read(self, report: Callable[[int], None]) -> None:
        """Read the file once, and refuse values of a wrong type."""
        row = 0
        with closing(ahead(self.source.batches(self.columns.read))) as batches:
            for batch in batches:
                self.columns.require_numbers(batch, self.source)
                self._unclear.look(batch, row)
                row += batch.num_rows
                if self._spool is not None:
                    self._spool.write(packed(batch))
                    self._end = self._spool.tell()
                report(row)
        self.source.require_unchanged()
        self._refuse_unclear()

    def require_fit(self, spec: Spec) -> None:
        """Refuse to go on if the campaign's metrics were amended while the file was read."""
        if self._metrics != spec.metrics:
            raise CampaignStateError(
                f"campaign {spec.name} was amended while {self.source.name} was read. Nothing was "
                "recorded; try again.",
                code="amended-meanwhile",
            )

    def pieces(self) -> Iterator[tuple[Any, Integers]]:
        """Yield the pieces of the file, with the line numbers of their rows."""
        row = 0
        for batch in self._batches():
            yield batch, self.source.lines(np.arange(row + 1, row + 1 + batch.num_rows))
            row += batch.num_rows

    def _batches(self) -> Iterator[Any]:
        if self._spool is None:
            yield from self.source.batches(self.columns.read)
            return
        self._spool.seek(0)
        while self._spool.tell() < self._end:
            yield from pa.ipc.open_stream(self._spool)

    def _refuse_unclear(self) -> None:
        """Refuse a file with ambiguous numbers (1.234 may mean 1234)."""
        if found := self._unclear.problems(DECLARE):
            columns = dict.fromkeys(each.column for each in found)
            ways = [
                respelling(self.columns, each, way)
                for each in columns
                for way in (PLAIN, THOUSANDS)
            ]
            raise self.source.invalid(self.source.placed(found), NOTHING, remedies=ways)


@contextmanager
def read_outcomes(
    source: Source, spec: Spec, report: Callable[[int], None]
) -> Iterator[OutcomeRows]:
    """Read a file of outcomes, and store it temporarily unless it is in memory already."""
    with ExitStack() as stack:
        spool = None
        if source.file_format != "table":
            # An unnamed file, which no other process can write to.
            spool = stack.enter_context(tempfile.SpooledTemporaryFile(max_size=SMALL))
        rows = OutcomeRows(source, spec, cast("IO[bytes] | None", spool))
        rows.read(report)
        yield rows


# ----------------------------------------------------------------------
# Record the rows.


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a call of record asks for.

    Parameters
    ----------
    correct, why
        Whether a new value replaces the known one, and the reason.
    equal_rows
        What equal rows without ids mean; None to be asked.
    match_ids
        Whether unknown ids are matched to the units whose ids they may be, changed.
    file
        The file as the user named it.
    unfit
        Units whose rows must be held, with the reason.
    again
        Whether the file was recorded before.
    """

    correct: bool
    why: str
    equal_rows: EqualRows | None
    match_ids: bool
    file: str
    unfit: dict[int, str] = field(default_factory=dict)
    again: bool = False


class Recording:
    """One call of record within its transaction."""

    SHOWN = 20

    def __init__(self, change: Change, logbook: Logbook, rows: OutcomeRows, asked: Asked) -> None:
        self._change = change
        self._logbook = logbook
        self._rows, self._columns, self._asked = rows, rows.columns, asked
        self._now = current(change)
        self._now.require_rows()
        rows.require_fit(self._now.spec)
        _, self._chunk = change.next_chunks()
        self._log = self._row_log() if self._columns.logged else None
        self._counts: Counter[str] = Counter()
        self._late = self._corrected = self._repeats = self._repeated = self._observed = 0
        self._units = 0
        self._hashes: list[str] = []
        self._held: list[tuple[int, str, str, str]] = []
        self._kinds: Counter[tuple[str, str]] = Counter()
        self._seconds: list[SecondRow] = []
        self._misspelled = Misspelled()
        self._unknown = UnknownIds()
        self._known_erased = ErasedUnits.of(change, self._now)
        self._erased = 0
        self._matched = MatchedIds(change)
        self._file = FileSoFar(self._now.assigned, len(self._now.spec.metrics))

    def _row_log(self) -> RowLog:
        equal = "drop" if self._asked.again else self._asked.equal_rows
        return RowLog(
            self._change, self._now, self._columns,
            correct=self._asked.correct, equal_rows=equal, unfit=self._asked.unfit,
        )  # fmt: skip

    def run(self, report: Callable[[int], None]) -> Recorded:
        """Give every row of a file its verdict, and store all rows except duplicates."""
        source, row = self._rows.source, 0
        # Many threads read and pack the rows; a single thread gives the verdicts, in file order.
        pieces = ahead(self._rows.pieces())
        read = over(self._readable, pieces)
        judged = (self._judged(*each) for each in read)
        with closing(pieces), closing(read), closing(over(self._kept, judged)) as kept:
            for made, chunk in kept:
                self._add(chunk)
                row += made
                report(row)
        # The rows are those that were read. If the file has changed since, the user meant others.
        source.require_unchanged()
        if source.ragged:
            self._keep_ragged(source)
            row += len(source.ragged)
        if not row and not self._erased:
            raise InvalidFileError(source.name, [NO_ROWS], NOTHING)
        self._refuse_unsaid()
        if self._log is not None:
            self._combine(self._log)
        return self._result(row)

    def _result(self, row: int) -> Recorded:
        names = (ACCEPTED, DUPLICATE, CONFLICT, QUARANTINED, OUTSIDE)
        counts = {verdict: self._counts[verdict] for verdict in names}
        event = self._finish(row, counts)
        formats = self._misspelled.formats(self._columns, row)
        made = Recorded(
            rows=row,
            accepted=counts[ACCEPTED],
            duplicate=counts[DUPLICATE],
            conflict=counts[CONFLICT],
            quarantined=counts[QUARANTINED],
            outside=counts[OUTSIDE],
            windows={} if self._log is None else self._log.windows,
            unknown=self._unknown.rows,
            matched=self._matched.rows,
            units=self._units,
            late=self._late,
            corrected=self._corrected,
            repeats=self._repeats,
            repeated=self._repeated,
            erased=self._erased,
            metrics=tuple(metric.name for metric in self._columns.metrics),
            held=tuple(self._held),
            reasons=self._reasons(),
            event=event,
            read_as=self._rows.source.read_as,
            doubts=self._doubts(row, formats),
            formats=formats,
        )
        return replace(made, remarks=tuple(rows_text(made, self._now.spec)))

    def _doubts(self, rows: int, formats: Mapping[str, tuple[str, ...]]) -> tuple[Doubt, ...]:
        partly = self._misspelled.partly(formats)
        changed = self._unknown.doubts(self._change, rows)
        elsewhere = self._columns.untouched(self._now.spec, self._rows.source)
        return (*changed, *other_formats(self._columns, formats, partly), *elsewhere)

    def _readable(self, piece: tuple[Any, Integers]) -> tuple[tuple[Any, Integers], Judged, int]:
        """Read a piece without the rows of erased units; return how many these were, too."""
        judged = row_verdicts.readable(self._now.spec, self._columns, piece[0])
        erased = self._known_erased.among(judged.units)
        if not erased.any():
            return piece, judged, 0
        # Arrow takes no rows of text views.
        kept = decoded(pa.Table.from_batches([piece[0]])).filter(pa.array(~erased))
        columns = [column.combine_chunks() for column in kept.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=kept.schema)
        judged = row_verdicts.readable(self._now.spec, self._columns, batch)
        return (batch, piece[1][~erased]), judged, int(erased.sum())

    def _judged(self, piece: tuple[Any, Integers], judged: Judged, erased: int) -> KeptRows:
        """Give the rows of a piece their verdicts, and count them; return the rows to store."""
        batch, lines = piece
        self._erased += erased
        self._judge(judged, batch, lines)
        verdicts = judged.verdicts
        for code, name in enumerate(VERDICTS):
            self._counts[name] += int((verdicts == code).sum())
        earlier = self._now.waves_of(judged.numbers) < self._now.wave
        self._repeats += int(((verdicts == SAME) & earlier).sum())
        self._repeated += judged.repeated
        self._corrected += judged.corrected
        self._misspelled.look(self._columns, batch, judged)
        made = self._made(judged, lines)
        if len(made.kept):
            self._chunk += 1
            self._note_held(made)
        return made

    def _judge(self, judged: Judged, batch: Any, lines: Integers) -> None:
        spec = self._now.spec
        numbers = self._change.numbers(judged.units)
        if self._asked.match_ids:
            judged.units, numbers = self._matched.matched(judged.units, numbers)
        self._unknown.add(judged.units.filter(pa.array(numbers < 0)))
        waves = self._now.waves_of(np.maximum(numbers, 0))
        row_verdicts.plausible(spec, self._columns, judged, batch, numbers, waves)
        if self._log is not None:
            self._log.judge(judged, lines)
            return
        asked = judged.numbers[judged.candidates]
        known = KnownOutcomes.of(spec, self._change.outcomes(asked, parts=len(spec.parts)))
        row_verdicts.compared(
            spec, judged, known, self._file, correct=self._asked.correct,
            lines=lines[judged.candidates],
        )  # fmt: skip
        self._seconds += judged.seconds

    def _made(self, judged: Judged, lines: Integers) -> KeptRows:
        """Return the rows of a piece to store; index those that are outcomes."""
        spec = self._now.spec
        kept = np.flatnonzero(judged.verdicts != SAME)
        if judged.logged is not None:
            return KeptRows(judged, judged.logged[:, :-2], kept, lines, self._chunk)
        cells = judged.cells(spec)
        taken = np.flatnonzero(judged.verdicts == TAKEN)
        self._index(
            judged.numbers[taken], judged.versions[taken], cells[taken], judged.counted[taken]
        )
        return KeptRows(judged, cells, kept, lines, self._chunk)

    def _index(self, numbers: Integers, versions: Integers, cells: Floats, counted: Any) -> None:
        """Index outcomes, and count their units."""
        self._change.index_outcomes(self._now.sequence + 1, numbers, versions, cells)
        earlier = self._now.waves_of(numbers) < self._now.wave
        self._late += int(earlier.sum())
        self._units += len(numbers)
        fresh = ~counted & ~earlier & ~np.isnan(cells[:, 0])
        # A file may have several rows of a unit, each with other metrics.
        # A unit may be there twice. Sorting is faster than NumPy's hash table.
        ordered = np.sort(numbers[fresh])
        self._observed += int(np.count_nonzero(np.diff(ordered, prepend=-1)))

    def _note_held(self, made: KeptRows) -> None:
        """Note why rows are held."""
        judged = made.judged
        self._kinds.update(
            (VERDICTS[judged.verdicts[row]], kind) for row, kind in judged.kinds.items()
        )
        for row in sorted(judged.reasons)[: max(self.SHOWN - len(self._held), 0)]:
            unit, verdict = judged.units[row].as_py(), VERDICTS[judged.verdicts[row]]
            self._held.append((int(made.lines[row]), unit, verdict, judged.reasons[row]))

    def _kept(self, made: KeptRows) -> tuple[int, OutcomeChunk | None]:
        """Pack the rows of a piece; return how many were read, and the chunk."""
        chunk = self._chunk_of(made.table(), made.chunk) if len(made.kept) else None
        return len(made.lines), chunk

    def _keep_ragged(self, source: Source) -> None:
        """Store CSV rows whose number of cells differs from the header's, as quarantined."""
        count = len(source.ragged)
        self._counts[QUARANTINED] += count
        lines = np.array([each.row for each in source.ragged], dtype=np.int64)
        reasons = [each.reason for each in source.ragged]
        shown = zip(lines.tolist(), reasons[: self.SHOWN], strict=False)
        self._held.extend((line, "", QUARANTINED, reason) for line, reason in shown)
        self._kinds[QUARANTINED, "the row is not as long as the header"] += count
        none = np.zeros(count, dtype=np.int64)
        columns: dict[str, Any] = {
            "line": lines, "unit": [""] * count, "number": none - 1,
            "value": np.full(count, np.nan), "version": none.astype(np.int32),
            "verdict": np.full(count, UNFIT, dtype=np.int8),
            "reason": pa.array(reasons).dictionary_encode(),
        }  # fmt: skip
        self._add(self._chunk_of(pa.table(columns), self._chunk))
        self._chunk += 1

    def _refuse_unsaid(self) -> None:
        """Refuse a file if only the user knows what several rows of a unit, or equal rows, mean."""
        source, spec = self._rows.source, self._now.spec
        log = self._log
        if seconds := self._seconds if log is None else log.seconds():
            raise several_rows_refused(source, spec, seconds)
        if log is None or not self._columns.asks:
            return
        equal = log.equal.in_file + log.equal.in_record
        if self._asked.equal_rows is None and equal:
            raise equal_rows_refused(source, self._columns, log.equal)
        if self._asked.equal_rows == "keep" and not self._asked.again and self._delivered(log):
            raise SameFileError

    def _delivered(self, log: RowLog) -> bool:
        """Return whether a file with exactly these rows was recorded before."""
        past = (event.payload.get("delivery") for event in self._change.events())
        return log.count > 0 and log.delivery in past

    def _combine(self, log: RowLog) -> None:
        """Store the outcomes that follow from the logged rows."""
        made = log.combined()
        self._counts[ACCEPTED] += self._counts[VERDICTS[COUNTS]]
        self._corrected += log.corrected
        self._index(made.numbers, made.versions, made.cells, ~made.fresh)
        for start in range(0, len(made), CHUNK):
            self._add(self._chunk_of(_outcomes(made, slice(start, start + CHUNK)), self._chunk))
            self._chunk += 1

    def _reasons(self) -> tuple[tuple[str, str, int], ...]:
        return tuple((verdict, why, count) for (verdict, why), count in self._kinds.most_common())

    def _chunk_of(self, table: pa.Table, number: int) -> OutcomeChunk:
        place = {"event": self._now.sequence + 1, "chunk": number}
        rows = self._change.kept(table, kind="outcomes", **place)
        chunk = OutcomeChunk(**place, count=table.num_rows, rows=rows, hash="")
        return sealed(self._change.name, chunk)

    def _add(self, chunk: OutcomeChunk | None) -> None:
        if chunk is not None:
            self._change.add_outcomes(chunk)
            self._hashes.append(chunk.hash)

    def _finish(self, rows: int, counts: dict[str, int]) -> int | None:
        if counts[DUPLICATE] == rows:
            return None
        asked, log, logged = self._asked, self._log, {}
        matched = {"matched": self._matched.rows} if asked.match_ids else {}
        if log is None:
            counts = {name: count for name, count in counts.items() if name != OUTSIDE}
        else:
            counts = {**counts, "units": self._units}
            logged = {
                "logged": log.count, "equal_rows": asked.equal_rows, "delivery": log.delivery,
                "windows": {within: list(counts) for within, counts in log.windows.items()},
            }  # fmt: skip
        event = self._logbook.write(
            self._change,
            self._now,
            kind="record",
            why=asked.why,
            counts={"rows": rows, **counts, "late": self._late, "corrected": self._corrected},
            payload={
                **({"file": asked.file} if asked.file else {}),
                "correct": asked.correct,
                "observed": self._observed,
                "unknown": self._unknown.rows,
                "chunks": len(self._hashes),
                "reasons": [list(reason) for reason in self._reasons()],
                **self._rows.source.left_out,
                **logged,
                **matched,
            },
            rows=self._hashes,
        )
        return event.sequence


def _outcomes(made: Combined, some: slice) -> pa.Table:
    """Return the table to store of some combined outcomes, which are no lines of the file."""
    numbers = made.numbers[some]
    count = len(numbers)
    return pa.table(
        {
            "line": np.zeros(count, dtype=np.int64),
            "unit": made.units[some],
            "number": numbers,
            "version": made.versions[some].astype(np.int32),
            "verdict": np.full(count, TAKEN, dtype=np.int8),
            "reason": no_reasons(count),
            **cell_columns(made.cells[some]),
        }
    )


class _DryRunError(Exception):
    """Rolls back the transaction of a dry run, and carries its result."""

    def __init__(self, result: Recorded) -> None:
        super().__init__()
        self.result = result


def record(
    store: Store,
    name: str,
    logbook: Logbook,
    outcomes: Source,
    *,
    correct: bool,
    why: str,
    report: Callable[[str, int], None],
    equal_rows: EqualRows | None = None,
    match_ids: bool = False,
    dry_run: bool = False,
) -> Recorded:
    """Record a file of outcomes in one transaction; a dry run stores nothing."""
    if correct and not why.strip():
        raise InvalidArgumentError("reason", "given with a correction", repr(why))
    if equal_rows is not None:
        arguments.choice("equal_rows", equal_rows, ("keep", "drop"))
    asked = Asked(
        correct=correct, why=why, equal_rows=equal_rows, match_ids=match_ids, file=outcomes.file
    )
    with outcomes, ExitStack() as stack:
        with store.read(name) as reader:
            now = current(reader)
        now.require_rows()
        checking = partial(report, "checking")
        with timed("check the outcomes"):
            rows = stack.enter_context(read_outcomes(outcomes, now.spec, checking))
        recording = partial(report, "recording")
        while True:
            try:
                return _recorded(store, name, logbook, rows, asked, recording, dry_run=dry_run)
            except _DryRunError as done:
                return done.result
            except UnfitUnitsError as found:
                asked = replace(asked, unfit={**asked.unfit, **found.reasons})
            except SameFileError:
                asked = replace(asked, again=True)


def _recorded(
    store: Store,
    name: str,
    logbook: Logbook,
    rows: OutcomeRows,
    asked: Asked,
    report: Callable[[int], None],
    *,
    dry_run: bool,
) -> Recorded:
    with store.change(name) as change:
        with timed("record"):
            result = Recording(change, logbook, rows, asked).run(report)
        if dry_run:
            raise _DryRunError(replace(result, event=None))
        return result
