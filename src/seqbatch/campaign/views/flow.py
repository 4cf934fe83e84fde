"""The flow of units, as CONSORT asks for: assessed, excluded, assigned, lost and analysed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqbatch.campaign.record.store import Event
from seqbatch.chart.chart import EDGE, FONT
from seqbatch.chart.elements import LABEL, TICK, px, rule, width_of, words
from seqbatch.display import cell
from seqbatch.document import Part, Picture, Section, Table

if TYPE_CHECKING:
    from seqbatch.campaign.views.report_results import Material

# ----------------------------------------------------------------------
# The numbers.


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The units of one action.

    Parameters
    ----------
    action, assigned
        The action, and how many units got it.
    left_out
        Units of waves that do not count: open, skipped, or still waiting for outcomes.
    lost
        Units of the other waves without an outcome.
    absent
        Units without a row that count with the declared outcome; they are analysed.
    analysed
        Units of the waves that count with an outcome.
    """

    action: str
    assigned: int
    left_out: int
    lost: int
    absent: int
    analysed: int


@dataclass(frozen=True, kw_only=True)
class Flow:
    """The flow of units through a campaign.

    Parameters
    ----------
    assessed, excluded
        Units assessed before they were assigned, and those excluded, by rule; None and empty if no
        screening was recorded.
    arms
        One for each action.
    """

    assessed: int | None
    excluded: dict[str, int]
    arms: tuple[Arm, ...]

    @property
    def assigned(self) -> int:
        """All units that were assigned."""
        return sum(arm.assigned for arm in self.arms)

    @property
    def other(self) -> int:
        """Units that were assessed, but neither excluded nor assigned."""
        return max((self.assessed or 0) - sum(self.excluded.values()) - self.assigned, 0)

    @property
    def unscreened(self) -> int:
        """Units that were excluded or assigned, but not recorded as assessed."""
        gone = sum(self.excluded.values()) + self.assigned
        return 0 if self.assessed is None else max(gone - self.assessed, 0)


def screened(events: Sequence[Event]) -> tuple[int | None, dict[str, int]]:
    """Return the numbers of all recorded screenings: assessed, and excluded by rule."""
    found = [event.counts for event in events if event.kind == "screen"]
    excluded: Counter[str] = Counter()
    for counts in found:
        excluded.update(counts["excluded"])
    return (sum(counts["assessed"] for counts in found) if found else None), dict(excluded)


def flow_of(of: "Material") -> Flow:
    """Return the flow of a campaign's units."""
    assessed, excluded = screened(of.events)
    counting = set(of.found.waves)
    arms = []
    for action in of.found.actions:
        rows = [row for row in of.status.actions if row.action == action]
        used = [row for row in rows if row.wave in counting]
        assigned, kept = (sum(row.units for row in some) for some in (rows, used))
        absent = sum(row.absent for row in used)
        analysed = sum(row.outcomes for row in used) + absent
        arms.append(
            Arm(action=action, assigned=assigned, left_out=assigned - kept,
                lost=kept - analysed, absent=absent, analysed=analysed)
        )  # fmt: skip
    return Flow(assessed=assessed, excluded=excluded, arms=tuple(arms))


# ----------------------------------------------------------------------
# Its section in the report.


#: The most actions that the picture has room for.
MOST = 6


def flow(of: "Material") -> Section:
    """Return the report's section on the flow of units."""
    made = flow_of(of)
    if not made.assigned and made.assessed is None:
        return Section("flow", "The flow of units", ["No unit has an action yet."])
    parts: list[Part] = []
    if made.assessed is None:
        parts.append("How many units were assessed before they were assigned was not recorded.")
    elif made.unscreened:
        parts.append(
            f"{made.assigned:,} units were assigned and {sum(made.excluded.values()):,} excluded, "
            f"but only {made.assessed:,} were recorded as assessed: screenings of at least "
            f"{made.unscreened:,} are missing."
        )
    rows = [
        [arm.action, arm.assigned, arm.lost, arm.left_out, arm.analysed, arm.absent]
        for arm in made.arms
    ]
    total = [sum(row[place] for row in rows) for place in range(1, 6)]  # type: ignore[misc]
    columns = ("action", "assigned", "no outcome", "waves left out", "analysed", "of these absent")
    if len(made.arms) <= MOST:
        parts.append(Picture(lambda: FlowPicture(made), _in_words(made)))
    parts.append(Table("Units by action", columns, [*rows, ["all", *total]], words=("action",)))
    if made.excluded or made.other:
        others = [("assessed, but not assigned yet", made.other)] if made.other else []
        excluded = [*made.excluded.items(), *others]
        parts.append(Table("Assessed, but not assigned", ("rule", "units"), excluded,
                           words=("rule",)))  # fmt: skip
    parts.append(
        "Analysed are units with an outcome, and units that count with the declared outcome of "
        "absent ones, in the waves that count. Units without an outcome still inform how many are "
        "missing under each action."
    )
    return Section("flow", "The flow of units", parts)


def _in_words(made: Flow) -> str:
    """Return the picture in words."""
    said = [] if made.assessed is None else [
        f"Assessed: {made.assessed:,}; excluded: {sum(made.excluded.values()):,}."]  # fmt: skip
    said.append(f"Assigned: {made.assigned:,}.")
    said += [
        f"{arm.action}: assigned {arm.assigned:,}, no outcome {arm.lost:,}, in waves left out "
        f"{arm.left_out:,}, analysed {arm.analysed:,}."
        for arm in made.arms
    ]
    return " ".join(said)


