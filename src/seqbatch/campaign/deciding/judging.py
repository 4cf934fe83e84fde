"""A row's verdict: what becomes of one row of an outcome file.

accepted
    The unit's outcome, or with `correct` a new version of it.
duplicate
    The unit has this very outcome already.
conflict
    The unit has another outcome: the row is held, nothing is overwritten.
quarantined
    The row cannot be an outcome (unknown unit, wrong wave, out of range, not a finite number); it
    is kept with its line and the reason.

Rows are judged in three steps: :func:`readable` by themselves, :func:`plausible` against the units
of the campaign, and :func:`compared` or :func:`compared_with_ids` against the outcomes known.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqbatch.campaign.design.limits import LONGEST_ID
from seqbatch.campaign.design.spec import Spec
from seqbatch.campaign.record.outcomes import ACCEPTED, CONFLICT, DUPLICATE, QUARANTINED, VERDICTS
from seqbatch.campaign.tables.columns import MISSING, texts
from seqbatch.campaign.tables.columns import numbers as parsed
from seqbatch.campaign.tables.sizes import text_bytes
from seqbatch.core.arrays import Floats, Integers, Places

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
    units, values, ids
        What the rows say: unit, reward (NaN where it cannot be read) and outcome id, if any.
    numbers
        The units' numbers in the campaign, -1 where there is no such unit.
    verdicts, versions
        What each row becomes, and which version of its unit's outcome, from 1.
    reasons
        Why rows are held, by row.
    """

    units: list[str]
    values: Floats
    ids: list[str] | None
    numbers: Integers
    verdicts: Integers
    versions: Integers
    reasons: dict[int, str]

    def hold(self, row: int, verdict: int, reason: str) -> None:
        """Hold a row, and say why; a row is held for the first reason that was found."""
        self.verdicts[row] = verdict
        self.reasons.setdefault(row, reason)

    @property
    def candidates(self) -> Places:
        """The rows that nothing speaks against so far."""
        return np.flatnonzero(self.verdicts == TAKEN)


def readable(spec: Spec, batch: Any) -> Judged:
    """Read rows of an outcome file, holding those without a unit or a finite number."""
    units, no_unit = texts(batch.column(spec.unit))
    values, no_value = parsed(batch.column(spec.reward.column))
    count = len(units)
    if no_value:
        values = values.copy()
        values[list(no_value)] = np.nan
    judged = Judged(
        units=units,
        values=values,
        ids=None,
        numbers=np.full(count, -1, dtype=np.int64),
        verdicts=np.full(count, TAKEN),
        versions=np.zeros(count, dtype=np.int64),
        reasons={},
    )
    # No unit has an id with a NUL character, and not every database could be asked for one.
    nul = [row for row, unit in enumerate(units) if "\0" in unit]
    for row in nul:
        judged.hold(row, UNFIT, f"{spec.unit} holds a NUL character")
    judged.units = ["" if "\0" in unit else unit for unit in units] if nul else units
    for row, why in no_unit.items():
        judged.hold(row, UNFIT, f"{spec.unit} {why}")
    for row, why in no_value.items():
        judged.hold(row, UNFIT, f"{spec.reward.column} {why}")
    if spec.outcome:
        judged.ids, no_id = texts(batch.column(spec.outcome))
        for row, why in no_id.items():
            judged.hold(row, UNFIT, f"{spec.outcome} {why}")
        for row in [row for row, each in enumerate(judged.ids) if "\0" in each]:
            judged.hold(row, UNFIT, f"{spec.outcome} holds a NUL character")
            judged.ids[row] = ""
        for row in np.flatnonzero(text_bytes(batch.column(spec.outcome)) > LONGEST_ID).tolist():
            judged.hold(row, UNFIT, f"{spec.outcome} must have at most {LONGEST_ID:,} bytes")
    return judged


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
    if spec.reward.range is not None:
        low, high = spec.reward.range
        for row in np.flatnonzero(~((judged.values >= low) & (judged.values <= high))).tolist():
            why = f"{spec.reward.column} must be between {low:g} and {high:g}"
            judged.hold(row, UNFIT, f"{why}; received {judged.values[row]:g}")
    own = (spec.reward.column, spec.outcome, *spec.features.columns)
    if WAVE in batch.schema.names and WAVE not in own:
        _hold_wrong_waves(judged, batch.column(WAVE), waves)


