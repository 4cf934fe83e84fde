"""Record outcomes from a file: give every row a verdict, and store all except duplicates."""

import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa

from seqbatch.campaign.decide import row_verdicts
from seqbatch.campaign.decide.row_verdicts import SAME, TAKEN, UNFIT, WAVE, Judged
from seqbatch.campaign.files.column_values import python_value
from seqbatch.campaign.files.doubts import UnclearDots
from seqbatch.campaign.files.number_format import (
    PLAIN,
    THOUSANDS,
    formats_for_most,
    holds_numbers,
    most_read,
)
from seqbatch.campaign.files.parallel_pieces import ahead, over
from seqbatch.campaign.files.reader_process import packed
from seqbatch.campaign.files.reading import NO_ROWS, Source, no_such_column
from seqbatch.campaign.files.units import SMALL
from seqbatch.campaign.record.events import Logbook, current, sealed
from seqbatch.campaign.record.outcomes import DUPLICATE, QUARANTINED, VERDICTS, part_name
from seqbatch.campaign.record.store import Change, OutcomeChunk, Store
from seqbatch.campaign.spec.metrics import YES_NO, Metric
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.steps.unknown_ids import UnknownIds
from seqbatch.core.arrays import Integers, Places
from seqbatch.errors import (
    CampaignStateError,
    Doubt,
    InvalidArgumentError,
    InvalidFileError,
    Part,
    Remedy,
    RowProblem,
    Words,
    in_python,
)

# ----------------------------------------------------------------------
# The stored rows of an outcome file, as a table.


@dataclass(frozen=True)
class KeptRows:
    """The rows of a piece to store: all except duplicates.

    Parameters
    ----------
    judged
        All rows, with their verdicts.
    kept, lines
        The positions of the rows to store, and the line numbers of all rows.
    chunk
        The number of their chunk.
    """

    judged: Judged
    kept: Places
    lines: Integers
    chunk: int

    def table(self) -> pa.Table:
        """Return the rows as the table to store."""
        judged, kept = self.judged, self.kept
        whole = len(kept) == len(self.lines)
        columns: dict[str, Any] = {
            "line": self.lines[kept],
            "unit": judged.units if whole else judged.units.take(kept),
            "number": judged.numbers[kept],
            # Floating point has two zeros, which would hash differently.
            "value": judged.values[kept] + 0.0,
            "version": judged.versions[kept].astype(np.int32),
            "verdict": judged.verdicts[kept].astype(np.int8),
            "reason": self._reasons(),
        }
        for place in range(judged.cells.shape[1] - 1):
            columns[part_name(place)] = judged.cells[kept, 1 + place] + 0.0
        if judged.ids is not None:
            columns["outcome"] = [judged.ids[row] for row in kept]
        return pa.table(columns)

    def _reasons(self) -> pa.Array:
        said = self.judged.reasons
        if not said:
            places = np.zeros(len(self.kept), dtype=np.int32)
            return pa.DictionaryArray.from_arrays(places, pa.array([""]))
        reasons = [said.get(row, "") for row in self.kept.tolist()]
        return pa.array(reasons, type=pa.string()).dictionary_encode()


# ----------------------------------------------------------------------
# Outcomes in another number format than the spec declares, and amendments that accept them.


#: How many cells of a column to examine.
FEW = 50
#: Advice for ambiguous numbers.
DECLARE = (
    "declare its format, by an amendment or in the spec before you create the campaign, or "
    "write the numbers without thousands separators and with two decimals"
)


