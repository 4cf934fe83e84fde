"""Verdicts on the rows of an outcome file: accepted, duplicate, conflict or quarantined.

accepted
    Something new about the unit, or with `correct` a new version of its outcome.
duplicate
    The unit, or the row with this id, already has the same values.
conflict
    The unit, or the row with this id, already has a different value; the row is held, and nothing
    is overwritten.
quarantined
    The row cannot be an outcome (unknown unit, wrong wave, out of range, not a finite number); it
    is stored with its line and the reason.

If several rows may belong to one unit, accepted rows are of two kinds:

counted
    The row counts for its unit's outcome.
outside
    The row's date is outside the window of every metric.

An empty cell says nothing: what is known stays. Rows are checked in three steps: :func:`readable`
checks each row alone, :func:`plausible` checks it against the campaign's units, and
:func:`compared` against the known outcomes, or :mod:`~seqbatch.campaign.decide.repeated_rows`
against the logged rows.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.decide.outcome_columns import WAVE, OutcomeColumns
from seqbatch.campaign.features.boolean import read_booleans
from seqbatch.campaign.files.column_values import (
    MISSING,
    Reason,
    is_text,
    means_missing,
    missing_rows,
    reasoned,
    texts,
    undictionaried,
)
from seqbatch.campaign.files.date_format import ISO, read_times
from seqbatch.campaign.files.ids import read_ids, with_nul
from seqbatch.campaign.files.number_format import NO_NUMBER, NumberFormat
from seqbatch.campaign.files.number_format import numbers as parsed
from seqbatch.campaign.files.unpacked_size import text_bytes
from seqbatch.campaign.record.outcomes import (
    ACCEPTED,
    CONFLICT,
    COUNTED,
    DUPLICATE,
    OUTSIDE,
    QUARANTINED,
    VERDICTS,
    assumed_terms,
    weighted,
)
from seqbatch.campaign.spec.input_limits import LARGEST_NUMBER, LONGEST_ID
from seqbatch.campaign.spec.metrics import YES_NO, Metric
from seqbatch.campaign.spec.spec import Spec
from seqbatch.core.arrays import Bools, Floats, Integers, Places

#: The verdicts' numbers, as used while rows are checked.
TAKEN, SAME, OTHER, UNFIT, COUNTS, OUT = (
    VERDICTS.index(verdict)
    for verdict in (ACCEPTED, DUPLICATE, CONFLICT, QUARANTINED, COUNTED, OUTSIDE)
)


#: Why a row is held whose unit has a different value.
ANOTHER = "the unit already has another outcome"


@dataclass(frozen=True)
class SecondRow:
    """A row whose unit has a different value in an earlier row of the same file."""

    line: int
    earlier: int
    unit: str
    metric: str
    values: tuple[float, float]


@dataclass
class Judged:
    """Rows of an outcome file, whose verdicts are filled in step by step.

    Parameters
    ----------
    units
        The unit ids.
    metrics
        The metrics of each row in the spec's order (NaN if missing or not in the file), shape
        (n, metrics).
    numbers
        The units' numbers in the campaign, -1 for unknown units.
    verdicts, versions
        The verdict on each row, and its version of the unit's outcome or of the row, from 1.
    counted
        Whether the unit already counts in the reward, so that missing metrics are assumed.
    ids, times, days
        The ids and times of the rows, if they are declared; and which times are whole days.
    reasons, kinds
        Why rows are held, by row; and the same without details of the row, for counting.
    unread
        Rows held because a cell is not a number, each with the cell's column.
    keys, logged
        The key and the content of each row, if rows are logged.
    corrected
        How many rows replace a different value.
    repeated
        How many duplicates repeat a row of the same file.
    seconds
        Rows whose unit has a different value in an earlier row of the same file.
    """

    units: pa.Array
    metrics: Floats
    numbers: Integers
    verdicts: Integers
    versions: Integers
    counted: Bools
    ids: pa.Array | None = None
    times: Floats | None = None
    days: Bools | None = None
    reasons: dict[int, str] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    unread: dict[int, str] = field(default_factory=dict)
    keys: pa.Array | None = None
    logged: Floats | None = None
    corrected: int = 0
    repeated: int = 0
    seconds: list[SecondRow] = field(default_factory=list)

    def hold(
        self, row: int, verdict: int, reason: str, *, kind: str | None = None, unread: str = ""
    ) -> None:
        """Hold a row, with the first reason found.

        Parameters
        ----------
        row, verdict, reason
            The row, its verdict, and why.
        kind
            The reason without details of the row.
        unread
            The column whose cell is not a number, if that is the reason.
        """
        self.verdicts[row] = verdict
        if row not in self.reasons:
            self.reasons[row] = reason
            self.kinds[row] = reasoned(reason).rule if kind is None else kind
            self.unread |= {row: unread} if unread else {}

    def note_second(self, spec: Spec, row: int, known: Floats, lines: tuple[int, int]) -> None:
        """Note a row whose unit has a different value in an earlier row of the same file."""
        place = int(np.argmax(clashes(known, self.metrics[row])))
        values = float(known[place]), float(self.metrics[row, place])
        unit, name = self.units[row].as_py(), list(spec.metrics)[place]
        self.seconds.append(SecondRow(lines[1], lines[0], unit, name, values))

    def cells(self, spec: Spec) -> Floats:
        """Return the cells of the rows as outcomes, with the reward."""
        return outcome_cells(spec, self.metrics, self.counted)

    @property
    def candidates(self) -> Places:
        """The rows that have not been held so far."""
        return np.flatnonzero(self.verdicts == TAKEN)

    def contents(self, spec: Spec) -> Floats:
        """Return the contents of the rows, as they are logged."""
        count = len(self.units)
        made = np.full((count, len(spec.parts) + 3), np.nan)
        made[:, :-2] = raw_cells(spec, self.metrics)
        if self.times is not None and self.days is not None:
            made[:, -2], made[:, -1] = self.times, self.days
        return made


# ----------------------------------------------------------------------
# The cells of an outcome, and the metrics in them.


def metric_cells(spec: Spec, cells: Floats) -> Floats:
    """Return the metrics of outcomes in the spec's order, from their cells, shape (n, 1 + parts).

    A metric that is the reward itself is stored as the reward.
    """
    places = {name: place for place, name in enumerate(spec.parts, start=1)}
    return cells[:, [places.get(name, 0) for name in spec.metrics]]


def raw_cells(spec: Spec, metrics: Floats) -> Floats:
    """Return the cells of metrics, without a reward that is computed from several."""
    names = list(spec.metrics)
    cells = np.full((len(metrics), 1 + len(spec.parts)), np.nan)
    cells[:, 1:] = metrics[:, [names.index(name) for name in spec.parts]]
    if spec.reward.plain:
        cells[:, 0] = metrics[:, names.index(spec.reward.label)]
    return cells


def outcome_cells(spec: Spec, metrics: Floats, counted: Bools) -> Floats:
    """Return the cells of outcomes with their reward, NaN if one of its metrics is missing.

    Of a unit that already counts (an absent one, say), a missing metric has its declared value.
    """
    cells = raw_cells(spec, metrics)
    if not spec.reward.plain:
        terms = metrics[:, [list(spec.metrics).index(one.name) for one in spec.reward.terms]]
        some = counted & ~np.isnan(terms).all(axis=1)
        terms = np.where(some[:, None], assumed_terms(spec, terms), terms)
        cells[:, 0] = weighted(spec.reward, terms)
    return cells


# ----------------------------------------------------------------------
# Read the rows.


def readable(spec: Spec, columns: OutcomeColumns, batch: Any) -> Judged:
    """Read rows of an outcome file, and hold those without a unit or a finite number."""
    units, no_unit = read_ids(batch, spec.unit)
    count = len(units)
    judged = Judged(
        units=units,
        metrics=np.full((count, len(spec.metrics)), np.nan),
        numbers=np.full(count, -1, dtype=np.int64),
        verdicts=np.full(count, TAKEN),
        versions=np.zeros(count, dtype=np.int64),
        counted=np.zeros(count, dtype=np.bool_),
    )
    # No unit id has a NUL character, and not every database accepts one in a query.
    for row in (nul := with_nul(units)):
        judged.hold(row, UNFIT, f"{spec.id_name} holds a NUL character")
    if nul:
        judged.units = pa.array(["" if "\0" in unit else unit for unit in units.to_pylist()])
    for row, (column, why) in no_unit.items():
        judged.hold(row, UNFIT, f"{column} {why}", kind=f"{column} {reasoned(why).rule}")
    places = {name: place for place, name in enumerate(spec.metrics)}
    for metric in columns.metrics:
        judged.metrics[:, places[metric.name]] = _read(judged, metric, batch)
    if columns.row_id is not None:
        _read_row_ids(judged, columns.row_id, batch.column(columns.row_id))
    if columns.date is not None:
        _read_dates(judged, columns.date, batch.column(columns.date), columns.date_format or ISO)
    _hold_empty(judged, columns)
    return judged


def _read(judged: Judged, metric: Metric, batch: Any) -> Floats:
    """Read a metric's column, and hold the rows whose cell cannot be read; empty ones are NaN."""
    column = metric.column
    if metric.counts_rows:
        return np.where(_filled(batch.column(column)), 1.0, np.nan)
    if metric.kind == YES_NO:
        read = read_booleans(batch.column(column))
        values, wrong = read.values_and_wrong()
        wrong = missing_rows(read.missing) | wrong
    else:
        form = None if metric.format is None else NumberFormat.of(metric.format)
        values, wrong = parsed(batch.column(column), form=form)
    if wrong:
        values = values.copy()
        values[list(wrong)] = np.nan
    for row, why in wrong.items():
        if why != MISSING:
            said, why = f"{column} {why}", reasoned(why)
            unread = column if why.code == NO_NUMBER else ""
            judged.hold(row, UNFIT, said, kind=f"{column} {why.rule}", unread=unread)
    return values


