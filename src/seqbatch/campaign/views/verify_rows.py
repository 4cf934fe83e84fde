"""Checks of logged rows in a verification: look them up in their index, and combine them again."""

from functools import cached_property

import numpy as np
import pyarrow as pa

from seqbatch.campaign.decide.combined_rows import AssignmentTimes, after_rows, outside_windows
from seqbatch.campaign.decide.erased_units import changed_records
from seqbatch.campaign.decide.repeated_rows import equal
from seqbatch.campaign.decide.row_verdicts import KnownOutcomes, outcome_cells
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.logged_rows import logged_in, together
from seqbatch.campaign.record.outcomes import parts_of
from seqbatch.campaign.record.store import LoggedRows, OutcomeChunk, Reader
from seqbatch.campaign.views.verify_checks import (
    NAMED,
    Discrepancies,
    IndexedRecords,
    PastSituations,
    told,
)
from seqbatch.core.arrays import Floats


class RowChecks:
    """Combines the logged rows of one event after another, and compares the outcomes.

    Parameters
    ----------
    reader, past
        The records, and the campaign's past situations.
    findings
        Collects the differences.
    indexed
        Counts the rows.
    """

    def __init__(
        self, reader: Reader, past: PastSituations, findings: Discrepancies, indexed: IndexedRecords
    ) -> None:
        self._reader, self._past, self._findings, self._indexed = reader, past, findings, indexed
        # The open event, the situation before it, its logged rows, and its outcomes.
        self._event = 0
        self._now: Situation | None = None
        self._rows: list[LoggedRows] = []
        self._made: list[pa.Table] = []
        # The newest version and cells of each unit, and whether it was absent.
        self._versions = np.zeros(0, dtype=np.int64)
        self._cells = np.zeros((0, 0))
        self._absent = np.zeros(0, dtype=np.bool_)

    @cached_property
    def _logs(self) -> bool:
        """Whether rows were logged at all; the newest outcomes are not needed otherwise."""
        return any("logged" in event.payload for event in self._past.events)

    @cached_property
    def _assigned(self) -> AssignmentTimes:
        return AssignmentTimes.of(self._reader)

    def add(self, chunk: OutcomeChunk, outcomes: pa.Table) -> None:
        """Add a chunk: its logged rows, and its rows that are outcomes."""
        if not self._logs:
            return
        if chunk.event != self._event:
            self.finish()
            self._event, self._now = chunk.event, self._past.after(chunk.event - 1)
        assert self._now is not None
        logged = logged_in(chunk, len(self._now.spec.parts))
        if len(logged):
            self._look_up(logged)
            self._rows.append(logged)
        self._made.append(outcomes)

    def _look_up(self, rows: LoggedRows) -> None:
        """Compare logged rows with their index."""
        self._indexed.rows += len(rows)
        if self._reader.derived:
            return
        known = self._reader.known_rows(rows.keys, parts=rows.contents.shape[1] - 3)
        newest = known.versions == rows.versions
        alike = (known.numbers == rows.numbers) & equal(known.contents, rows.contents + 0.0)
        alike &= known.events == self._event
        # A later version of the row is in the index, and is compared with its own record.
        found = (newest & alike) | (known.versions > rows.versions)
        self._indexed.rows_found += int(found.sum())
        for row in np.flatnonzero(~found)[:NAMED].tolist():
            problem = "is not in the index"
            if known.versions[row]:
                problem = f"the index has version {known.versions[row]} with other content"
            place = f"row {rows.keys[row].as_py()!r}, version {rows.versions[row]}"
            self._findings.add(self._event, place, problem)

    def finish(self) -> None:
        """Combine the rows of the last event, and compare them with its outcomes."""
        rows, made, now = self._rows, self._made, self._now
        self._rows, self._made, self._now = [], [], None
        if now is None:
            return
        self._make_room(now.assigned, len(now.spec.parts))
        if rows:
            outcomes = pa.concat_tables(made, promote_options="default")
            self._combine(now, together(rows), outcomes)
        for table in made:
            self._keep(now, table)

    def _combine(self, now: Situation, rows: LoggedRows, made: pa.Table) -> None:
        spec, numbers = now.spec, np.unique(rows.numbers)
        before = KnownOutcomes.of(
            spec, (self._versions[numbers], self._cells[numbers], self._absent[numbers])
        )
        metrics = after_rows(self._reader, now, rows, self._assigned, numbers, before.metrics)
        expected = outcome_cells(spec, metrics, before.counted)
        new = ~equal(metrics, before.metrics)
        stored = np.full(expected.shape, np.nan)
        there = np.isin(made["number"].to_numpy(), numbers)
        places = np.searchsorted(numbers, made["number"].to_numpy()[there])
        stored[places] = cells_of(made, len(spec.parts))[there]
        recorded = np.zeros(len(numbers), dtype=np.bool_)
        recorded[places] = True
        wrong = (recorded != new) | (new & ~equal(stored, expected + 0.0))
        for row in np.flatnonzero(wrong)[:NAMED].tolist():
            place = f"outcome of unit number {numbers[row]}"
            has = told(stored[row].tolist()) if recorded[row] else "nothing"
            problem = f"its rows give {told(expected[row].tolist())}, the record has {has}"
            self._findings.add(self._event, place, problem)
        if self._event in changed_records(self._past.events):
            # Rows of erased units were counted, and are gone.
            return
        windows = outside_windows(spec, rows, self._assigned)
        again = {within: list(counts) for within, counts in windows.items()}
        if (said := self._past.events[self._event - 1].payload.get("windows")) != again:
            problem = f"by their dates {again}, by the event {said}"
            self._findings.add(self._event, "rows outside windows", problem)

    def _keep(self, now: Situation, rows: pa.Table) -> None:
        """Remember the outcomes of an event."""
        numbers, versions = rows["number"].to_numpy(), rows["version"].to_numpy()
        self._absent[numbers[versions == 0]] = True
        order = np.argsort(versions, kind="stable")
        order = order[versions[order] > 0]
        self._versions[numbers[order]] = versions[order]
        self._cells[numbers[order]] = cells_of(rows, len(now.spec.parts))[order]

    def _make_room(self, units: int, parts: int) -> None:
        if (more := units - len(self._versions)) > 0:
            empty = np.full((more, 1 + parts), np.nan)
            self._cells = np.concatenate([self._cells.reshape(-1, 1 + parts), empty])
            self._versions = np.pad(self._versions, (0, more))
            self._absent = np.pad(self._absent, (0, more))


def cells_of(rows: pa.Table, parts: int) -> Floats:
    """Return the cells of recorded outcomes."""
    return np.column_stack([rows["value"].to_numpy(), parts_of(rows, parts)])
