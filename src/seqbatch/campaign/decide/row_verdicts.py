"""Verdicts on the rows of an outcome file: accepted, duplicate, conflict or quarantined.

accepted
    The unit's outcome, or with `correct` a new version of it.
duplicate
    The unit already has the same outcome, in the reward and every metric.
conflict
    The unit already has a different outcome; the row is held, and nothing is overwritten.
quarantined
    The row cannot be an outcome (unknown unit, wrong wave, out of range, not a finite number); it
    is stored with its line and the reason.

Rows are checked in three steps: :func:`readable` checks each row alone, :func:`plausible` checks it
against the campaign's units, and :func:`compared` or :func:`compared_with_ids` against the known
outcomes.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.features.boolean import read_booleans
from seqbatch.campaign.files.column_values import MISSING, Reason, missing_rows, reasoned, texts
from seqbatch.campaign.files.ids import read_ids, with_nul
from seqbatch.campaign.files.number_format import NO_NUMBER, NumberFormat
from seqbatch.campaign.files.number_format import numbers as parsed
from seqbatch.campaign.files.unpacked_size import text_bytes
from seqbatch.campaign.record.outcomes import ACCEPTED, CONFLICT, DUPLICATE, QUARANTINED, VERDICTS
from seqbatch.campaign.spec.input_limits import LARGEST_NUMBER, LONGEST_ID
from seqbatch.campaign.spec.metrics import YES_NO, Metric
from seqbatch.campaign.spec.objective import Reward
from seqbatch.campaign.spec.spec import Spec
from seqbatch.core.arrays import Bools, Floats, Integers, Places

#: The column of an outcome file that may name each unit's wave.
WAVE = "wave"
#: The verdicts' numbers, as used while rows are checked.
TAKEN, SAME, OTHER, UNFIT = (
    VERDICTS.index(verdict) for verdict in (ACCEPTED, DUPLICATE, CONFLICT, QUARANTINED)
)


@dataclass
class Judged:
    """Rows of an outcome file, whose verdicts are filled in step by step.

    Parameters
    ----------
    units, ids
        The unit ids and, if there are any, the outcome ids of the rows.
    cells
        The reward of each row (NaN if it cannot be read), and the numbers stored with it: the terms
        of a sum, and metrics (NaN if missing), shape (n, 1 + parts).
    numbers
        The units' numbers in the campaign, -1 for unknown units.
    verdicts, versions
        The verdict on each row, and its version of the unit's outcome, from 1.
    reasons, kinds
        Why rows are held, by row; and the same without details of the row, for counting.
    unread
        Rows held because a cell is not a number, each with the cell's column.
    """

    units: pa.Array
    cells: Floats
    ids: list[str] | None
    numbers: Integers
    verdicts: Integers
    versions: Integers
    reasons: dict[int, str]
    kinds: dict[int, str]
    unread: dict[int, str] = field(default_factory=dict)

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

    @property
    def values(self) -> Floats:
        """The reward of each row."""
        return self.cells[:, 0]

    @property
    def candidates(self) -> Places:
        """The rows that have not been held so far."""
        return np.flatnonzero(self.verdicts == TAKEN)


def readable(spec: Spec, batch: Any) -> Judged:
    """Read rows of an outcome file, and hold those without a unit or a finite number."""
    units, no_unit = read_ids(batch, spec.unit)
    count = len(units)
    judged = Judged(
        units=units,
        cells=np.full((count, 1 + len(spec.parts)), np.nan),
        ids=None,
        numbers=np.full(count, -1, dtype=np.int64),
        verdicts=np.full(count, TAKEN),
        versions=np.zeros(count, dtype=np.int64),
        reasons={},
        kinds={},
    )
    # No unit id has a NUL character, and not every database accepts one in a query.
    for row in (nul := with_nul(units)):
        judged.hold(row, UNFIT, f"{spec.id_name} holds a NUL character")
    if nul:
        judged.units = pa.array(["" if "\0" in unit else unit for unit in units.to_pylist()])
    for row, (column, why) in no_unit.items():
        judged.hold(row, UNFIT, f"{column} {why}", kind=f"{column} {reasoned(why).rule}")
    _read_metrics(judged, spec, batch)
    if spec.row_id:
        ids, no_id = texts(batch.column(spec.row_id))
        judged.ids = ids.to_pylist()
        for row, why in no_id.items():
            kind = f"{spec.row_id} {reasoned(why).rule}"
            judged.hold(row, UNFIT, f"{spec.row_id} {why}", kind=kind)
        for row in [row for row, each in enumerate(judged.ids) if "\0" in each]:
            judged.hold(row, UNFIT, f"{spec.row_id} holds a NUL character")
            judged.ids[row] = ""
        for row in np.flatnonzero(text_bytes(batch.column(spec.row_id)) > LONGEST_ID).tolist():
            judged.hold(row, UNFIT, f"{spec.row_id} must have at most {LONGEST_ID:,} bytes")
    return judged


def _read_metrics(judged: Judged, spec: Spec, batch: Any) -> None:
    """Read all metrics, and compute the reward from them."""
    needed = [metric.name for metric in spec.reward.terms]
    read = {
        name: _read(judged, metric, batch, optional=name not in needed)
        for name, metric in spec.metrics.items()
    }
    reward = spec.reward
    judged.cells[:, 0] = weighted(reward, np.column_stack([read[name] for name in needed]))
    for place, name in enumerate(spec.parts, start=1):
        judged.cells[:, place] = read[name]
    if not reward.plain:
        # The weighted sum of valid numbers may be too large to learn from.
        for row in np.flatnonzero(np.abs(judged.values) >= LARGEST_NUMBER).tolist():
            why = f"{reward.label} must be below {LARGEST_NUMBER:g} in size"
            judged.hold(row, UNFIT, Reason(why, f"; received {judged.values[row]:g}"))


def weighted(reward: Reward, terms: Floats) -> Floats:
    """Return the reward, the weighted sum of its metrics, shape (n, metrics)."""
    if reward.plain:
        return terms[:, 0]
    total = np.zeros(len(terms))
    for place, weight in enumerate(reward.weights):
        total = total + weight * terms[:, place]
    return total


def _read(judged: Judged, metric: Metric, batch: Any, *, optional: bool) -> Floats:
    """Read a metric's column, and hold the rows whose cell cannot be read."""
    column = metric.column
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
        if not (optional and why == MISSING):
            said, why = f"{column} {why}", reasoned(why)
            unread = column if why.code == NO_NUMBER else ""
            judged.hold(row, UNFIT, said, kind=f"{column} {why.rule}", unread=unread)
    return values


