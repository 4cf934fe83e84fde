"""The cells of the coverage study, what is measured in each campaign, and the claims."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan, nan, sqrt
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator, SeedSequence

from benchmarks.coverage.worlds import POLICIES, WORLDS, Cell, Simulated, panel, simulate_campaign
from seqbatch.display import counted
from seqbatch.inference import (
    Interval,
    Lift,
    Mean,
    PlanOfShares,
    Pooled,
    WaveSummary,
    anytime,
    judge_next_rule,
    look,
    naive_lift,
    pool,
    run_value,
    simultaneous_lifts,
    summarise,
)
from seqbatch.inference.estimates import ENOUGH
from seqbatch.inference.rule_value import GreedyRule
from seqbatch.inference.summary import Missing
from seqbatch.lab.experiment import Claim, MeanEstimate, Options, all_of
from seqbatch.pictures import GREY, INK
from seqbatch.simulation import run_tasks
from seqbatch.simulation.resumable_tasks import Row

if TYPE_CHECKING:
    import altair as alt
    import polars as pl


# ----------------------------------------------------------------------
# The intervals of one simulated campaign beside the truth.


POOLED, NAIVE, TOGETHER = "lift, pooled", "lift, naive", "all lifts together"
MEAN, VALUE, OVER_CONTROL, OVER_RANDOM = (
    "mean of control", "value as run", "gain over control", "gain over random",
)  # fmt: skip
#: The width is that of the pooled interval over that of the first wave's own.
AGAINST_FIRST = "lift, pooled against the first wave alone"
OVER_BEST, NEXT_RULE, ANYTIME = "gain over the best action", "next rule", "lift, anytime"
ERRORS = {
    "obrien-fleming": "error of looks, O'Brien-Fleming",
    "pocock": "error of looks, Pocock",
    "none": "error of looks, 1.96 every time",
}

LOOKS = tuple(ERRORS.values())


@dataclass(frozen=True)
class CoverageMeasure:
    """Whether an interval covered, or looks erred, and how wide it was.

    Parameters
    ----------
    name
        Of what.
    hit
        Whether it covered; for looks, whether they erred.
    width
        Of the interval; NaN for looks.
    """

    name: str
    hit: bool
    width: float


def measure_campaign(cell: Cell, random: Generator) -> tuple[list[CoverageMeasure], float]:
    """Simulate a campaign; return its measures, and its fewest effective outcomes in any wave."""
    run = simulate_campaign(cell, random)
    plan = cell.plan
    by: Missing = "by features" if cell.missing == "by feature" else "by action"
    summaries = summarise(run.waves, missing=by)
    lifts = WORLDS[cell.world].lifts
    pooled = [pool(summaries, Lift(action), plan.shares) for action in (1, 2)]
    measures = [_covered(POOLED, one, truth) for one, truth in zip(pooled, lifts, strict=True)]
    measures += [
        _covered(NAIVE, naive_lift(summaries[-1].evidence, action), truth)
        for action, truth in zip((1, 2), lifts, strict=True)
    ]
    measures.append(_covered(ANYTIME, anytime(summaries, Lift(1), plan), lifts[0]))
    measures.append(_together(simultaneous_lifts(summaries, plan.shares), lifts))
    measures += [_against_first(one, action, summaries) for action, one in enumerate(pooled, 1)]
    measures += _values(cell, run, summaries, plan)
    if cell.world == "no effect":
        measures += [_erred(summaries, plan, rule) for rule in ERRORS]
    waves = (wave for one in pooled if isinstance(one, Pooled) for wave in one.waves)
    fewest = min((wave.effective for wave in waves), default=0.0)
    # What is refused neither covers nor misses.
    return [one for one in measures if one.name in LOOKS or not isnan(one.width)], fewest


def _values(
    cell: Cell, run: Simulated, summaries: tuple[WaveSummary, ...], plan: PlanOfShares
) -> list[CoverageMeasure]:
    """Compare a mean, the run's value and gains, and the next rule, with the whole population."""
    x = panel()
    means = WORLDS[cell.world].means(x)
    alone = means.mean(axis=0)
    sizes = np.array([rows.count for rows in run.waves], dtype=np.float64)
    earned = np.array([float((rule(x) * means).sum(axis=1).mean()) for rule in run.rules])
    value = float(sizes @ earned / sizes.sum())
    made = run_value(summaries)
    following = judge_next_rule(run.waves[-1], summaries[-1])
    return [
        _covered(MEAN, pool(summaries, Mean(0), plan.shares), alone[0]),
        _covered(VALUE, made.value, value),
        _covered(OVER_CONTROL, made.over_actions[0], value - alone[0]),
        _covered(OVER_RANDOM, made.over_random, value - alone.mean()),
        _covered(OVER_BEST, made.over_best, value - alone.max()),
        _covered(NEXT_RULE, following.gain, _true_gain(following.rule, x, means)),
    ]


