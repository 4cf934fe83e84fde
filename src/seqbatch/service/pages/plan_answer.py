"""A plan as the dashboard shows it: words, tables and a picture, without what it was made from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from seqbatch.display import Table, counted, number
from seqbatch.planning import Plan
from seqbatch.planning.assumed import assumptions, percent
from seqbatch.planning.rows import Row
from seqbatch.planning.words import chosen, costs_table, describe, tables

#: The picture's height and the room above and below the points, in pixels.
HEIGHT, ABOVE, BELOW = 260, 40, 52


@dataclass(frozen=True)
class Point:
    """A number of waves in the picture: where it stands, in percent from the left and pixels."""

    waves: str
    label: str
    chosen: bool
    x: float
    y: float
    low: float
    high: float
    bound: float | None


@dataclass(frozen=True)
class Picture:
    """Regret against the number of waves, on a logarithmic scale.

    Parameters
    ----------
    points
        From left to right.
    online, online_label
        Where the line of fully online stands, and its value.
    words
        All of it for those who do not see it.
    """

    points: Sequence[Point]
    online: float
    online_label: str
    words: str
    height: int = HEIGHT


@dataclass(frozen=True)
class Wave:
    """A wave of the plan: how it is assigned, and where its units are, in percent of all."""

    number: int
    units: int
    start: float
    width: float
    how: str


@dataclass(frozen=True)
class PlanAnswer:
    """What is shown of a plan.

    Parameters
    ----------
    heading, short
        The plan in a line, and for whoever hears it.
    whole
        Whether it is more than a first answer.
    facts
        The numbers to look at first, each with what it is.
    words, assumed
        The rest in sentences, and what was assumed.
    waves, picture, tables
        The same in parts.
    sizes, actions, randomised
        What a campaign by this plan has.
    """

    heading: str
    short: str
    whole: bool
    facts: Sequence[tuple[str, str]]
    words: Sequence[str]
    assumed: str
    waves: Sequence[Wave]
    picture: Picture
    tables: Sequence[Table]
    sizes: tuple[int, ...]
    actions: int
    randomised: float


def answer_of(plan: Plan) -> PlanAnswer:
    """Return what is shown of a plan; a quick one has no table of wrong guesses."""
    whole = not plan.request.quick
    assumed = assumptions(plan)
    heading, *lines = describe(plan).removesuffix(assumed).strip().split("\n")
    told = [line for line in lines if not line.startswith(" ")]
    sizes = ", ".join(f"{size:,}" for size in plan.grid.sizes)
    return PlanAnswer(
        heading=in_waves(heading.partition(": ")[2].removesuffix(".")),
        short=f"{counted(plan.batches, 'wave')} of {sizes} units",
        whole=whole,
        facts=_facts(plan),
        words=[in_waves(line) for line in told],
        assumed=in_waves(assumed),
        waves=_waves(plan, [line for line in lines if line.startswith(" ")]),
        picture=_picture(plan),
        tables=[_told(table) for table in (tables(plan) if whole else [costs_table(plan)])],
        sizes=tuple(plan.grid.sizes),
        actions=plan.model.actions,
        randomised=plan.model.conduct.randomised,
    )


def in_waves(text: str) -> str:
    """Return a text about a campaign: what theory calls a batch is a wave here.

    >>> in_waves("3 batches, as asked for. More batches (max_batches) may.")
    '3 waves, as asked for. More waves may.'
    """
    text = text.replace(" (max_batches)", "")
    for theory, campaign in (("batches", "waves"), ("batch", "wave")):
        text = text.replace(theory, campaign)
        text = text.replace(theory.capitalize(), campaign.capitalize())
    return text


def _told(table: Table) -> Table:
    columns = tuple("waves" if name == "M" else in_waves(name) for name in table.columns)
    return replace(table, title=in_waves(table.title), columns=columns)


def _facts(plan: Plan) -> list[tuple[str, str]]:
    found, row = plan.detection, plan.row
    facts = [
        ("waves", str(plan.batches)),
        ("first wave", counted(plan.grid.sizes[0], "unit")),
        ("of the possible gain", f"{row.earned:.0%}"),
        ("randomised", percent(plan.model.conduct.randomised)),
    ]
    return facts if found is None else [*facts, ("lift found, 80% power", number(found.lift_80, 3))]


def _waves(plan: Plan, lines: Sequence[str]) -> list[Wave]:
    """Return the waves; how each is assigned stands behind the first comma of its line's share."""
    made, start = [], 0
    for place, (size, line) in enumerate(zip(plan.grid.sizes, lines, strict=True), start=1):
        share = 100 / plan.units
        how = line.partition("), ")[2]
        made.append(Wave(place, size, start * share, size * share, how))
        start += size
    return made


def _picture(plan: Plan) -> Picture:
    rows = plan.rows
    known = [value for row in (*rows, plan.online) for value in (*_ends(row), row.lower_bound)]
    shown = [math.log(value) for value in known if value > 0]
    low, high = min(shown), max(shown)
    room = HEIGHT - ABOVE - BELOW

    def at(value: float) -> float:
        return round(ABOVE + room * (high - math.log(value)) / ((high - low) or 1.0), 1)

    points = []
    for place, row in enumerate(rows):
        below, above = _ends(row)
        x = round(100 * (place + 0.5) / len(rows), 2)
        bound = at(row.lower_bound) if row.lower_bound > 0 else None
        here, label = row.batches == plan.batches, number(row.regret, 3)
        points.append(
            Point(str(row.batches), label, here, x, at(row.regret), at(below), at(above), bound)
        )
    told = "; ".join(f"{counted(int(p.waves), 'wave')}: {p.label}" for p in points)
    online = number(plan.online.regret, 3)
    words = (
        f"Expected regret by number of waves: {told}; fully online: {online}. "
        f"{counted(plan.batches, 'wave').capitalize()}: {in_waves(chosen(plan))}."
    )
    return Picture(points, at(plan.online.regret), online, words)


def _ends(row: Row) -> tuple[float, float]:
    """Return two standard errors below and above; a logarithm has no place for 0."""
    least = max(row.regret, 1e-9)
    return max(row.regret - 2 * row.error, least / 2), least + 2 * row.error