def _hold_wrong_waves(judged: Judged, column: Any, waves: Integers) -> None:
    said, wrong = parsed(column)
    for row, why in wrong.items():
        if why != MISSING:
            received = why.partition("; ")[2]
            judged.hold(row, UNFIT, f"{WAVE} must be a wave's number; {received}")
    for row in np.flatnonzero((judged.numbers >= 0) & (said != waves)).tolist():
        if row not in wrong:
            assigned = f"the unit was assigned in {waves[row]}"
            judged.hold(row, UNFIT, f"wrong wave: {assigned}, the row says {said[row]:g}")


def compared(judged: Judged, versions: Integers, known: Floats, *, correct: bool) -> None:
    """Compare rows that could be outcomes with what is known, and with earlier rows.

    Parameters
    ----------
    judged
        The rows.
    versions, known
        The newest version and value that is known of each candidate's unit; 0 and NaN for none.
    correct
        Whether another value replaces the known one.
    """
    rows = judged.candidates
    numbers, values = judged.numbers[rows], judged.values[rows]
    # A row stands alone where it is the first of its unit in this piece of the file.
    _, firsts, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    alone = firsts[inverse] == np.arange(len(rows))
    has = (versions > 0) & alone
    verdicts = np.full(len(rows), TAKEN)
    verdicts[has & (known == values)] = SAME
    if not correct:
        verdicts[has & (known != values)] = OTHER
    news = versions + 1
    # Units that stand in the file more than once are rare; they are taken one by one.
    current: dict[int, tuple[float, int]] = {}
    for row in np.flatnonzero(~alone).tolist():
        first = int(firsts[inverse[row]])
        # What the unit has by now: the first row's value if it was taken, else what was known.
        start = (values, news) if verdicts[first] == TAKEN else (known, versions)
        value, version = current.get(int(numbers[row]), (start[0][first], start[1][first]))
        if value == values[row]:
            verdicts[row] = SAME
        elif correct:
            value, version = values[row], version + 1
            news[row] = version
        else:
            verdicts[row] = OTHER
        current[int(numbers[row])] = (value, version)
    for row in np.flatnonzero(verdicts == OTHER).tolist():
        has_now = known[row] if versions[row] > 0 else current[int(numbers[row])][0]
        judged.reasons[int(rows[row])] = _has_another(has_now, values[row])
    judged.verdicts[rows] = verdicts
    judged.versions[rows] = np.where(verdicts == TAKEN, news, 0)


def compared_with_ids(
    judged: Judged,
    versions: Integers,
    known: Floats,
    owners: dict[str, int],
    *,
    name: str,
    correct: bool,
) -> None:
    """Compare rows that have outcome ids with what is known, and with earlier rows.

    An id belongs to the unit of the first row with it that is accepted, so that what becomes
    of a row depends on what became of those before it.

    Parameters
    ----------
    judged, versions, known, correct
        See :func:`compared`.
    owners
        The unit number of every outcome id that was accepted; grows here.
    name
        What the column of outcome ids is called.
    """
    assert judged.ids is not None
    current: dict[int, tuple[int, float]] = {}
    for place, row in enumerate(judged.candidates.tolist()):
        number, value, key = int(judged.numbers[row]), judged.values[row], judged.ids[row]
        version, has = current.get(number, (int(versions[place]), known[place]))
        if owners.get(key, number) != number:
            judged.hold(row, OTHER, f"{name} {key!r} was recorded for another unit already")
        elif version and has == value:
            judged.verdicts[row] = SAME
        elif version and not correct:
            judged.hold(row, OTHER, _has_another(has, value))
        else:
            owners[key] = number
            current[number] = (version + 1, value)
            judged.versions[row] = version + 1


def _has_another(known: float, received: float) -> str:
    return f"the unit has the outcome {known:g} already; received {received:g}"