class Misspelled:
    """Collects held cells that are not valid numbers, and the formats that would accept them."""

    def __init__(self) -> None:
        self._cells: dict[str, list[str]] = {}
        self._held: Counter[str] = Counter()

    def look(self, spec: Spec, batch: Any, judged: Judged) -> None:
        """Collect the invalid cells of a piece after its rows got their verdicts."""
        for column in _formats(spec):
            said = self._cells.setdefault(column, [])
            rows = [row for row, unread in judged.unread.items() if unread == column]
            self._held[column] += len(rows)
            for row in rows[: FEW - len(said)]:
                said.append(str(python_value(batch.column(column)[row])))

    def formats(self, spec: Spec, rows: int) -> dict[str, tuple[str, ...]]:
        """Return the formats that accept the held cells, by column.

        `rows` is the number of rows in the file.
        """
        declared, found = _formats(spec), {}
        for column, cells in self._cells.items():
            common = formats_for_most(cells, declared[column])
            # A few cells in another format are typing errors; the declared format fits the rest.
            if self._held[column] > rows / 2:
                common = max(
                    common, formats_for_most(cells), key=lambda some: most_read(some, cells)
                )
            found[column] = tuple(example for example in common if '"' not in example)
        return {column: examples for column, examples in found.items() if examples}

    def partly(self, formats: Mapping[str, tuple[str, ...]]) -> set[str]:
        """Return the columns in which every one of these formats still leaves some cells held."""
        found = set()
        for column, examples in formats.items():
            cells = self._cells[column]
            if most_read(examples, cells) < len(cells):
                found.add(column)
        return found


def other_formats(
    spec: Spec, formats: Mapping[str, tuple[str, ...]], partly: Container[str]
) -> Iterator[Doubt]:
    """Yield a doubt for each column that other formats would accept, with the amendments.

    Parameters
    ----------
    spec
        The campaign's spec.
    formats
        The formats by column.
    partly
        The columns in which they accept only some of the held cells.
    """
    for column, examples in formats.items():
        what = f"A part of {column}" if column in partly else column
        parts: list[Part] = []
        for example in examples:
            parts.append(" or" if parts else f"{what} can be read after")
            parts.append(respelling(spec, column, example))
        parts.append("; then record it again.")
        yield Doubt("other-format", tuple(parts), column=column, examples=examples)


def unspelled_columns(spec: Spec) -> tuple[str, ...]:
    """Return the number columns of an outcome file without a declared format."""
    return tuple(column for column, example in _formats(spec).items() if example is None)


def _formats(spec: Spec) -> dict[str, str | None]:
    """Return the number columns of an outcome file, with their declared formats."""
    return {metric.column: metric.format for metric in numbers_of(spec)}


def respelling(spec: Spec, column: str, example: str) -> Remedy:
    """Return the amendment that declares a column's format."""
    [name, *_] = (metric.name for metric in numbers_of(spec) if metric.column == column)
    return Remedy("amend", metrics={name: {"format": example}}, reason=...)


# ----------------------------------------------------------------------
# Record the outcomes of a file.


NOTHING = "nothing was recorded"
#: The columns that assign writes, except those with the probability of each action.
ANSWERS = ("action", "wave", "score", "probability", "randomised")
#: The keys of a held row, and of a reason. They do not depend on the spec's id column, so one
#: client and one HTTP schema can read the rows of every campaign.
HELD, REASON = ("line", "unit", "verdict", "reason"), ("verdict", "reason", "rows")