def _filled(column: Any) -> Bools:
    """Return which cells hold something."""
    column = undictionaried(column)
    if is_text(column.type):
        return ~means_missing(pc.utf8_trim_whitespace(column))
    found: Bools = pc.invert(pc.is_null(column, nan_is_null=True)).to_numpy(zero_copy_only=False)
    return found


def _read_row_ids(judged: Judged, name: str, column: Any) -> None:
    ids, no_id = texts(column)
    for row, why in no_id.items():
        judged.hold(row, UNFIT, f"{name} {why}", kind=f"{name} {reasoned(why).rule}")
    for row in (nul := with_nul(ids)):
        judged.hold(row, UNFIT, f"{name} holds a NUL character")
    for row in np.flatnonzero(text_bytes(column) > LONGEST_ID).tolist():
        judged.hold(row, UNFIT, f"{name} must have at most {LONGEST_ID:,} bytes")
    if nul:
        ids = pa.array(["" if "\0" in each else each for each in ids.to_pylist()], pa.string())
    judged.ids = ids


def _read_dates(judged: Judged, name: str, column: Any, form: str) -> None:
    judged.times, judged.days, wrong = read_times(column, form=form)
    for row, why in wrong.items():
        judged.hold(row, UNFIT, f"{name} {why}", kind=f"{name} {reasoned(why).rule}")


