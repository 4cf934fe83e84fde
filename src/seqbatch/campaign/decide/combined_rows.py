"""Combine the logged rows of a unit into one outcome: sum, count, any, first, last or max.

A row counts for a metric if it has a value, and if its date is within the metric's window after the
unit's assignment. Rows are combined one after the other in the order of the record, so that a
verification gets the same bits.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from seqbatch.campaign.decide.row_verdicts import metric_cells
from seqbatch.campaign.files.date_format import DAY
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.logged_rows import logged_of, that_count, together, with_ids
from seqbatch.campaign.record.store import LoggedRows, Reader
from seqbatch.campaign.spec.metrics import Metric
from seqbatch.campaign.spec.spec import Spec
from seqbatch.core.arrays import Bools, Floats, Integers

# ----------------------------------------------------------------------
# The window in which a row counts.


@dataclass(frozen=True, eq=False)
class AssignmentTimes:
    """When each unit was assigned, by its number.

    Parameters
    ----------
    firsts, times
        The first number of each chunk of units, and the time of its assignment in microseconds
        since 1970.
    """

    firsts: Integers
    times: Floats

    @classmethod
    def of(cls, reader: Reader) -> "AssignmentTimes":
        """Read the times of all assignments."""
        extents = reader.extents()
        when = {event: _time(reader.event(event).at) for event in {e.event for e in extents}}
        return cls(
            np.array([extent.first for extent in extents], dtype=np.int64),
            np.array([when[extent.event] for extent in extents], dtype=np.float64),
        )

    def of_units(self, numbers: Integers) -> Floats:
        """Return the times of the assignments of some units."""
        return self.times[np.searchsorted(self.firsts, numbers, side="right") - 1]


def _time(at: str) -> int:
    """Return the time of an event in microseconds since 1970."""
    since = datetime.fromisoformat(at) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def sides(metric: Metric, rows: LoggedRows, assigned: AssignmentTimes) -> Integers:
    """Return for each row -1 if it is dated before the metric's window, 1 after it, else 0.

    A date without a time counts from the day of the assignment to the day on which the window ends.
    """
    if metric.within is None:
        return np.zeros(len(rows), dtype=np.int64)
    opens = assigned.of_units(rows.numbers)
    closes = opens + metric.window.total_seconds() * 1e6
    days = rows.days
    opens = np.where(days, opens - opens % DAY, opens)
    closes = np.where(days, closes - closes % DAY, closes)
    found: Integers = (rows.times > closes).astype(np.int64) - (rows.times < opens)
    return found


def counting(spec: Spec, rows: LoggedRows, assigned: AssignmentTimes) -> Bools:
    """Return which rows count for which metric, shape (n, metrics)."""
    there = ~np.isnan(metric_cells(spec, rows.cells))
    for place, metric in enumerate(spec.metrics.values()):
        if metric.within is not None:
            there[:, place] &= sides(metric, rows, assigned) == 0
    return there


def outside_windows(
    spec: Spec, rows: LoggedRows, assigned: AssignmentTimes
) -> dict[str, tuple[int, int]]:
    """Return how many rows are dated before and after each window, by its declared length."""
    cells, found = metric_cells(spec, rows.cells), {}
    metrics = list(spec.metrics.values())
    for within in dict.fromkeys(metric.within for metric in metrics if metric.within):
        places = [place for place, metric in enumerate(metrics) if metric.within == within]
        there = ~np.isnan(cells[:, places]).all(axis=1)
        side = sides(metrics[places[0]], rows, assigned)[there]
        found[within] = int((side < 0).sum()), int((side > 0).sum())
    return {within: counts for within, counts in found.items() if any(counts)}


# ----------------------------------------------------------------------
# The outcome of each unit.


def by_date(metric: Metric) -> bool:
    """Return whether the dates of rows decide which of them counts."""
    return metric.rows in ("first", "last") and metric.date is not None


def combined(
    spec: Spec, rows: LoggedRows, assigned: AssignmentTimes, units: Integers, before: Floats
) -> Floats:
    """Return the metrics of units after some rows, shape (units, metrics), NaN if there are none.

    Parameters
    ----------
    spec
        The campaign's spec.
    rows
        New rows of these units, in the order of the record; or all of their rows.
    assigned
        When units were assigned.
    units
        The units' numbers, in order.
    before
        Their metrics before these rows; NaN to combine all of their rows. Dates compare only the
        given rows.
    """
    places = np.searchsorted(units, rows.numbers)
    cells, counts = metric_cells(spec, rows.cells), counting(spec, rows, assigned)
    made = before.copy()
    for place, metric in enumerate(spec.metrics.values()):
        there = np.flatnonzero(counts[:, place])
        if not len(there):
            continue
        if by_date(metric):
            there = there[_dated(rows.take(there))]
        made[:, place] = _combined(metric, places[there], cells[there, place], before[:, place])
    return made


def _dated(rows: LoggedRows) -> Integers:
    """Return the order of rows by date; rows of the same date are in the order of their ids."""
    order: Integers = (
        pa.table({"time": rows.times, "key": rows.keys, "place": np.arange(len(rows))})
        .sort_by([("time", "ascending"), ("key", "ascending"), ("place", "ascending")])["place"]
        .to_numpy()
    )
    return order


def _combined(metric: Metric, places: Integers, values: Floats, before: Floats) -> Floats:
    """Return one metric of all units, from the values of rows and the places of their units."""
    made = before.copy()
    match metric.rows:
        case "sum" | "count":
            added = np.ones(len(values)) if metric.rows == "count" else values
            known = np.flatnonzero(~np.isnan(before))
            # Weights are added one after the other, the known sum first.
            total = np.bincount(
                np.concatenate([known, places]),
                weights=np.concatenate([before[known], added]),
                minlength=len(before),
            )
            made[places] = total[places]
        case "any" | "max":
            np.fmax.at(made, places, values)
        case "first":
            # In reverse order: a unit's first row is written last, and stays.
            fresh = np.isnan(before[places])
            made[places[fresh][::-1]] = values[fresh][::-1]
        case _:
            # Without `rows`, a second row of a unit is a correction, or has the same value.
            made[places] = values
    return made + 0.0


def combined_anew(
    spec: Spec, rows: LoggedRows, assigned: AssignmentTimes, units: Integers, before: Floats
) -> Floats:
    """Return the metrics of units from all of their logged rows, in the order of the record.

    A metric without any row stays as it was. If corrections leave no row that counts, the unit
    counts as one without a row.

    Parameters
    ----------
    spec, rows, assigned, units, before
        As for :func:`combined`.
    """
    nothing = np.full(before.shape, np.nan)
    made = combined(spec, that_count(rows), assigned, units, nothing)
    places, there = np.searchsorted(units, rows.numbers), ~np.isnan(metric_cells(spec, rows.cells))
    for place, metric in enumerate(spec.metrics.values()):
        logged = np.zeros(len(units), dtype=np.bool_)
        logged[places[there[:, place]]] = True
        left = np.isnan(made[:, place]) & ~np.isnan(before[:, place])
        made[left & ~logged, place] = before[left & ~logged, place]
        made[left & logged, place] = _without_rows(metric)
    return made


def after_rows(
    reader: Reader, now: Situation, rows: LoggedRows, assigned: AssignmentTimes, units: Integers,
    before: Floats,
) -> Floats:  # fmt: skip
    """Return the metrics of units after an event that logged some rows.

    Usually the new rows are added to what is known. All rows are combined again if rows were
    replaced, if dates decide, or if a setting was amended since earlier rows were recorded.

    Parameters
    ----------
    reader, now
        The record, and the campaign's state before the event.
    rows, assigned, units, before
        As for :func:`combined`.
    """
    spec = now.spec
    replaced = bool(((rows.versions > 1) & with_ids(rows.keys)).any())
    cells = metric_cells(spec, rows.cells).T
    if not replaced and not any(
        (by_date(metric) or metric.name in now.recombined) and not np.isnan(values).all()
        for metric, values in zip(spec.metrics.values(), cells, strict=True)
    ):
        return combined(spec, rows, assigned, units, before)
    past = logged_of(reader, units, now.assigned, parts=len(spec.parts), until=now.sequence)
    return combined_anew(spec, together([past, rows]), assigned, units, before)


def _without_rows(metric: Metric) -> float:
    """Return the value of a unit that has no row left; NaN if it cannot be said."""
    if metric.absent is not None:
        return metric.absent
    return 0.0 if metric.rows in ("sum", "count", "any") else np.nan