def _true_gain(rule: GreedyRule, x: np.ndarray, means: np.ndarray) -> float:
    wanted = rule.actions(x)
    return float((means[np.arange(len(x)), wanted] - means[:, 0]).mean())


def _covered(name: str, interval: Interval, truth: float) -> CoverageMeasure:
    return CoverageMeasure(
        name, bool(interval.low <= truth <= interval.high), interval.high - interval.low
    )


def _against_first(
    pooled: Interval, action: int, summaries: tuple[WaveSummary, ...]
) -> CoverageMeasure:
    """Compare the pooled interval's width with that of the first wave alone, which is random."""
    alone = pool(summaries[:1], Lift(action), (1.0,))
    ratio = (pooled.high - pooled.low) / (alone.high - alone.low)
    return CoverageMeasure(AGAINST_FIRST, ratio < 1, ratio)


def _together(lifts: tuple[Interval, ...], truths: tuple[float, float]) -> CoverageMeasure:
    parts = [_covered("", one, truth) for one, truth in zip(lifts, truths, strict=True)]
    hit, width = all(part.hit for part in parts), sum(part.width for part in parts) / len(parts)
    return replace(parts[0], name=TOGETHER, hit=hit, width=width)


def _erred(summaries: tuple[WaveSummary, ...], plan: PlanOfShares, rule: str) -> CoverageMeasure:
    """Say whether any look found an effect that is not there."""
    looks = look(summaries, Lift(1), plan.shares, rule=rule).looks
    return CoverageMeasure(ERRORS[rule], any(one.verdict != "go on" for one in looks), float("nan"))


# ----------------------------------------------------------------------
# The study: how often intervals cover, over thousands of campaigns.


CAMPAIGNS, QUICK_CAMPAIGNS, PART = 4_000, 200, 200
#: What intervals called valid must cover.
LOW, HIGH = 0.935, 0.965
FEW = ("no effect", "heterogeneous", "binary 5%", "misspecified")


def cells() -> list[Cell]:
    """Return all settings: policies, worlds, waves, sizes, randomised shares, missing outcomes."""
    plain = [world for world in WORLDS if not WORLDS[world].clustered]
    made = [Cell(policy=policy, world=world) for policy in POLICIES for world in plain]
    made += [Cell(world=world, waves=5, units=6_000) for world in plain]
    made += [Cell(world=world, waves=2) for world in FEW]
    made += [Cell(world=world, randomised=0.2, floor=0.0) for world in FEW]
    made += [Cell(world=world, randomised=0.0, floor=0.01) for world in FEW]
    made += [Cell(world=world, units=600) for world in FEW]
    made += [Cell(world="no effect", units=600, randomised=0.0, floor=0.01)]
    made += [Cell(world=world, units=30_000) for world in ("no effect", "spend", "binary 5%")]
    made += [Cell(world="heterogeneous", missing="nobody")]
    made += [Cell(world="heterogeneous", missing="by feature")]
    return [*made, Cell(world="clusters of five")]


def quick_cells() -> list[Cell]:
    """Return a few that a wrong formula does not survive."""
    return [
        Cell(world="heterogeneous"),
        Cell(world="misspecified", policy="UCB"),
        Cell(world="no effect", units=600, randomised=0.0, floor=0.01),
    ]


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
        """Simulate; return how often each interval covered, and its mean width."""
        hits: dict[str, list[bool]] = defaultdict(list)
        widths: dict[str, list[float]] = defaultdict(list)
        effective = []
        for place in range(self.campaigns):
            seed = SeedSequence(12, spawn_key=(self.number, place))
            measures, fewest = measure_campaign(self.cell, np.random.default_rng(seed))
            effective.append(fewest)
            for one in measures:
                hits[one.name].append(one.hit)
                widths[one.name].append(one.width)
        return [
            {
                "cell": self.cell.describe(),
                **asdict(self.cell),
                "quantity": quantity,
                "campaigns": self.campaigns,
                "share": float(np.mean(found)),
                "width": float(np.mean(widths[quantity])),
                "width_squared": float(np.mean(np.square(widths[quantity]))),
                "effective": float(np.mean(effective)),
            }
            for quantity, found in hits.items()
        ]


