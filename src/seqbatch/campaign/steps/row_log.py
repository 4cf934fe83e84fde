"""Log the rows of an outcome file, and combine them into the outcomes of their units."""

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from seqbatch.campaign.decide.combined_rows import (
    AssignmentTimes,
    after_rows,
    counting,
    outside_windows,
)
from seqbatch.campaign.decide.outcome_columns import OutcomeColumns
from seqbatch.campaign.decide.repeated_rows import (
    Equal,
    EqualRows,
    compared_by_content,
    compared_by_id,
    content_keys,
    equal,
    id_keys,
)
from seqbatch.campaign.decide.row_verdicts import (
    COUNTS,
    OUT,
    TAKEN,
    UNFIT,
    Judged,
    KnownOutcomes,
    SecondRow,
    clashes,
    first_places,
    hold_another,
    metric_cells,
    outcome_cells,
    outside,
)
from seqbatch.campaign.files.column_values import Reason
from seqbatch.campaign.files.reading import CHUNK
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.logged_rows import logged_of, together, with_ids
from seqbatch.campaign.record.store import Change, KnownRows, LoggedRows
from seqbatch.campaign.spec.input_limits import LARGEST_NUMBER
from seqbatch.core.arrays import Bools, Floats, Integers, Places

#: How many equal rows, or rows of one unit, are named in a refusal.
NAMED = 1_000


class UnfitUnitsError(Exception):
    """Units whose rows cannot be combined: their rows of this file must be held.

    Rows are stored while they are read, but sums are known only after the last row. The file is
    then recorded again, without the rows of these units.
    """

    def __init__(self, reasons: dict[int, str]) -> None:
        super().__init__()
        self.reasons = reasons


class SameFileError(Exception):
    """A file that was recorded before, row by row: its rows must not count again."""


