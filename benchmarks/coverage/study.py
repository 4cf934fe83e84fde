"""The coverage study: campaigns of all cells, counted, and the claims that are made of them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from math import nan, sqrt
from statistics import median
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.random import SeedSequence

from benchmarks.coverage.cells import (
    BENT,
    FEW_SKEWED,
    FIFTHS,
    NORMAL,
    TURNED,
    Cell,
    cells,
    yes,
)
from benchmarks.coverage.measures import (
    ACTION,
    BY_SHARES,
    BY_SIZE,
    CONTROL,
    INTERVALS,
    LATEST,
    LEVEL_CHANGED,
    LIFT_CHANGED,
    LOOKS,
    NAIVE,
    NEXT,
    OVER_CONTROL,
    OVER_RANDOM,
    VALUE,
    WRONGLY,
    Flag,
    Printed,
    measure_campaign,
)
from seqbatch.inference import (
    AsRun,
    Gain,
    Mean,
    planned_units,
    planned_units_of_next_rule,
)
from seqbatch.inference.rare_events import ENOUGH_AMOUNTS, ENOUGH_BINARY
from seqbatch.lab.experiment import Claim, MeanEstimate, Options, all_of
from seqbatch.pictures import GREY, INK
from seqbatch.simulation import run_tasks
from seqbatch.simulation.resumable_tasks import Row

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

CAMPAIGNS, QUICK_CAMPAIGNS, PART = 2_000, 60, 25
#: Joint intervals take longest to compute: one campaign in so many has them.
JOINT_EVERY = 4

# ----------------------------------------------------------------------
# Some campaigns of one cell, counted.


@dataclass(frozen=True)
class CoveragePart:
    """Some campaigns of one cell."""

    cell: Cell
    number: int
    campaigns: int

    @property
    def name(self) -> str:
        """Its name in the run."""
        return f"{self.cell.describe()}/{self.number} of {self.campaigns}"

    def __call__(self) -> list[Row]:
        """Simulate; return how often each interval was printed and missed, and how wide it was."""
        printed: dict[str, list[Printed]] = defaultdict(list)
        flags: dict[str, list[Flag]] = defaultdict(list)
        key = crc32(self.cell.describe().encode())
        for place in range(self.campaigns):
            random = np.random.default_rng(SeedSequence(27, spawn_key=(key, self.number, place)))
            intervals, found = measure_campaign(self.cell, random, jointly=place % JOINT_EVERY == 0)
            for one in intervals:
                printed[one.name].append(one)
            for flag in found:
                flags[flag.name].append(flag)
        cell = self.cell.describe()
        return [
            *({"cell": cell, **counted_row(name, many)} for name, many in printed.items()),
            *({"cell": cell, **happened_row(name, many)} for name, many in flags.items()),
        ]


def counted_row(name: str, many: Sequence[Printed]) -> Row:
    """Return how often an interval was printed and missed."""
    known = [one for one in many if one.known]
    return {
        "quantity": name,
        "campaigns": len(many),
        "printed": len(known),
        "above": sum(one.above for one in known),
        "below": sum(one.below for one in known),
        "wrong": sum(one.wrong_sign for one in known),
        "width": float(np.median([one.high - one.low for one in known])) if known else nan,
    }


def happened_row(name: str, many: Sequence[Flag]) -> Row:
    """Return how often something happened."""
    return {
        "quantity": name,
        "campaigns": len(many),
        "printed": len(many),
        "above": sum(one.happened for one in many),
        "below": 0,
        "wrong": 0,
        "width": nan,
    }


# ----------------------------------------------------------------------
# What is claimed of a quantity in a cell.


#: What a reason concerns, if not every quantity: skewness of scores is too much for one side of
#: means and gains, and only the rule to run next is judged by folds.
CONCERNS = {
    FEW_SKEWED: (VALUE,),
    BENT: (CONTROL, ACTION, OVER_CONTROL),
    TURNED: (NEXT,),
}


def asked_of(cell: Cell, quantity: str) -> Row:
    """Return what is claimed of a quantity in a cell, and what the plan promises it."""
    interval = quantity in INTERVALS
    valid_here = quantity != NAIVE and (quantity != BY_SHARES or cell.constant)
    beyond = cell.beyond if quantity in CONCERNS.get(cell.beyond, (quantity,)) else ""
    return {
        "cell": cell.describe(),
        "quantity": quantity,
        "group": group(cell),
        "beyond": beyond,
        "claimed": not beyond and valid_here,
        "events": planned_events(cell, quantity) if interval else nan,
        "most": nan if interval else _most(cell, quantity),
    }


#: The groups of cells on the page.
PLAIN, YES_NO, AMOUNTS = "normal, heavy tails, counts", "yes/no", "amounts"
CHANGE, MISSING = "change between waves", "missing outcomes"
GROUPS = (PLAIN, YES_NO, AMOUNTS, CHANGE, MISSING)


def group(cell: Cell) -> str:
    """Return the group that a cell belongs to."""
    if not cell.constant:
        return CHANGE
    if cell.missing != "none":
        return MISSING
    kind = cell.outcome.kind
    return YES_NO if kind == "yes/no" else AMOUNTS if kind.startswith("amounts") else PLAIN


#: What is left of outcomes, on average.
BACK = {"none": 1.0, "20% at random": 0.8, "40% at random": 0.6}


def planned_events(cell: Cell, quantity: str) -> float:
    """Return the events that the plan promises a quantity, over those needed; NaN if not rare."""
    outcome, designs = cell.outcome, cell.plan.designs
    rate = min(outcome.rate, 1 - outcome.rate)
    if outcome.kind not in ("yes/no", "amounts") or quantity in (LATEST, NAIVE):
        return nan
    if quantity == NEXT:
        units = planned_units_of_next_rule(designs[-1])
    elif quantity == VALUE:
        units = planned_units(designs, AsRun())
    elif quantity in (OVER_CONTROL, OVER_RANDOM):
        units = planned_units(designs, Gain(0))
    else:
        units = planned_units(designs, Mean(0))
    needed = ENOUGH_BINARY if outcome.kind == "yes/no" else ENOUGH_AMOUNTS
    return units * BACK.get(cell.missing, 0.75) * rate / needed


#: What tests and looks may err at a nominal 5%, and verdicts where no action is better in any wave
#: (nominal 2.5%) or any more (10%); one point more than nominal.
TEST_ERROR, NEVER_BETTER, GONE = 0.06, 0.035, 0.11


def _most(cell: Cell, name: str) -> float:
    """Return how often a test may reject, or a verdict be wrong."""
    if name in (LIFT_CHANGED, LEVEL_CHANGED, *LOOKS.values()):
        return TEST_ERROR
    if name == WRONGLY:
        return NEVER_BETTER if cell.no_lift else GONE
    return nan


# ----------------------------------------------------------------------
# The study.


#: What intervals called valid must cover, and may miss on each side: nominal and one point.
LOW, SIDE = 0.93, 0.035
#: Coverage above this is conservative: allowed, and shown.
CAREFUL = 0.97
#: An interval counts as printed in a cell if so many of its campaigns have it.
MOSTLY = 0.5
#: Cells whose planned events are so far from those needed must print nothing, or everything.
FEW_EVENTS, MANY_EVENTS = 0.6, 1.6


def quick_cells() -> list[Cell]:
    """Return a few cells that a wrong formula does not survive."""
    few = replace(NORMAL, units=900)
    return [
        replace(few, level=(0.0, 1.0, 2.0), lifts=((0.0,),)),
        replace(few, lifts=((1.2, 0.5, -0.1),)),
        replace(few, lifts=((0.5, 0.5, 0.5, 0.5, -0.1),), sizes=FIFTHS, units=2_400),
        Cell(outcome=yes(0.015), units=900),
        Cell(outcome=yes(0.2), units=900),
        replace(few, lifts=((0.0,),), missing="by feature"),
    ]


@dataclass(frozen=True)
class Coverage:
    """Coverage of all printed intervals, errors of tests and verdicts, over many settings."""

    name: str = "coverage"
    title: str = "Coverage of nominal 95% intervals after adaptive waves"

    def run(self, options: Options) -> "pl.DataFrame":
        """Simulate all cells, in parts."""
        campaigns = options.trials or (QUICK_CAMPAIGNS if options.quick else CAMPAIGNS)
        settings = quick_cells() if options.quick else cells()
        parts = [
            CoveragePart(cell, number, min(PART, campaigns - number * PART))
            for number in range(-(-campaigns // PART))
            for cell in settings
        ]
        # Without the number of campaigns: a longer run goes on from a shorter one. What is claimed
        # of a cell changes none of its numbers.
        declared = [astuple(replace(cell, beyond="")) for cell in settings]
        table = run_tasks(
            parts, out=options.out, declaration=declared, jobs=options.jobs, engine=options.engine,
            report=options.report,
        )  # fmt: skip
        return together(table, settings)

    def chart(self, table: "pl.DataFrame") -> "alt.TopLevelMixin":
        """Draw the coverage of the lift by size, magnified, beside the naive one's."""
        import altair as alt

        order = table["cell"].unique(maintain_order=True).to_list()
        sized = _dots(table, BY_SIZE, order, (0.85, 1.0), shape="circle", labels=True)
        band = (
            alt.Chart({"values": [{"low": LOW, "high": CAREFUL}]})
            .mark_rect(color=GREY, opacity=0.25)
            .encode(x=alt.X("low:Q", scale=_scale((0.85, 1.0))), x2="high:Q")
        )
        naive = _dots(table, NAIVE, order, (0.0, 1.0), shape="diamond", labels=False)
        rule = alt.Chart({"values": [{"x": 0.95}]}).mark_rule(color=INK, strokeDash=[4, 3])
        height = 13 * len(order)
        left = alt.layer(
            band, rule.encode(x=alt.X("x:Q", scale=_scale((0.85, 1.0)))), sized
        ).properties(title="Lift over all units, by size", width=330, height=height)
        right = alt.layer(rule.encode(x=alt.X("x:Q", scale=_scale((0.0, 1.0)))), naive).properties(
            title="Naive difference in means", width=330, height=height
        )
        note = (
            f"Share of {fewest(table):,} campaigns whose 95% interval holds the true lift, "
            f"± 2 standard errors; grey: {LOW:.0%} to {CAREFUL:.0%}."
        )
        chart: alt.TopLevelMixin = alt.hconcat(left, right, spacing=24).properties(
            title=alt.TitleParams(self.title, subtitle=[note], anchor="start", fontSize=15)
        )
        return chart

    def claims(self, table: "pl.DataFrame") -> Sequence[Claim]:
        """Set what is said of the intervals beside the table."""
        asked = [name for name in INTERVALS if name != NAIVE]
        return [
            *(claim for name in asked for claim in held(table, name)),
            *_printed_by_events(table),
            *(
                _at_most(table, name, TEST_ERROR, f"{name}: errs at most {TEST_ERROR:.0%}")
                for name in (LIFT_CHANGED, LEVEL_CHANGED, *LOOKS.values())
            ),
            _at_most(
                table, WRONGLY, NEVER_BETTER,
                f"no action is better in any wave: \"give\" at most {NEVER_BETTER:.1%}",
            ),
            _at_most_in_all(
                table, WRONGLY, NEVER_BETTER,
                f"the same over all these cells together: at most {NEVER_BETTER:.1%}",
            ),
            _at_most(
                table, WRONGLY, GONE,
                f"the lift of the latest waves is gone: \"give\" at most {GONE:.0%}",
            ),
            _lowest(table, NAIVE, "the naive interval does not hold: below 90% in some cell"),
        ]  # fmt: skip