# ----------------------------------------------------------------------
# The picture.


#: The space between boxes, the height of a line, the margin within a box, its narrowest width.
GAP, LINE, INSIDE, NARROW = 26.0, 18.0, 10.0, 120.0
#: How much wider bold letters are.
BOLD = 1.15
#: The longest text of a line, in letters.
LETTERS = 44


@dataclass(frozen=True)
class FlowPicture:
    """The flow as boxes and arrows: from those assessed down to those analysed, by action."""

    flow: Flow

    def svg(self) -> str:
        """Return the picture as the text of an SVG file."""
        made = self.flow
        columns = [self._column(arm) for arm in made.arms]
        widths = [max(_width(box) for box in column) for column in columns]
        beside = self._beside()
        wide = sum(widths) + GAP * (len(widths) - 1)
        side = 0.0
        top = [f"Assigned: {made.assigned:,}"]
        lead = [] if made.assessed is None else [[f"Assessed: {made.assessed:,}"]]
        narrow = max(_width(box) for box in [*lead, top])
        middle = max(wide / 2, narrow / 2)
        parts, y = [], EDGE
        centre = EDGE + middle
        for box in lead:
            parts.append(_box(box, centre, y))
            below = y + _height(box)
            # The excluded stand beside the arrow from the assessed to the assigned.
            length = _height(beside) + GAP if beside else GAP
            parts.append(_arrow(centre, below, centre, below + length))
            if beside:
                at, left = below + length / 2, centre + max(narrow / 2, 12.0) + GAP
                parts.append(_arrow(centre, at, left, at))
                parts.append(_box(beside, left + _width(beside) / 2, at - _height(beside) / 2))
                side = left + _width(beside) - centre
            y = below + length
        parts.append(_box(top, centre, y))
        y += _height(top)
        bottom, x = y, centre - wide / 2
        for column, width in zip(columns, widths, strict=True):
            at, here = x + width / 2, y + GAP
            parts.append(_arrow(at, y + GAP / 2, at, here))
            for place, box in enumerate(column):
                if place:
                    parts.append(_arrow(at, here, at, here + GAP))
                    here += GAP
                parts.append(_box(box, at, here, width=width))
                here += _height(box)
            bottom, x = max(bottom, here), x + width + GAP
        first, last = centre - wide / 2 + widths[0] / 2, centre + wide / 2 - widths[-1] / 2
        parts.append(rule(centre, y, centre, y + GAP / 2))
        parts.append(rule(min(first, centre), y + GAP / 2, max(last, centre), y + GAP / 2))
        width, height = centre + max(middle, side) + EDGE, bottom + EDGE
        inside = "\n".join(parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{px(width)}" height="{px(height)}" '
            f'viewBox="0 0 {px(width)} {px(height)}" font-family="{FONT}">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n{inside}\n</svg>\n'
        )

    def _beside(self) -> list[str]:
        """Return the lines of the box of those who were not assigned."""
        made = self.flow
        if not (made.excluded or made.other):
            return []
        lines = [f"Excluded: {sum(made.excluded.values()):,}"]
        lines += [f"{_short(rule)}: {count:,}" for rule, count in made.excluded.items()]
        return [*lines, *([f"Not assigned yet: {made.other:,}"] if made.other else [])]

    def _column(self, arm: Arm) -> list[list[str]]:
        gone = [f"No outcome: {arm.lost:,}"]
        if any(one.left_out for one in self.flow.arms):
            gone.append(f"Waves left out: {arm.left_out:,}")
        kept = [f"Analysed: {arm.analysed:,}"]
        if any(one.absent for one in self.flow.arms):
            kept.append(f"of these absent: {arm.absent:,}")
        return [[_short(arm.action), f"assigned: {arm.assigned:,}"], gone, kept]


def _short(text: str) -> str:
    text = cell(text)
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"


def _width(lines: Sequence[str]) -> float:
    sizes = [BOLD * LABEL, *[TICK] * (len(lines) - 1)]
    inside = max(width_of(line, size) for line, size in zip(lines, sizes, strict=True))
    return max(inside + 2 * INSIDE, NARROW)


def _height(lines: Sequence[str]) -> float:
    return len(lines) * LINE + INSIDE


def _box(lines: Sequence[str], centre: float, top: float, *, width: float | None = None) -> str:
    """Return a box of lines below a place; the first line is its title."""
    width = _width(lines) if width is None else width
    made = [
        f'<rect x="{px(centre - width / 2)}" y="{px(top)}" width="{px(width)}" '
        f'height="{px(_height(lines))}" rx="3" fill="white" stroke="#8a8a8a"/>'
    ]
    for place, line in enumerate(lines):
        bold = "" if place else ' font-weight="600"'
        size = TICK if place else LABEL
        made.append(words(line, centre, top + LINE * (place + 1), size, anchor="middle", more=bold))
    return "\n".join(made)


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """Return an arrow down or to the right."""
    tip = f"{px(to_x)},{px(to_y)}"
    back = (
        f"{px(to_x - 4)},{px(to_y - 7)} {px(to_x + 4)},{px(to_y - 7)}"
        if x == to_x
        else f"{px(to_x - 7)},{px(to_y - 4)} {px(to_x - 7)},{px(to_y + 4)}"
    )
    return f'{rule(x, y, to_x, to_y)}<polygon points="{tip} {back}" fill="#8a8a8a"/>'
