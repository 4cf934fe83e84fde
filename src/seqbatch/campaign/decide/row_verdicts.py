"""The verdict on each row of an outcome file: accepted, held, repeated, rejected, and why.

accepted
    The unit's outcome, or with `correct` a new version of it.
duplicate
    The unit has this very outcome already: the reward and every metric.
conflict
    The unit has another outcome: the row is held, nothing is overwritten.
quarantined
    The row cannot be an outcome (unknown unit, wrong wave, out of range, not a finite number); it
    is kept with its line and the reason.

Rows are judged in three steps: :func:`readable` by themselves, :func:`plausible` against the units
of the campaign, and :func:`compared` or :func:`compared_with_ids` against the outcomes known.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.files.column_values import MISSING, Reason, reasoned, texts
from seqbatch.campaign.files.ids import read_ids, with_nul
from seqbatch.campaign.files.number_format import NO_NUMBER, NumberFormat
from seqbatch.campaign.files.number_format import numbers as parsed
from seqbatch.campaign.files.unpacked_size import text_bytes
from seqbatch.campaign.record.outcomes import ACCEPTED, CONFLICT, DUPLICATE, QUARANTINED, VERDICTS
from seqbatch.campaign.spec.input_limits import LARGEST_NUMBER, LONGEST_ID
from seqbatch.campaign.spec.reward_and_limits import Measured, Metric, Reward
from seqbatch.campaign.spec.spec import Spec
from seqbatch.core.arrays import Bools, Floats, Integers, Places

#: The column of an outcome file that may name each unit's wave.
WAVE = "wave"
#: Verdicts by number, as rows carry them while they are judged.
TAKEN, SAME, OTHER, UNFIT = (
    VERDICTS.index(verdict) for verdict in (ACCEPTED, DUPLICATE, CONFLICT, QUARANTINED)
)


@dataclass
class Judged:
    """Rows while they are judged; what each becomes is filled in step by step.

    Parameters
    ----------
    units, ids
        What the rows say: unit and outcome id, if any.
    cells
        The reward of each row (NaN where it cannot be read), and the other numbers that are kept
        with it: the terms of a sum, and metrics (NaN where they are missing), shape (n, 1 + parts).
    numbers
        The units' numbers in the campaign, -1 where there is no such unit.
    verdicts, versions
        What each row becomes, and which version of its unit's outcome, from 1.
    reasons, kinds
        Why rows are held, by row; and the same without what is a row's own, for counting.
    unread
        The rows that are held because a cell is no number, each with the cell's column.
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
        """Hold a row, and say why; a row is held for the first reason that was found.

        Parameters
        ----------
        row, verdict, reason
            The row, what becomes of it, and why.
        kind
            The reason without what is the row's own.
        unread
            The column whose cell is no number, where that is the reason.
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
        """The rows that nothing speaks against so far."""
        return np.flatnonzero(self.verdicts == TAKEN)


def readable(spec: Spec, batch: Any) -> Judged:
    """Read rows of an outcome file, holding those without a unit or a finite number."""
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
    # No unit has an id with a NUL character, and not every database could be asked for one.
    for row in (nul := with_nul(units)):
        judged.hold(row, UNFIT, f"{spec.id_name} holds a NUL character")
    if nul:
        judged.units = pa.array(["" if "\0" in unit else unit for unit in units.to_pylist()])
    for row, (column, why) in no_unit.items():
        judged.hold(row, UNFIT, f"{column} {why}", kind=f"{column} {reasoned(why).rule}")
    _read_reward(judged, spec, batch)
    for place, metric in enumerate(spec.metrics, start=1 + len(spec.parts) - len(spec.metrics)):
        judged.cells[:, place] = _read(judged, metric.column, metric, batch, optional=True)
    if spec.outcome:
        ids, no_id = texts(batch.column(spec.outcome))
        judged.ids = ids.to_pylist()
        for row, why in no_id.items():
            kind = f"{spec.outcome} {reasoned(why).rule}"
            judged.hold(row, UNFIT, f"{spec.outcome} {why}", kind=kind)
        for row in [row for row, each in enumerate(judged.ids) if "\0" in each]:
            judged.hold(row, UNFIT, f"{spec.outcome} holds a NUL character")
            judged.ids[row] = ""
        for row in np.flatnonzero(text_bytes(batch.column(spec.outcome)) > LONGEST_ID).tolist():
            judged.hold(row, UNFIT, f"{spec.outcome} must have at most {LONGEST_ID:,} bytes")
    return judged


def _read_reward(judged: Judged, spec: Spec, batch: Any) -> None:
    """Read the columns of the reward, and sum them up where there are several."""
    reward = spec.reward
    terms = np.column_stack(
        [_read(judged, column, reward, batch, optional=False) for column in reward.columns]
    )
    judged.cells[:, 0] = weighted(reward, terms)
    if reward.sum is not None:
        judged.cells[:, 1 : 1 + len(reward.columns)] = terms
        # Weights may make of numbers that can be learned from one that cannot.
        for row in np.flatnonzero(np.abs(judged.values) >= LARGEST_NUMBER).tolist():
            why = f"{reward.label} must be below {LARGEST_NUMBER:g} in size"
            judged.hold(row, UNFIT, Reason(why, f"; received {judged.values[row]:g}"))


def weighted(reward: Reward, terms: Floats) -> Floats:
    """Return the reward that columns, shape (n, columns), add up to."""
    if reward.sum is None:
        return terms[:, 0]
    total = np.zeros(len(terms))
    for place, weight in enumerate(reward.sum.values()):
        total = total + weight * terms[:, place]
    return total


def _read(judged: Judged, column: str, kind: Measured, batch: Any, *, optional: bool) -> Floats:
    """Read a column of numbers, holding the rows whose number cannot be read."""
    form = None if kind.format is None else NumberFormat.of(kind.format)
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
    """Hold rows of unknown units, of other waves than they say, and out of the declared range.

    Parameters
    ----------
    spec
        The campaign's spec.
    judged, batch
        The rows as read, and their file's columns.
    numbers, waves
        Each unit's number, -1 where there is none, and its wave.
    """
    judged.numbers = numbers
    for row in np.flatnonzero(numbers < 0).tolist():
        judged.hold(row, UNFIT, "no such unit in this campaign")
    _hold_outside(judged, spec.reward.label, spec.reward, judged.values, missing=False)
    for metric, values in zip(spec.metrics, metric_cells(spec, judged.cells).T, strict=True):
        _hold_outside(judged, metric.column, metric, values, missing=True)
    if WAVE in batch.schema.names and names_wave(spec):
        _hold_wrong_waves(judged, batch.column(WAVE), waves)


def names_wave(spec: Spec) -> bool:
    """Say whether a column called wave would be that of the units' waves."""
    own = (*spec.reward.columns, *(metric.column for metric in spec.metrics), spec.outcome)
    return WAVE not in (*own, *spec.features.columns)