def together(table: "pl.DataFrame", settings: Sequence[Cell]) -> "pl.DataFrame":
    """Add up the parts of each cell, and add what is claimed of it."""
    import polars as pl

    by_name = {cell.describe(): cell for cell in settings}
    keys = ["cell", "quantity"]
    added = added_up(table)
    asked = [asked_of(by_name[cell], quantity) for cell, quantity in added.select(keys).iter_rows()]
    return added.join(pl.DataFrame(asked), on=keys, maintain_order="left")


def added_up(table: "pl.DataFrame") -> "pl.DataFrame":
    """Add up the parts of each cell; of widths, the mean of the parts' medians."""
    import polars as pl

    counts = ["campaigns", "printed", "above", "below", "wrong"]
    width = (pl.col("width").fill_nan(0) * pl.col("printed")).sum() / pl.col("printed").sum()
    return (
        table.group_by(["cell", "quantity"], maintain_order=True)
        .agg(*(pl.col(name).sum() for name in counts), width=width)
        .with_columns(
            share=1 - (pl.col("above") + pl.col("below")) / pl.col("printed"),
            shown=pl.col("printed") / pl.col("campaigns"),
        )
    )


def fewest(table: "pl.DataFrame") -> int:
    """Return the campaigns of the cell that has fewest."""
    found = table.filter(quantity=BY_SIZE)["campaigns"].min()
    return int(found) if isinstance(found, int) else 0