@dataclass
class EqualCounts:
    """How many rows without an id equal another one, and the first of them.

    Parameters
    ----------
    in_file, in_record
        How many equal an earlier row of the file, and how many one that was recorded before.
    examples
        The line, the unit and the line of the equal row: 0 if it is in an earlier piece, -1 if it
        was recorded before.
    """

    in_file: int = 0
    in_record: int = 0
    examples: list[tuple[int, str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Combined:
    """The outcomes of units that changed by the rows of a file.

    Parameters
    ----------
    units, numbers
        The ids and the numbers of the units, by number.
    versions, cells
        The new version of each outcome, and its cells.
    fresh
        Which of them had no reward before, and did not count as absent.
    """

    units: pa.Array
    numbers: Integers
    versions: Integers
    cells: Floats
    fresh: Bools

    def __len__(self) -> int:
        return len(self.numbers)


class RowLog:
    """The logged rows of one file within its transaction.

    Parameters
    ----------
    change, now
        The transaction, and the campaign's state before it.
    columns
        What the file's columns mean.
    correct, equal_rows
        Whether rows replace recorded ones with the same id, and what equal rows without ids mean.
    unfit
        Units whose rows must be held, with the reason.
    """

    def __init__(
        self,
        change: Change,
        now: Situation,
        columns: OutcomeColumns,
        *,
        correct: bool,
        equal_rows: EqualRows | None,
        unfit: dict[int, str],
    ) -> None:
        self._change, self._now, self._spec = change, now, now.spec
        self._columns, self._correct, self._equal_rows = columns, correct, equal_rows
        self._unfit = unfit
        self._units: list[pa.Array] = []
        self._rows: list[LoggedRows] = []
        self._lines: list[Integers] = []
        self._digest = blake2b(digest_size=20)
        self.equal = EqualCounts()
        #: How many rows are dated before and after each window, by its declared length.
        self.windows: dict[str, tuple[int, int]] = {}
        #: How many rows replace a recorded one.
        self.corrected = 0

    @property
    def event(self) -> int:
        """The number of the file's event."""
        return self._now.sequence + 1

    @property
    def count(self) -> int:
        """How many rows were logged."""
        return sum(map(len, self._rows))

    @property
    def delivery(self) -> str:
        """A hash of all rows in their order, if they have no ids."""
        return "" if self._columns.row_id else self._digest.hexdigest()

    @cached_property
    def _assigned(self) -> AssignmentTimes:
        return AssignmentTimes.of(self._change)

    def judge(self, judged: Judged, lines: Integers) -> None:
        """Give the candidates of a piece their verdicts, and index those that are logged."""
        judged.logged = judged.contents(self._spec)
        judged.keys = self._keys(judged, judged.logged)
        if self._columns.row_id is not None:
            self._compare_ids(judged, self._columns.row_id)
            self._hold(judged, COUNTS)
        else:
            self._hold(judged, TAKEN)
            self._compare_contents(judged, lines)
        self._log(judged, lines)

    def _compare_ids(self, judged: Judged, row_id: str) -> None:
        assert judged.logged is not None
        rows, known = self._looked_up(judged)
        judged.logged[rows] = compared_by_id(
            self._spec, judged, judged.logged[rows], known,
            name=row_id, event=self.event, correct=self._correct,
        )  # fmt: skip

    def _compare_contents(self, judged: Judged, lines: Integers) -> None:
        assert judged.keys is not None
        rows, known = self._looked_up(judged)
        keys = judged.keys.take(rows)
        self._digest.update("".join(keys.to_pylist()).encode())
        found = compared_by_content(
            judged, keys, known, event=self.event, equal_rows=self._equal_rows
        )
        self._note_equal(judged.units.take(rows), found, keys, lines[rows])

    def _looked_up(self, judged: Judged) -> tuple[Places, KnownRows]:
        """Return the candidates, and the logged rows with the same keys."""
        assert judged.keys is not None
        rows = judged.candidates
        parts = len(self._spec.parts)
        return rows, self._change.known_rows(judged.keys.take(rows), parts=parts)

    def _keys(self, judged: Judged, contents: Floats) -> pa.Array:
        if self._columns.row_id is not None:
            assert judged.ids is not None
            return id_keys(self._columns.row_id, judged.ids)
        return content_keys(judged.numbers, contents)

    def _note_equal(self, units: pa.Array, found: Equal, keys: pa.Array, lines: Integers) -> None:
        """Count the rows that equal another one, and keep the first of them."""
        self.equal.in_file += int(found.in_file.sum())
        self.equal.in_record += int((found.in_record & ~found.in_file).sum())
        some = np.flatnonzero(found.in_file | found.in_record)[: NAMED - len(self.equal.examples)]
        first = first_places(keys.dictionary_encode().indices.to_numpy())
        for row in some.tolist():
            place = int(first[row])
            earlier = int(lines[place]) if place < row else 0 if found.in_file[row] else -1
            self.equal.examples.append((int(lines[row]), units[row].as_py(), earlier))

    def _hold(self, judged: Judged, verdict: int) -> None:
        """Hold rows of units whose rows cannot be combined, among the rows with this verdict."""
        if self._unfit:
            for row in np.flatnonzero(judged.verdicts == verdict).tolist():
                if (why := self._unfit.get(int(judged.numbers[row]))) is not None:
                    judged.hold(row, UNFIT, why)
        if not self._correct and (self._single or self._amended):
            self._hold_known(judged, np.flatnonzero(judged.verdicts == verdict))

    def _hold_known(self, judged: Judged, rows: Places) -> None:
        """Hold rows whose unit has a different value of a metric without `rows`.

        A value that was recorded before `rows` was declared does not come from logged rows. It is
        unknown whether a new row is a part of it, so the new row is held, too.
        """
        numbers, received = judged.numbers[rows], judged.metrics[rows]
        known = self._known(numbers).metrics
        differs = np.zeros(known.shape, dtype=np.bool_)
        single, amended = list(self._single), list(self._amended)
        differs[:, single] = clashes(known, received)[:, single]
        for place, logged in self._amended.items():
            differs[:, place] |= ~np.isnan(known[:, place]) & ~logged[numbers]
        differs[:, amended] &= ~np.isnan(received[:, amended])
        for row in np.flatnonzero(differs.any(axis=1)).tolist():
            hold_another(
                self._spec, judged, int(rows[row]), np.where(differs[row], known[row], np.nan)
            )

    @cached_property
    def _single(self) -> tuple[int, ...]:
        """The places of the file's metrics that have one row for each unit."""
        names = list(self._spec.metrics)
        return tuple(names.index(one.name) for one in self._columns.metrics if one.rows is None)

    @cached_property
    def _amended(self) -> dict[int, Bools]:
        """The file's metrics whose settings on rows were amended, and who has logged rows."""
        now, names = self._now, list(self._spec.metrics)
        changed = [one for one in self._columns.metrics if one.name in now.recombined and one.rows]
        if not changed:
            return {}
        every = logged_of(
            self._change, np.arange(now.assigned), now.assigned,
            parts=len(self._spec.parts), until=now.sequence,
        )  # fmt: skip
        there, made = ~np.isnan(metric_cells(self._spec, every.cells)), {}
        for metric in changed:
            place = names.index(metric.name)
            made[place] = np.zeros(now.assigned, dtype=np.bool_)
            made[place][every.numbers[there[:, place]]] = True
        return made

    def _log(self, judged: Judged, lines: Integers) -> None:
        """Index the rows that are logged, and keep them until they are combined."""
        assert judged.logged is not None
        assert judged.keys is not None
        rows = np.flatnonzero(judged.verdicts == COUNTS)
        made = LoggedRows(
            judged.keys.take(rows), judged.versions[rows], judged.numbers[rows], judged.logged[rows]
        )
        out = ~counting(self._spec, made, self._assigned).any(axis=1)
        judged.verdicts[rows[out]] = OUT
        for within, (before, after) in outside_windows(self._spec, made, self._assigned).items():
            known = self.windows.get(within, (0, 0))
            self.windows[within] = known[0] + before, known[1] + after
        self.corrected += int(((made.versions > 1) & with_ids(made.keys)).sum())
        self._change.index_rows(self.event, made)
        self._rows.append(made)
        self._units.append(judged.units.take(rows))
        self._lines.append(lines[rows])

    def _known(self, numbers: Integers) -> KnownOutcomes:
        """Return the outcomes of units that were recorded before this file."""
        parts = len(self._spec.parts)
        blocks = range(0, max(len(numbers), 1), CHUNK)
        found = [self._change.outcomes(numbers[at : at + CHUNK], parts=parts) for at in blocks]
        versions, cells, absent = (np.concatenate(each) for each in zip(*found, strict=True))
        return KnownOutcomes.of(self._spec, (versions, cells, absent))

    # ------------------------------------------------------------------
    # After the last row.

    def seconds(self) -> list[SecondRow]:
        """Return the rows with a value of a metric without `rows` whose unit has another one."""
        rows, lines, found = together(self._rows), np.concatenate(self._lines), []
        cells, counts = (
            metric_cells(self._spec, rows.cells),
            counting(self._spec, rows, self._assigned),
        )
        units, names = pa.concat_arrays(self._units), list(self._spec.metrics)
        for place in self._single:
            there = np.flatnonzero(counts[:, place])
            order = there[np.argsort(rows.numbers[there], kind="stable")]
            later = np.flatnonzero(rows.numbers[order[1:]] == rows.numbers[order[:-1]])
            for one, other in zip(order[later].tolist(), order[later + 1].tolist(), strict=True):
                values = float(cells[one, place]), float(cells[other, place])
                unit = units[other].as_py()
                found.append(
                    SecondRow(int(lines[other]), int(lines[one]), unit, names[place], values)
                )
        return sorted(found, key=lambda second: second.line)

    def combined(self) -> Combined:
        """Return the units' new outcomes; raise UnfitUnitsError if rows cannot be combined."""
        spec, rows = self._spec, together(self._rows)
        numbers, first = np.unique(rows.numbers, return_index=True)
        known = self._known(numbers)
        made = after_rows(self._change, self._now, rows, self._assigned, numbers, known.metrics)
        cells = outcome_cells(spec, made, known.counted)
        if unfit := self._beyond(numbers, made, known.metrics, cells):
            raise UnfitUnitsError(unfit)
        new = np.flatnonzero(~equal(made, known.metrics))
        return Combined(
            pa.concat_arrays(self._units).take(first[new]),
            numbers[new],
            known.versions[new] + 1,
            cells[new],
            ~known.counted[new] & ~np.isnan(cells[new, 0]),
        )

    def _beyond(
        self, numbers: Integers, made: Floats, before: Floats, cells: Floats
    ) -> dict[int, str]:
        """Return the units whose outcome would be impossible, with the reason."""
        found: dict[int, str] = {}
        for place, metric in enumerate(self._spec.metrics.values()):
            total, name = made[:, place], metric.column
            for row in np.flatnonzero(outside(metric, total)).tolist():
                assert metric.limits is not None
                low, high = metric.limits
                rule = f"the unit's total of {name} must be between {low:g} and {high:g}"
                found[int(numbers[row])] = Reason(rule, f"; it would be {total[row]:g}")
            for row in np.flatnonzero(np.isnan(total) & ~np.isnan(before[:, place])).tolist():
                rule = f"no row of the unit would be left with {name} within {metric.within}"
                found[int(numbers[row])] = Reason(rule)
        for row in np.flatnonzero(np.abs(cells[:, 0]) >= LARGEST_NUMBER).tolist():
            rule = f"{self._spec.reward.label} must be below {LARGEST_NUMBER:g} in size"
            found[int(numbers[row])] = Reason(rule, f"; it would be {cells[row, 0]:g}")
        return found
