"""Orders as a dictionary of lists: what several rows of a unit add up to, said plainly."""

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta


@dataclass(frozen=True)
class Order:
    """One row of an orders file; `when` is a date or a time with a zone."""

    id: str
    unit: str
    amount: float | None
    when: date | datetime | None


def instant(when):
    """Return a date or time as an instant: a day as its first."""
    if isinstance(when, datetime):
        return when
    return datetime.combine(when, time(), UTC)


@dataclass
class Orders:
    """The orders of a campaign by id, in the order in which they were recorded.

    Parameters
    ----------
    assigned
        When each unit was assigned.
    within
        How long after it an order counts; None for always.
    """

    assigned: dict
    within: timedelta | None = None
    orders: dict = field(default_factory=dict)

    def record(self, rows, *, correct=False):
        """Return how many rows were accepted, duplicate, conflict, quarantined and outside."""
        counts = dict.fromkeys(("accepted", "duplicate", "conflict", "quarantined", "outside"), 0)
        seen = set()
        for row in rows:
            counts[self.verdict(row, seen, correct=correct)] += 1
        return counts

    def verdict(self, row, seen, *, correct):
        """Return the verdict on a row, and keep it if it counts."""
        known = self.orders.get(row.id)
        if row.unit not in self.assigned:
            return "quarantined"
        if known is not None:
            if known.unit != row.unit:
                return "conflict"
            # An empty cell says nothing.
            amount = known.amount if row.amount is None else row.amount
            row = replace(row, amount=amount)
            if row == known:
                return "duplicate"
            differs = known.amount not in (None, amount) or known.when != row.when
            if row.id in seen or (differs and not correct):
                return "conflict"
        # A correction counts where it stands in the record.
        self.orders.pop(row.id, None)
        self.orders[row.id] = row
        seen.add(row.id)
        return "accepted" if self.inside(row) else "outside"

    def inside(self, row):
        """Return whether an order counts: a day from the assignment's to that of the end."""
        if self.within is None:
            return True
        start = self.assigned[row.unit]
        end = start + self.within
        if isinstance(row.when, datetime):
            return start <= row.when <= end
        return start.date() <= row.when <= end.date()

    def of(self, unit):
        """Return the orders of a unit that count."""
        return [row for row in self.orders.values() if row.unit == unit and self.inside(row)]

    def value(self, unit, rows, *, dated):
        """Return what the orders of a unit add up to, None if there are none."""
        found = self.of(unit)
        if not found:
            return None
        if dated and rows in ("first", "last"):
            found.sort(key=lambda row: (instant(row.when), row.id))
        if rows == "count":
            return float(len(found))
        if rows == "any":
            return 1.0
        amounts = [row.amount for row in found if row.amount is not None]
        if not amounts:
            return None
        match rows:
            case "sum":
                total = 0.0
                for amount in amounts:
                    total += amount
                return total
            case "first":
                return amounts[0]
            case "last":
                return amounts[-1]
            case "max":
                return max(amounts)
        raise ValueError(rows)