def valid(table: "pl.DataFrame", name: str) -> "pl.DataFrame":
    """Return the cells for which a quantity is claimed and mostly printed."""
    import polars as pl

    return table.filter(
        pl.col("claimed"), pl.col("shown") >= MOSTLY, pl.col("printed") > 1, quantity=name
    )


def estimate(count: float, of: float) -> MeanEstimate:
    """Return a share with its error, which is not 0 where it is 0 or 1.

    >>> estimate(3, 100).shown(3)
    '0.030 ± 0.019'
    """
    smoothed = (count + 1) / (of + 2)
    return MeanEstimate(count / of, sqrt(smoothed * (1 - smoothed) / of), int(of))


# ----------------------------------------------------------------------
# Claims.


def held(table: "pl.DataFrame", name: str) -> list[Claim]:
    """Say whether an interval covers, and misses on neither side too often."""
    rows = list(valid(table, name).iter_rows(named=True))
    covers = [
        estimate(row["printed"] - row["above"] - row["below"], row["printed"]) for row in rows
    ]
    sides = [estimate(row[side], row["printed"]) for row in rows for side in ("above", "below")]
    return [
        _claim(name, f"covers at least {LOW:.0%}", covers, low=LOW),
        _claim(name, f"misses at most {SIDE:.1%} on each side", sides, high=SIDE),
    ]