def metric_cells(spec: Spec, cells: Floats) -> Floats:
    """Return the metrics alone, of cells or of parts."""
    return cells[:, cells.shape[1] - len(spec.metrics) :]


def _hold_outside(
    judged: Judged, label: str, kind: Reward | Metric, values: Floats, *, missing: bool
) -> None:
    """Hold the rows whose number is not within the declared range."""
    if kind.range is None:
        return
    low, high = kind.range
    outside = ~((values >= low) & (values <= high)) & ~(missing & np.isnan(values))
    for row in np.flatnonzero(outside).tolist():
        why = f"{label} must be between {low:g} and {high:g}"
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
    """Say for each row whether two outcomes are the same, in what is missing too."""
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
    """Compare rows that could be outcomes with what is known, and with earlier rows.

    A file that has two different outcomes of a unit does not say which is meant: only the first is
    taken, with `correct` too.

    Parameters
    ----------
    judged
        The rows.
    versions, known
        The newest version and cells that are known of each candidate's unit; 0 and NaN for none.
    parts
        What the cells after the reward are called.
    correct
        Whether another outcome replaces the known one.
    places, earlier
        Where each candidate stands in the file, and where its unit's outcome stands in an earlier
        piece of it, 0 where it does not.
    place
        What places in the file are called.
    """
    rows = judged.candidates
    numbers, cells = judged.numbers[rows], judged.cells[rows]
    # A row stands alone where it is the first of its unit in this piece of the file.
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
    # Units that stand in the file more than once are rare; they are taken one by one.
    for row in np.flatnonzero(~alone).tolist():
        # What the unit has by now: the first row's cells if it was taken, else what was known.
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
    """Hold a row of a unit that has another outcome in the same file."""
    twice, rest = (
        "stands twice in this file",
        "with different values; sum or choose before recording",
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
    """Compare rows that have outcome ids with what is known, and with earlier rows.

    An id belongs to the unit of the first row with it that is accepted, so that what becomes
    of a row depends on what became of those before it.

    Parameters
    ----------
    judged, versions, known, parts, correct
        See :func:`compared`.
    owners
        The unit number of every outcome id that was accepted; grows here.
    name
        What the column of outcome ids is called.
    """
    assert judged.ids is not None
    current: dict[int, tuple[int, Floats]] = {}
    for place, row in enumerate(judged.candidates.tolist()):
        number, cells, key = int(judged.numbers[row]), judged.cells[row], judged.ids[row]
        version, has = current.get(number, (int(versions[place]), known[place]))
        if owners.get(key, number) != number:
            kind = f"{name} was recorded for another unit already"
            reason = f"{name} {key!r} was recorded for another unit already"
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
    """Hold a row of a unit that has another outcome, and name the first number that differs."""
    received = judged.cells[row]
    place = int(np.argmin((known == received) | (np.isnan(known) & np.isnan(received))))
    what = f"the {('outcome', *parts)[place]}" if place else "the outcome"
    has, got = (
        "none" if np.isnan(cell) else f"{cell:g}" for cell in (known[place], received[place])
    )
    reason = f"the unit has {what} {has} already; received {got}"
    judged.hold(row, OTHER, reason, kind="the unit has another outcome already")