@dataclass(frozen=True)
class Recorded:
    """The result of a call of record.

    Parameters
    ----------
    rows
        Rows read; the sum of the next four counts.
    accepted, duplicate, conflict, quarantined
        Rows by verdict; see :mod:`seqbatch.campaign.decide.row_verdicts`.
    late
        Accepted outcomes of closed waves; they enter the next estimate.
    corrected
        Accepted outcomes that replace an earlier one.
    repeats
        Duplicates of outcomes of closed waves.
    held
        The first conflicts and quarantined rows: line, unit, verdict, reason.
    reasons
        Why all held rows were held: verdict, reason and number of rows, most frequent first.
    event
        The number of the event; None if all rows were duplicates, and for a dry run.
    read_as
        How a CSV file was read, if its format is unusual.
    doubts
        Likely causes of held rows, and what to do about them.
    formats
        Formats that would accept held numbers, by column.
    """

    rows: int
    accepted: int
    duplicate: int
    conflict: int
    quarantined: int
    late: int
    corrected: int
    repeats: int
    held: tuple[tuple[int, str, str, str], ...]
    reasons: tuple[tuple[str, str, int], ...]
    event: int | None
    read_as: str = ""
    doubts: tuple[Doubt, ...] = ()
    formats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def advice(self) -> tuple[str, ...]:
        """The doubts in words."""
        return tuple(self.advised())

    def advised(self, words: Words = in_python) -> list[str]:
        """Return the doubts in words, with remedies written for the given interface."""
        return [doubt.text(words) for doubt in self.doubts]

    def plain(self) -> dict[str, Any]:
        """Return everything as plain values for JSON, held rows and reasons by name."""
        return {
            **{name: own for name, own in vars(self).items() if name != "doubts"},
            "advice": self.advised(),
            "held": [dict(zip(HELD, row, strict=True)) for row in self.held],
            "reasons": [dict(zip(REASON, row, strict=True)) for row in self.reasons],
        }


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
        self._spool = spool
        self._columns = check_columns(spec, source)
        ids = (*spec.unit, *([spec.row_id] if spec.row_id else []))
        if changed := source.changed_ids(ids):
            raise source.invalid(changed, NOTHING)
        source.keep_one(ids)
        self._read_as = spec.unit, spec.row_id, _formats(spec)
        self._unclear = UnclearDots(source, unspelled_columns(spec))

    def read(self, spec: Spec, report: Callable[[int], None]) -> None:
        """Read the file once, and refuse values of a wrong type."""
        row = 0
        with closing(ahead(self.source.batches(self._columns))) as batches:
            for batch in batches:
                _require_numbers(spec, batch, self.source)
                self._unclear.look(batch, row)
                row += batch.num_rows
                if self._spool is not None:
                    self._spool.write(packed(batch))
                report(row)
        self.source.require_unchanged()
        self._refuse_unclear(spec)

    def require_fit(self, spec: Spec) -> None:
        """Refuse to go on if the campaign's formats were amended while the file was read."""
        if self._read_as != (spec.unit, spec.row_id, _formats(spec)):
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
            yield from self.source.batches(self._columns)
            return
        end = self._spool.tell()
        self._spool.seek(0)
        while self._spool.tell() < end:
            yield from pa.ipc.open_stream(self._spool)

    def _refuse_unclear(self, spec: Spec) -> None:
        """Refuse a file with ambiguous numbers (1.234 may mean 1234)."""
        if found := self._unclear.problems(DECLARE):
            columns = dict.fromkeys(each.column for each in found)
            ways = [respelling(spec, each, way) for each in columns for way in (PLAIN, THOUSANDS)]
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
        rows.read(spec, report)
        yield rows


def _require_numbers(spec: Spec, batch: Any, source: Source) -> None:
    """Refuse a file whose values are of a type that holds no numbers, such as dates."""
    for name in (*number_columns(spec), *([WAVE] if row_verdicts.names_wave(spec) else [])):
        if name in batch.schema.names:
            kind = batch.column(name).type
            # An empty column has only missing values, and each row is held separately.
            if not (holds_numbers(kind) or pa.types.is_null(kind)):
                problem = RowProblem(0, name, f"must be numbers; received {kind}", "wrong-type")
                raise InvalidFileError(source.name, [problem], NOTHING)


