"""Where things stand in a page's pictures, in percent of their width. The templates draw them."""

from collections.abc import Sequence
from dataclasses import dataclass

from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.recommending import around, says
from seqbatch.campaign.views.reporting.pictures import Bar
from seqbatch.campaign.views.status import Status
from seqbatch.display import number

#: Colours there are; further actions take them again, and their numbers tell them apart.
SERIES = 8
#: Narrower parts of a bar have no number in them, in percent.
NARROW = 9.0
MARGIN = 4.0


@dataclass(frozen=True)
class Part:
    """A part of a bar: an action's share of a wave."""

    place: int
    action: str
    units: int
    start: float
    width: float

    @property
    def series(self) -> int:
        """Its colour."""
        return self.place % SERIES + 1

    @property
    def label(self) -> str:
        """What stands in it."""
        return f"{self.width:.0f}%" if self.width >= NARROW else ""


@dataclass(frozen=True)
class Shares:
    """A wave's units, shared out among the actions."""

    wave: int
    parts: Sequence[Part]

    @property
    def words(self) -> str:
        """The same for those who do not see it."""
        told = ", ".join(f"{part.action} {part.width:.0f}%" for part in self.parts)
        return f"Wave {self.wave}: {told}"


def shares(status: Status) -> list[Shares]:
    """Return how the units of each wave were shared out."""
    names = list(dict.fromkeys(row.action for row in status.actions))
    drawn = []
    for wave in dict.fromkeys(row.wave for row in status.actions):
        rows = [row for row in status.actions if row.wave == wave]
        total, start, parts = sum(row.units for row in rows), 0.0, []
        for row in rows:
            width = 100 * row.units / total if total else 0.0
            parts.append(Part(names.index(row.action), row.action, row.units, start, width))
            start += width
        if total:
            drawn.append(Shares(wave, parts))
    return drawn


@dataclass(frozen=True)
class Line:
    """An interval: its words, what it says, and where it stands."""

    action: str
    told: str
    says: str
    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Lifts:
    """Intervals below one another.

    Parameters
    ----------
    lines
        From top to bottom.
    zero
        Where no difference stands.
    ends
        What the left and the right edge stand for.
    title, words
        What the numbers are, and all of it for those who do not see it.
    """

    lines: Sequence[Line]
    zero: float
    ends: tuple[str, str]
    title: str
    words: str


def lifts(found: Findings) -> Lifts | None:
    """Return what actions bring over the control, the best on top; None where nothing is known."""
    measure = found.measure
    sign = 1 if measure.direction == "min" else -1
    known = sorted(
        (lift for lift in found.lifts if lift.interval.known),
        key=lambda lift: sign * lift.interval.estimate,
    )
    if not known:
        return None
    bars = [
        Bar.of(measure, lift.action, around(lift), says=says(found, around(lift))) for lift in known
    ]
    low = min(0.0, *(bar.interval[1] for bar in bars))
    high = max(0.0, *(bar.interval[2] for bar in bars))

    def place(value: float) -> float:
        return MARGIN + (100 - 2 * MARGIN) * (value - low) / ((high - low) or 1.0)

    lines = [Line(bar.action, bar.told, bar.says, *map(place, bar.interval)) for bar in bars]
    title = f"{measure.head}, compared with {found.control}"
    words = f"{title}: {'; '.join(bar.words for bar in bars)}."
    return Lifts(lines, place(0.0), (number(low, 3), number(high, 3)), title, words)