def plausible(spec: Spec, judged: Judged, batch: Any, numbers: Integers, waves: Integers) -> None:
    """Hold rows with an unknown unit, a wrong wave, or a number outside the declared range.

    Parameters
    ----------
    spec
        The campaign's spec.
    judged, batch
        The rows as read, and their file's columns.
    numbers, waves
        Each unit's number (-1 if unknown) and its wave.
    """
    judged.numbers = numbers
    for row in np.flatnonzero(numbers < 0).tolist():
        judged.hold(row, UNFIT, "no such unit in this campaign")
    for metric, values in zip(
        spec.metrics.values(), metric_cells(spec, judged.cells).T, strict=True
    ):
        _hold_outside(judged, metric, values)
    if WAVE in batch.schema.names and names_wave(spec):
        _hold_wrong_waves(judged, batch.column(WAVE), waves)


def names_wave(spec: Spec) -> bool:
    """Return whether a column called "wave" would contain the units' waves."""
    own = [column for metric in spec.metrics.values() for column in metric.columns]
    return WAVE not in (*own, *spec.features.columns)


def metric_cells(spec: Spec, cells: Floats) -> Floats:
    """Return the metrics of outcomes in the spec's order, from their cells, shape (n, 1 + parts).

    A metric that is the reward itself is stored as the reward.
    """
    places = {name: place for place, name in enumerate(spec.parts, start=1)}
    return cells[:, [places.get(name, 0) for name in spec.metrics]]


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


def same(left: Floats, right: Floats) -> Bools:
    """Return for each row whether two outcomes are equal; missing values equal each other."""
    alike: Bools = ((left == right) | (np.isnan(left) & np.isnan(right))).all(axis=-1)
    return alike