class Recording:
    """One call of record within its transaction."""

    SHOWN = 20

    def __init__(self, change: Change, logbook: Logbook, *, correct: bool, file: str) -> None:
        self._change = change
        self._logbook = logbook
        self._correct = correct
        self._file = file
        self._now = current(change)
        self._now.require_rows()
        _, self._chunk = change.next_chunks()
        self._counts: Counter[str] = Counter()
        self._late = self._corrected = self._repeats = self._observed = 0
        self._hashes: list[str] = []
        self._held: list[tuple[int, str, str, str]] = []
        self._kinds: Counter[tuple[str, str]] = Counter()
        self._misspelled = Misspelled()
        self._unknown = UnknownIds()
        # The line of each unit's outcome in the file, 0 if it has none; zeros take no memory.
        self._standing = np.zeros(self._now.assigned, dtype=np.int64)

    def run(self, rows: OutcomeRows, *, why: str, report: Callable[[int], None]) -> Recorded:
        """Give every row of a file its verdict, and store all rows except duplicates."""
        rows.require_fit(self._now.spec)
        source, row = rows.source, 0
        # Many threads read and pack the rows; a single thread gives the verdicts, in file order.
        pieces = ahead(rows.pieces())
        read = over(self._readable, pieces)
        judged = (self._judged(piece, found, source.place) for piece, found in read)
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
        if not row:
            raise InvalidFileError(source.name, [NO_ROWS], NOTHING)
        counts = {verdict: self._counts[verdict] for verdict in VERDICTS}
        event = self._finish(row, counts, why)
        formats = self._misspelled.formats(self._now.spec, row)
        return Recorded(
            rows=row,
            **counts,
            late=self._late,
            corrected=self._corrected,
            repeats=self._repeats,
            held=tuple(self._held),
            reasons=self._reasons(),
            event=event,
            read_as=source.read_as,
            doubts=self._doubts(row, formats),
            formats=formats,
        )

    def _doubts(self, rows: int, formats: Mapping[str, tuple[str, ...]]) -> tuple[Doubt, ...]:
        partly = self._misspelled.partly(formats)
        changed = self._unknown.doubts(self._change, rows)
        return (*changed, *other_formats(self._now.spec, formats, partly))

    def _readable(self, piece: tuple[Any, Integers]) -> tuple[tuple[Any, Integers], Judged]:
        return piece, row_verdicts.readable(self._now.spec, piece[0])

    def _judged(self, piece: tuple[Any, Integers], judged: Judged, place: str) -> KeptRows:
        """Give the rows of a piece their verdicts, and count them; return the rows to store."""
        batch, lines = piece
        self._judge(judged, batch, lines, place)
        verdicts = judged.verdicts
        for code, name in enumerate(VERDICTS):
            self._counts[name] += int((verdicts == code).sum())
        taken = verdicts == TAKEN
        self._corrected += int((judged.versions[taken] > 1).sum())
        earlier = self._now.waves_of(judged.numbers) < self._now.wave
        self._late += int((taken & earlier).sum())
        self._repeats += int(((verdicts == SAME) & earlier).sum())
        self._observed += int((taken & ~earlier & (judged.versions == 1)).sum())
        self._misspelled.look(self._now.spec, batch, judged)
        kept = np.flatnonzero(verdicts != SAME)
        made = KeptRows(judged, kept, lines, self._chunk)
        if len(kept):
            self._chunk += 1
            self._index(made)
        return made

    def _judge(self, judged: Judged, batch: Any, lines: Integers, place: str) -> None:
        spec = self._now.spec
        numbers = self._change.numbers(judged.units)
        self._unknown.add(judged.units.filter(pa.array(numbers < 0)))
        waves = self._now.waves_of(np.maximum(numbers, 0))
        row_verdicts.plausible(spec, judged, batch, numbers, waves)
        parts, asked = spec.parts, judged.numbers[judged.candidates]
        versions, known = self._change.outcomes(asked, parts=len(parts))
        if spec.row_id:
            assert judged.ids is not None
            owners = self._owners(judged.ids)
            row_verdicts.compared_with_ids(
                judged, versions, known, owners,
                name=spec.row_id, parts=parts, correct=self._correct,
            )  # fmt: skip
            self._keep_owners(judged.ids, owners)
        else:
            row_verdicts.compared(
                judged, versions, known, parts=parts, correct=self._correct,
                places=lines[judged.candidates], earlier=self._standing[asked], place=place,
            )  # fmt: skip
            stands = np.flatnonzero((judged.verdicts == TAKEN) | (judged.verdicts == SAME))
            # In reverse order: a unit's first line is written last, and stays.
            self._standing[judged.numbers[stands[::-1]]] = lines[stands[::-1]]

    def _owners(self, ids: list[str]) -> dict[str, int]:
        """Return the unit number of each outcome id that already belongs to a unit."""
        there = [key for key in dict.fromkeys(ids) if key]
        numbers = self._change.owners(there).tolist()
        self._owned = {key: n for key, n in zip(there, numbers, strict=True) if n >= 0}
        return dict(self._owned)

    def _keep_owners(self, ids: list[str], owners: dict[str, int]) -> None:
        """Store the units of outcome ids that did not belong to a unit before."""
        new = [key for key in dict.fromkeys(ids) if key in owners and key not in self._owned]
        numbers = np.array([owners[key] for key in new], dtype=np.int64)
        self._change.add_owners(new, numbers)

    def _index(self, made: KeptRows) -> None:
        """Index the accepted rows, and note why the others are held."""
        judged, verdicts = made.judged, made.judged.verdicts[made.kept]
        taken = made.kept[verdicts == TAKEN]
        self._change.index_outcomes(
            self._now.sequence + 1,
            judged.numbers[taken], judged.versions[taken], judged.cells[taken],
        )  # fmt: skip
        self._kinds.update(
            (VERDICTS[judged.verdicts[row]], kind) for row, kind in judged.kinds.items()
        )
        for place in np.flatnonzero(verdicts != TAKEN)[: max(self.SHOWN - len(self._held), 0)]:
            row = int(made.kept[place])
            unit, reason = judged.units[row].as_py(), judged.reasons.get(row, "")
            self._held.append((int(made.lines[row]), unit, VERDICTS[verdicts[place]], reason))

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
        if self._now.spec.row_id:
            columns["outcome"] = [""] * count
        self._add(self._chunk_of(pa.table(columns), self._chunk))

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

    def _finish(self, rows: int, counts: dict[str, int], why: str) -> int | None:
        if counts[DUPLICATE] == rows:
            return None
        event = self._logbook.write(
            self._change,
            self._now,
            kind="record",
            why=why,
            counts={"rows": rows, **counts, "late": self._late, "corrected": self._corrected},
            payload={
                **({"file": self._file} if self._file else {}),
                "correct": self._correct,
                "observed": self._observed,
                "chunks": len(self._hashes),
                "reasons": [list(reason) for reason in self._reasons()],
            },
            rows=self._hashes,
        )
        return event.sequence