def _hold_empty(judged: Judged, columns: OutcomeColumns) -> None:
    """Hold rows in which every metric of the file is empty."""
    names = list(dict.fromkeys(metric.column for metric in columns.metrics))
    said = f"{names[0]} is missing" if len(names) == 1 else f"all of {', '.join(names)} are missing"
    for row in np.flatnonzero(np.isnan(judged.metrics).all(axis=1)).tolist():
        judged.hold(row, UNFIT, said)


# ----------------------------------------------------------------------
# Check the rows against the campaign.


def plausible(
    spec: Spec, columns: OutcomeColumns, judged: Judged, batch: Any, numbers: Integers,
    waves: Integers,
) -> None:  # fmt: skip
    """Hold rows with an unknown unit, a wrong wave, or a number outside the declared range.

    Parameters
    ----------
    spec, columns
        The campaign's spec, and what the file's columns mean.
    judged, batch
        The rows as read, and their file's columns.
    numbers, waves
        Each unit's number (-1 if unknown) and its wave.
    """
    judged.numbers = numbers
    for row in np.flatnonzero(numbers < 0).tolist():
        judged.hold(row, UNFIT, "no such unit in this campaign")
    for metric, values in zip(spec.metrics.values(), judged.metrics.T, strict=True):
        # The range of a sum is that of the unit's total.
        if metric.rows not in ("sum", "count"):
            _hold_outside(judged, metric, values)
    if columns.wave:
        _hold_wrong_waves(judged, batch.column(WAVE), waves)


def outside(metric: Metric, values: Floats) -> Bools:
    """Return which numbers a metric cannot be; missing ones are allowed."""
    if metric.limits is None:
        return np.zeros(len(values), dtype=np.bool_)
    low, high = metric.limits
    fits = (values >= low) & (values <= high)
    if metric.kind == YES_NO:
        fits = (values == low) | (values == high)
    found: Bools = ~fits & ~np.isnan(values)
    return found