@dataclass(frozen=True)
class Coverage:
    """Coverage, width and error of repeated looks, over policies, worlds, waves and sizes."""

    name: str = "coverage"
    title: str = "Coverage of nominal 95% intervals after adaptive waves"

    def run(self, options: Options) -> "pl.DataFrame":
        """Simulate all cells, in parts."""
        import polars as pl

        campaigns = options.trials or (QUICK_CAMPAIGNS if options.quick else CAMPAIGNS)
        settings = quick_cells() if options.quick else cells()
        parts = [
            CoveragePart(cell, number, min(PART, campaigns - number * PART))
            for number in range(-(-campaigns // PART))
            for cell in settings
        ]
        # Without the number of campaigns: a longer run goes on from a shorter one.
        table = run_tasks(
            parts, out=options.out, declaration=settings, jobs=options.jobs, engine=options.engine,
            report=options.report,
        )  # fmt: skip
        weighted = {
            name: (pl.col(name) * pl.col("campaigns")).sum() / pl.col("campaigns").sum()
            for name in ("share", "width", "width_squared", "effective")
        }
        keys = ["cell", *asdict(parts[0].cell), "quantity"]
        total = pl.col("campaigns").sum()
        return (
            table.group_by(keys, maintain_order=True)
            .agg(**weighted, campaigns=total)
            .with_columns(
                error=(pl.col("share") * (1 - pl.col("share")) / pl.col("campaigns")).sqrt()
            )
        )

    def chart(self, table: "pl.DataFrame") -> "alt.TopLevelMixin":
        """Draw the pooled lift's coverage, magnified, beside the naive one's."""
        import altair as alt

        order = table["cell"].unique(maintain_order=True).to_list()
        pooled = _dots(table, POOLED, order, (0.9, 1.0), shape="circle", labels=True)
        band = (
            alt.Chart({"values": [{"low": LOW, "high": HIGH}]})
            .mark_rect(color=GREY, opacity=0.25)
            .encode(x=alt.X("low:Q", scale=_scale((0.9, 1.0))), x2="high:Q")
        )
        naive = _dots(table, NAIVE, order, (0.0, 1.0), shape="diamond", labels=False)
        rule = alt.Chart({"values": [{"x": 0.95}]}).mark_rule(color=INK, strokeDash=[4, 3])
        left = alt.layer(
            band, rule.encode(x=alt.X("x:Q", scale=_scale((0.9, 1.0)))), pooled
        ).properties(title="Lifts pooled by fixed shares", width=330, height=13 * len(order))
        right = alt.layer(rule.encode(x=alt.X("x:Q", scale=_scale((0.0, 1.0)))), naive).properties(
            title="Naive difference in means", width=330, height=13 * len(order)
        )
        note = (
            f"Share of {min(table['campaigns']):,} campaigns whose 95% interval holds the true "
            f"lift, ± 2 standard errors; grey: {LOW:.1%} to {HIGH:.1%}."
        )
        chart: alt.TopLevelMixin = alt.hconcat(left, right, spacing=24).properties(
            title=alt.TitleParams(self.title, subtitle=[note], anchor="start", fontSize=15)
        )
        return chart

    def claims(self, table: "pl.DataFrame") -> Sequence[Claim]:
        """Set what is said of the intervals beside the table."""
        import polars as pl

        enough = table.filter(pl.col("effective") >= ENOUGH)
        few = table.filter(pl.col("effective") < ENOUGH)
        where = f"cells with {ENOUGH} effective outcomes or more in every wave"
        others = (MEAN, VALUE, OVER_CONTROL, OVER_RANDOM, TOGETHER)
        return [
            _bounded(enough, (POOLED,), where, f"pooled lifts cover at least {LOW:.1%}", low=LOW),
            _bounded(enough, (POOLED,), where, f"and at most {HIGH:.1%}", high=HIGH),
            _bounded(
                few, (POOLED,), "the other cells", "pooled lifts cover at least 92%", low=0.92
            ),
            *(_bounded(enough, (one,), where, f"{one}: at least 92%", low=0.92) for one in others),
            _bounded(enough, (NEXT_RULE,), where, "the rule to run next: at least 91%", low=0.91),
            _bounded(
                table, (OVER_BEST, ANYTIME), "all cells", "built to be safe: at least 94%", low=0.94
            ),
            _lowest(table),
            _efficient(table),
            *_errors(table),
        ]


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

    rows = [
        {
            "cell": row["cell"],
            "share": max(row["share"], domain[0]),
            "low": max(row["share"] - 2 * row["error"], domain[0]),
            "high": min(row["share"] + 2 * row["error"], domain[1]),
        }
        for row in table.filter(quantity=quantity).iter_rows(named=True)
    ]
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


def _estimates(table: "pl.DataFrame", quantities: Sequence[str]) -> list[tuple[str, MeanEstimate]]:
    return [
        (f"{row['quantity']} ({row['cell']})", _estimate(row["share"], row["campaigns"]))
        for row in table.iter_rows(named=True)
        if row["quantity"] in quantities
    ]


def _estimate(share: float, campaigns: int) -> MeanEstimate:
    """Return a share with its error, which is not 0 where all or none covered."""
    smoothed = (share * campaigns + 1) / (campaigns + 2)
    return MeanEstimate(share, sqrt(smoothed * (1 - smoothed) / campaigns), campaigns)


def _bounded(
    table: "pl.DataFrame",
    quantities: Sequence[str],
    where: str,
    text: str,
    *,
    low: float = -1.0,
    high: float = 2.0,
) -> Claim:
    """Say whether every cell's coverage keeps to its bounds."""
    found = _estimates(table, quantities)
    pick = max if low < 0 else min
    name, worst = pick(
        found, key=lambda one: one[1].value, default=("none", MeanEstimate(nan, nan, 1))
    )
    word = "highest" if low < 0 else "lowest"
    cells_asked = len(found) // len(quantities)
    middle = median(one.value for _, one in found) if found else nan
    return Claim(
        where,
        text,
        f"{counted(cells_asked, 'cell')}, median {middle:.3f}; {word} {worst.shown(3)}: {name}",
        all_of(one.within(low, high, of=len(found)) for _, one in found) if found else None,
    )


def _lowest(table: "pl.DataFrame") -> Claim:
    """Say how bad the naive interval gets."""
    found = _estimates(table, (NAIVE,))
    name, worst = min(found, key=lambda one: one[1].value)
    return Claim(
        "all cells",
        "the naive interval does not hold: below 90% in some cell",
        f"lowest {worst.shown(3)}: {name}",
        worst.within(-1, 0.9, of=len(found)),
    )


def _efficient(table: "pl.DataFrame") -> Claim:
    """Say whether later waves add to the first one, as weights that fit them do."""
    found = [
        (row["cell"], MeanEstimate(row["width"], _width_error(row), row["campaigns"]))
        for row in table.filter(quantity=AGAINST_FIRST).iter_rows(named=True)
    ]
    name, worst = max(found, key=lambda one: one[1].value)
    return Claim(
        "all cells",
        "pooled intervals are narrower than the first wave's own",
        f"widest {worst.shown(3)} times: {name}",
        all_of(one.within(0, 1, of=len(found)) for _, one in found),
    )


def _width_error(row: Row) -> float:
    return sqrt(max(row["width_squared"] - row["width"] ** 2, 0.0) / row["campaigns"])


def _errors(table: "pl.DataFrame") -> list[Claim]:
    """Compare the errors of repeated looks where nothing differs."""
    rules = [ERRORS[rule] for rule in ("obrien-fleming", "pocock")]
    careful = _bounded(table, rules, "no effect", "repeated looks err at most 7%", high=0.07)
    careless = _estimates(table, (ERRORS["none"],))
    if not careless:
        return [careful]
    name, worst = max(careless, key=lambda one: one[1].value)
    text = "1.96 at every look errs more than 7% in some cell"
    held = worst.within(0.07, 1, of=len(careless))
    return [careful, Claim("no effect", text, f"highest {worst.shown(3)}: {name}", held)]