def check_columns(spec: Spec, source: Source) -> list[str]:
    """Return the columns to read: unit, reward, metrics, outcome id, and wave if present."""
    there = source.columns()
    wanted = [*spec.unit, *number_columns(spec)]
    missing = [name for name in (*wanted, spec.row_id) if name and name not in there]
    if missing:
        problems = [no_such_column(name, there) for name in missing]
        raise InvalidFileError(source.name, problems, NOTHING)
    _refuse_answers(number_columns(spec), there, source)
    if spec.row_id:
        wanted.append(spec.row_id)
    # A feature with this name has another meaning.
    if WAVE in there and WAVE not in wanted and WAVE not in spec.features.columns:
        wanted.append(WAVE)
    return wanted


def _refuse_answers(numbers: tuple[str, ...], there: Sequence[str], source: Source) -> None:
    """Refuse a file of assignments if one of its columns could be mistaken for outcomes."""
    meant = [name for name in numbers if name in ANSWERS]
    if meant and set(ANSWERS) <= set(there):
        others = ", ".join(name for name in ANSWERS if name not in numbers)
        why = (
            "is a column that assign wrote, not an outcome: this looks like a file of "
            f"assignments, since it also has {others}; give a file of ids and outcomes without "
            "these columns"
        )
        problems = [RowProblem(0, name, why, "not-an-outcome") for name in meant]
        raise InvalidFileError(source.name, problems, NOTHING)


def numbers_of(spec: Spec) -> list[Metric]:
    """Return the metrics that are numbers in an outcome file."""
    return [one for one in spec.metrics.values() if one.kind != YES_NO and not one.counts_rows]


def number_columns(spec: Spec) -> tuple[str, ...]:
    """Return the metrics' columns of an outcome file."""
    return tuple(dict.fromkeys(metric.column for metric in spec.metrics.values()))


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
    dry_run: bool = False,
) -> Recorded:
    """Record a file of outcomes in one transaction; a dry run stores nothing."""
    if correct and not why.strip():
        raise InvalidArgumentError("reason", "given with a correction", repr(why))
    try:
        with outcomes, ExitStack() as stack:
            with store.read(name) as reader:
                now = current(reader)
            now.require_rows()
            checking = partial(report, "checking")
            rows = stack.enter_context(read_outcomes(outcomes, now.spec, checking))
            with store.change(name) as change:
                recording = Recording(change, logbook, correct=correct, file=outcomes.file)
                result = recording.run(rows, why=why, report=partial(report, "recording"))
                if dry_run:
                    raise _DryRunError(replace(result, event=None))
                return result
    except _DryRunError as done:
        return done.result