def _hold_outside(judged: Judged, metric: Metric, values: Floats) -> None:
    """Hold the rows whose number is outside the declared range."""
    if metric.limits is None:
        return
    low, high = metric.limits
    for row in np.flatnonzero(outside(metric, values)).tolist():
        why = f"{metric.column} must be between {low:g} and {high:g}"
        judged.hold(row, UNFIT, Reason(why, f"; received {values[row]:g}"))


def _hold_wrong_waves(judged: Judged, column: Any, waves: Integers) -> None:
    said, wrong = parsed(column)
    for row, why in wrong.items():
        if why != MISSING:
            rule = f"{WAVE} must be a wave's number"
            judged.hold(row, UNFIT, rule + reasoned(why).more, kind=rule)
    for row in np.flatnonzero((judged.numbers >= 0) & (said != waves)).tolist():
        if row not in wrong:
            assigned = f"the unit was assigned in {waves[row]}"
            reason = f"wrong wave: {assigned}, the row says {said[row]:g}"
            judged.hold(row, UNFIT, reason, kind="wrong wave")


# ----------------------------------------------------------------------
# Compare rows with the known outcomes of their units: one row for each unit.


@dataclass(frozen=True)
class KnownOutcomes:
    """The known outcomes of the units of some rows.

    Parameters
    ----------
    versions, metrics
        The newest version, 0 if there is none, and its metrics in the spec's order.
    counted
        Whether the unit already counts in the reward, with an outcome or as absent.
    """

    versions: Integers
    metrics: Floats
    counted: Bools

    @classmethod
    def of(cls, spec: Spec, found: tuple[Integers, Floats, Bools]) -> "KnownOutcomes":
        """Return outcomes as a store has them: versions, cells, and whether units were absent."""
        versions, cells, absent = found
        return cls(versions, metric_cells(spec, cells), absent | ~np.isnan(cells[:, 0]))


def clashes(known: Floats, received: Floats) -> Bools:
    """Return which received values differ from known ones; missing values differ from nothing."""
    found: Bools = ~np.isnan(known) & ~np.isnan(received) & (known != received)
    return found


def merged(known: Floats, received: Floats) -> Floats:
    """Return the received values, and the known ones where nothing was received."""
    return np.where(np.isnan(received), known, received)


class FileSoFar:
    """What the rows of a file so far say of each unit.

    Parameters
    ----------
    units, metrics
        The number of units of the campaign, and of its metrics.
    """

    def __init__(self, units: int, metrics: int) -> None:
        # Zeros take no memory until something else is written.
        self._lines = np.zeros(units, dtype=np.int64)
        self._values = np.zeros((units, metrics))
        self._there = np.zeros((units, metrics), dtype=np.bool_)

    def lines(self, numbers: Integers) -> Integers:
        """Return the line of the first row of each unit, 0 if it has none."""
        found: Integers = self._lines[numbers]
        return found

    def values(self, numbers: Integers) -> Floats:
        """Return the metrics of units that the file has had, NaN for the others."""
        return np.where(self._there[numbers], self._values[numbers], np.nan)

    def add(self, numbers: Integers, values: Floats, lines: Integers) -> None:
        """Add rows."""
        rows, places = np.nonzero(~np.isnan(values))
        self._values[numbers[rows], places] = values[rows, places]
        self._there[numbers[rows], places] = True
        fresh = self._lines[numbers] == 0
        # In reverse order: a unit's first line is written last, and stays.
        self._lines[numbers[fresh][::-1]] = lines[fresh][::-1]


def compared(
    spec: Spec, judged: Judged, known: KnownOutcomes, file: FileSoFar, *, correct: bool,
    lines: Integers,
) -> None:  # fmt: skip
    """Compare candidate rows with known outcomes, and with earlier rows of the file.

    Parameters
    ----------
    spec, judged
        The campaign's spec, and the rows.
    known, file
        What is known of each candidate's unit, and what the file says of it so far.
    correct
        Whether a different value replaces the known one.
    lines
        The line of each candidate.
    """
    rows = judged.candidates
    numbers, received, has = judged.numbers[rows], judged.metrics[rows], known.metrics
    first, earlier = first_places(numbers), file.lines(numbers)
    alone = first == np.arange(len(rows))
    clash: Bools = np.asarray(clashes(has, received).any(axis=1))
    new = (np.isnan(has) & ~np.isnan(received)).any(axis=1)
    verdicts = np.where(clash & (not correct), OTHER, np.where(clash | new, TAKEN, SAME))
    found = _Found(verdicts, known.versions + 1, merged(has, received), clash)
    for row in np.flatnonzero(alone & (earlier > 0)).tolist():
        if _is_second(spec, judged, file, int(rows[row]), int(lines[row])):
            found.verdicts[row] = OTHER
    file.add(numbers[alone], received[alone], lines[alone])
    _compare_again(spec, judged, known, file, found, first, correct=correct, lines=lines)
    for row in np.flatnonzero(found.verdicts == OTHER).tolist():
        hold_another(spec, judged, int(rows[row]), has[row])
    taken = found.verdicts == TAKEN
    judged.repeated = int(((found.verdicts == SAME) & (~alone | (earlier > 0))).sum())
    judged.corrected = int((taken & found.clash).sum())
    judged.verdicts[rows], judged.versions[rows] = found.verdicts, found.versions * taken
    judged.metrics[rows[taken]] = found.made[taken]
    judged.counted[rows] = known.counted
    _hold_too_large(spec, judged)