def compared(
    judged: Judged,
    versions: Integers,
    known: Floats,
    *,
    parts: tuple[str, ...],
    correct: bool,
    places: Integers,
    earlier: Integers,
    place: str = "row",
) -> None:
    """Compare candidate rows with known outcomes, and with earlier rows.

    If a file has two different outcomes for a unit, the right one is unknown. Only the first is
    accepted, even with `correct`.

    Parameters
    ----------
    judged
        The rows.
    versions, known
        The newest known version and cells of each candidate's unit; 0 and NaN if there are none.
    parts
        The names of the cells after the reward.
    correct
        Whether a different outcome replaces the known one.
    places, earlier
        The line of each candidate, and the line of its unit's outcome in an earlier piece of the
        file (0 if there is none).
    place
        The word for a line of the file.
    """
    rows = judged.candidates
    numbers, cells = judged.numbers[rows], judged.cells[rows]
    # For each row, find its unit's first row in this piece of the file.
    first = np.arange(len(rows))
    if not (numbers[1:] > numbers[:-1]).all():
        _, firsts, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        first = firsts[inverse]
    alone = first == np.arange(len(rows))
    has = (versions > 0) & alone
    repeats = same(known, cells)
    verdicts = np.full(len(rows), TAKEN)
    verdicts[has & repeats] = SAME
    verdicts[has & ~repeats & ((not correct) | (earlier > 0))] = OTHER
    # Units with several rows in the file are rare, and are processed one by one.
    for row in np.flatnonzero(~alone).tolist():
        # The unit's current outcome: the first row's if it was accepted, else the known one.
        value = (cells if verdicts[first[row]] == TAKEN else known)[first[row]]
        verdicts[row] = SAME if same(value, cells[row]) else OTHER
    for row in np.flatnonzero(verdicts == OTHER).tolist():
        stood = 0 if alone[row] or verdicts[first[row]] == OTHER else places[first[row]]
        if stood or earlier[row]:
            _hold_second(
                judged, int(rows[row]), f"{place}s {stood or earlier[row]:,} and {places[row]:,}"
            )
        else:
            _hold_another(judged, int(rows[row]), known[row], parts)
    judged.verdicts[rows] = verdicts
    judged.versions[rows] = np.where(verdicts == TAKEN, versions + 1, 0)


def _hold_second(judged: Judged, row: int, where: str) -> None:
    """Hold a row whose unit has a different outcome in the same file."""
    twice, rest = (
        "is twice in this file",
        "with different values; add them up or choose one before recording",
    )
    judged.hold(row, OTHER, f"{twice} ({where}) {rest}", kind=f"{twice} {rest}")


def compared_with_ids(
    judged: Judged,
    versions: Integers,
    known: Floats,
    owners: dict[str, int],
    *,
    name: str,
    parts: tuple[str, ...],
    correct: bool,
) -> None:
    """Compare rows with outcome ids with known outcomes, and with earlier rows.

    An outcome id belongs to the unit of its first accepted row. A row's verdict therefore depends
    on the verdicts of the rows before it.

    Parameters
    ----------
    judged, versions, known, parts, correct
        See :func:`compared`.
    owners
        The unit number of every accepted outcome id; new ids are added to it.
    name
        The name of the column of outcome ids.
    """
    assert judged.ids is not None
    current: dict[int, tuple[int, Floats]] = {}
    for place, row in enumerate(judged.candidates.tolist()):
        number, cells, key = int(judged.numbers[row]), judged.cells[row], judged.ids[row]
        version, has = current.get(number, (int(versions[place]), known[place]))
        if owners.get(key, number) != number:
            kind = f"{name} is already recorded for another unit"
            reason = f"{name} {key!r} is already recorded for another unit"
            judged.hold(row, OTHER, reason, kind=kind)
        elif version and same(has, cells):
            judged.verdicts[row] = SAME
        elif version and not correct:
            _hold_another(judged, row, has, parts)
        else:
            owners[key] = number
            current[number] = (version + 1, cells)
            judged.versions[row] = version + 1


def _hold_another(judged: Judged, row: int, known: Floats, parts: tuple[str, ...]) -> None:
    """Hold a row whose unit has a different outcome, and name the first number that differs."""
    received = judged.cells[row]
    place = int(np.argmin((known == received) | (np.isnan(known) & np.isnan(received))))
    what = f"the {('outcome', *parts)[place]}" if place else "the outcome"
    has, got = (
        "none" if np.isnan(cell) else f"{cell:g}" for cell in (known[place], received[place])
    )
    reason = f"the unit already has {what} {has}; received {got}"
    judged.hold(row, OTHER, reason, kind="the unit already has another outcome")