def _claim(
    name: str,
    text: str,
    found: Sequence[MeanEstimate],
    *,
    low: float = -1.0,
    high: float = 2.0,
) -> Claim:
    """Say whether every cell keeps to a bound."""
    if not found:
        return Claim(name, text, "no cell", None)
    pick, word = (max, "highest") if low < 0 else (min, "lowest")
    worst = pick(found, key=lambda one: one.value)
    middle = median(one.value for one in found)
    return Claim(
        name,
        text,
        f"median {middle:.3f}, {word} {worst.shown(3)}",
        all_of(one.within(low, high, of=len(found)) for one in found),
    )


def _printed_by_events(table: "pl.DataFrame") -> list[Claim]:
    """Say whether the rule of events prints nothing where events are few, and all if many."""
    import polars as pl

    rare = table.filter(pl.col("events").is_not_nan(), pl.col("claimed"))
    few = rare.filter(pl.col("events") < FEW_EVENTS)
    many = rare.filter(pl.col("events") > MANY_EVENTS)

    def shown(rows: "pl.DataFrame") -> list[MeanEstimate]:
        return [estimate(row["printed"], row["campaigns"]) for row in rows.iter_rows(named=True)]

    where = "rule of events"
    return [
        _claim(where, f"planned events below {FEW_EVENTS:.0%} of those needed: printed in at most "
               "a fifth of campaigns", shown(few), high=0.2),
        _claim(where, f"above {MANY_EVENTS:.0%}: printed in at least four fifths", shown(many),
               low=0.8),
    ]  # fmt: skip


def _at_most(table: "pl.DataFrame", name: str, most: float, text: str) -> Claim:
    """Say whether something happens at most so often in all cells with this bound."""
    rows = table.filter(quantity=name, most=most, claimed=True).iter_rows(named=True)
    found = [estimate(row["above"], row["campaigns"]) for row in rows]
    return _claim(name, text, found, high=most)


def _at_most_in_all(table: "pl.DataFrame", name: str, most: float, text: str) -> Claim:
    """Say whether something happens at most so often over all cells with this bound together."""
    rows = table.filter(quantity=name, most=most, claimed=True)
    happened, of = (sum(rows[column].to_list()) for column in ("above", "campaigns"))
    found = [estimate(happened, of)] if of else []
    return _claim(name, text, found, high=most)


def _lowest(table: "pl.DataFrame", name: str, text: str) -> Claim:
    """Say how bad an interval gets that is not valid."""
    found = [
        estimate(row["printed"] - row["above"] - row["below"], row["printed"])
        for row in table.filter(quantity=name).iter_rows(named=True)
        if row["printed"] > 1
    ]
    if not found:
        return Claim(name, text, "no cell", None)
    worst = min(found, key=lambda one: one.value)
    held = worst.within(-1, 0.9, of=len(found))
    return Claim(name, text, f"lowest {worst.shown(3)}", held)


# ----------------------------------------------------------------------
# The picture.


def _dots(
    table: "pl.DataFrame",
    quantity: str,
    order: list[str],
    domain: tuple[float, float],
    *,
    shape: str,
    labels: bool,
) -> Any:
    """Draw one quantity's coverage in every cell, with bars of two standard errors."""
    import altair as alt

    rows = []
    for row in table.filter(quantity=quantity).iter_rows(named=True):
        if row["printed"] < 2:
            continue
        one = estimate(row["printed"] - row["above"] - row["below"], row["printed"])
        rows.append(
            {
                "cell": row["cell"],
                "share": max(one.value, domain[0]),
                "low": max(one.value - 2 * one.error, domain[0]),
                "high": min(one.value + 2 * one.error, domain[1]),
            }
        )
    axis = alt.Axis(labelLimit=560, labelFontSize=10) if labels else None
    base = alt.Chart({"values": rows}).encode(y=alt.Y("cell:N", sort=order, title=None, axis=axis))
    scale = _scale(domain)
    x = alt.X("share:Q", title="coverage", scale=scale, axis=alt.Axis(format=".0%"))
    bars = base.mark_rule(color=INK).encode(x=alt.X("low:Q", scale=scale), x2="high:Q")
    points = base.mark_point(shape=shape, filled=True, color=INK, opacity=1, size=34).encode(x=x)
    return alt.layer(bars, points)


def _scale(domain: tuple[float, float]) -> Any:
    import altair as alt

    return alt.Scale(domain=list(domain), nice=False, zero=False)