@dataclass(frozen=True)
class _Found:
    """The verdicts on candidates, their versions and metrics, and whether they differ."""

    verdicts: Integers
    versions: Integers
    made: Floats
    clash: Bools


def _is_second(spec: Spec, judged: Judged, file: FileSoFar, row: int, line: int) -> bool:
    """Return whether the file has a different value of a row's unit, and note it."""
    number = judged.numbers[row : row + 1]
    [said], [earlier] = file.values(number), file.lines(number)
    if not clashes(said, judged.metrics[row]).any():
        return False
    judged.note_second(spec, row, said, (int(earlier), line))
    return True


def _compare_again(
    spec: Spec, judged: Judged, known: KnownOutcomes, file: FileSoFar, found: _Found,
    first: Integers, *, correct: bool, lines: Integers,
) -> None:  # fmt: skip
    """Compare the later rows of units that have several in one piece of the file.

    They are rare if the spec does not say what several rows mean, and are processed one by one.
    """
    rows = judged.candidates
    # The values and the version of a unit after its last accepted row.
    so_far: dict[int, tuple[Floats, int]] = {}
    for row in np.flatnonzero(first != np.arange(len(rows))).tolist():
        place, received = int(first[row]), judged.metrics[rows[row]]
        taken = found.verdicts[place] == TAKEN
        begun = (found.made if taken else known.metrics)[place], known.versions[place] + taken
        values, version = so_far.get(place, begun)
        if _is_second(spec, judged, file, int(rows[row]), int(lines[row])):
            found.verdicts[row] = OTHER
            continue
        file.add(judged.numbers[rows[row : row + 1]], received[None], lines[row : row + 1])
        differs = bool(clashes(values, received).any())
        more = bool((np.isnan(values) & ~np.isnan(received)).any())
        verdict = OTHER if differs and not correct else TAKEN if differs or more else SAME
        found.verdicts[row], found.clash[row] = verdict, differs
        if verdict == TAKEN:
            found.made[row], found.versions[row] = merged(values, received), version + 1
            so_far[place] = found.made[row], int(version) + 1


def first_places(codes: Integers) -> Integers:
    """Return for each row the first row with the same number."""
    if (codes[1:] > codes[:-1]).all():
        return np.arange(len(codes))
    _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
    found: Integers = firsts[inverse]
    return found


def hold_another(spec: Spec, judged: Judged, row: int, known: Floats) -> None:
    """Hold a row whose unit has a different outcome, and name the first metric that differs."""
    received = judged.metrics[row]
    differs = np.flatnonzero(clashes(known, received))
    if not len(differs):
        judged.hold(row, OTHER, ANOTHER)
        return
    place, names = int(differs[0]), list(spec.metrics)
    what = "the outcome" if len(names) == 1 else names[place]
    reason = f"the unit already has {what} {known[place]:g}; received {received[place]:g}"
    judged.hold(row, OTHER, reason, kind=ANOTHER)


def _hold_too_large(spec: Spec, judged: Judged) -> None:
    """Hold rows whose metrics are valid numbers, but whose reward is too large to learn from."""
    if spec.reward.plain:
        return
    values = judged.cells(spec)[:, 0]
    for row in np.flatnonzero((np.abs(values) >= LARGEST_NUMBER) & (judged.verdicts == TAKEN)):
        why = f"{spec.reward.label} must be below {LARGEST_NUMBER:g} in size"
        judged.hold(int(row), UNFIT, Reason(why, f"; received {values[row]:g}"))
