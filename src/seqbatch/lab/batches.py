"""The experiment on the number of batches: regret against M, adversarial and Gaussian contexts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

from numpy.random import SeedSequence

from seqbatch import grids, theory
from seqbatch.environments import Environment, Gaussian, WorstCase
from seqbatch.lab.experiment import Claim, MeanEstimate, Options, all_of, ratio, slope_estimates
from seqbatch.pictures import INK
from seqbatch.policies import SBPE, SBUCB, Policy
from seqbatch.simulation import run_tasks, simulate
from seqbatch.simulation.charts import (
    LineStyle,
    above_zero,
    drawn,
    fitted,
    interval_words,
    looks,
    pictured,
)
from seqbatch.simulation.resumable_tasks import Row
from seqbatch.simulation.summaries import slopes, summarise

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

UNITS, DIM = 20_000, 20
ADVERSARY, STOCHASTIC = "worst-case contexts", "Gaussian contexts"
COUNTS = {
    ADVERSARY: (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000),
    STOCHASTIC: (1, 2, 3, 4, 5, 6, 8, 10, 20, 50, 100, 200, 500, 1_000, 2_000),
}
TRIALS = 50
#: The number of batches that the picture calls a few.
ENOUGH = 6
BOUND = "lower bound: no method does better on average"
#: The note above each panel.
NOTES = {
    ADVERSARY: [
        f"Up to d/2 = {DIM // 2} batches, each one meets two directions never seen before: slope "
        "-1/2.",
        f"There are no more: past {DIM // 2} batches only {DIM // 2} of the M do, hence slope -1.",
    ],
    STOCHASTIC: [
        "Geometric grids. The first batch shows all directions,",
        "hence a few batches are nearly as good as thousands.",
    ],
}


@dataclass(frozen=True)
class Batched:
    """Some trials with one number of batches in one of the two settings."""

    setting: str
    batches: int
    trials: int

    @property
    def name(self) -> str:
        """Its name in the run."""
        return f"{self.setting}/{self.batches}/{self.trials}"

    def __call__(self) -> list[Row]:
        """Run the setting's policy on the setting's grid."""
        environment: Environment
        policy: Policy
        if self.setting == ADVERSARY:
            grid = grids.uniform(units=UNITS, batches=self.batches)
            environment = WorstCase(ends=grid.ends, dim=DIM)
            policy = SBUCB(gamma=1.0, first="fixed", ties="random")
            bound = theory.adversarial_lower_bound_on(grid, dim=DIM)
        else:
            # Geometric for every M: the curve then shows batches, not a change of grid.
            grid = grids.geometric(units=UNITS, dim=DIM, batches=self.batches)
            environment, policy = Gaussian(dim=DIM, actions=2, kappa=1.0), SBPE(first="fixed")
            bound = theory.certified_lower_bound_on(grid, dim=DIM, actions=2)
        return [
            {
                "environment": self.setting,
                "policy": type(policy).__name__,
                "units": UNITS,
                "batches": self.batches,
                "trial": trial,
                "regret": float(
                    simulate(
                        policy, environment, grid, seed=SeedSequence(3, spawn_key=(trial,))
                    ).regret[-1]
                ),
                "bound": bound,
            }
            for trial in range(self.trials)
        ]


@dataclass(frozen=True)
class Batches:
    """The paper's main message in one picture: how many batches suffice depends on contexts."""

    name: str = "batches"
    title: str = f"How many batches are enough: T = {UNITS:,}, d = {DIM}, two actions"

    def run(self, options: Options) -> "pl.DataFrame":
        """Run every number of batches in both settings."""
        trials = options.trials or (5 if options.quick else TRIALS)
        step = 3 if options.quick else 1
        tasks = [
            Batched(setting, batches, trials)
            for setting, counts in COUNTS.items()
            for batches in counts[::step]
        ]
        return run_tasks(
            tasks,
            out=options.out,
            # Without the number of trials: a later run may add more.
            declaration=[(task.setting, task.batches) for task in tasks],
            jobs=options.jobs,
            engine=options.engine,
            report=options.report,
        )

    def chart(self, table: "pl.DataFrame") -> "alt.TopLevelMixin":
        """Draw the two settings side by side, with the lower bounds."""
        import altair as alt

        styles = looks({"SBUCB": "SBUCB", "SBPE": "SBPE"})
        # Thin, on top and in no policy's colour, because SBUCB's regret coincides with it.
        styles[BOUND] = LineStyle(INK, (3, 3), "stroke")
        lines = _lines(table)
        x = alt.X("batches:Q", title="number of batches M", **fitted(lines["batches"]))
        y = alt.Y(
            "mean:Q", title="regret", **fitted([*lines["mean"], *lines["low"], *lines["high"]])
        )
        panels = [
            drawn(
                lines.filter(lines["environment"] == environment), styles, x=x, y=y, interval=True
            ).properties(
                width=420,
                height=340,
                title=alt.TitleParams(environment, subtitle=words, anchor="start"),
            )
            for environment, words in NOTES.items()
        ]
        return pictured(
            alt.hconcat(*panels, spacing=30),
            styles,
            title=self.title,
            subtitle=[interval_words(summarise(table))],
            width=930,
        )

    def claims(self, table: "pl.DataFrame") -> Sequence[Claim]:
        """Compare the two theorems with the table."""
        import polars as pl

        worst = table.filter(environment=ADVERSARY).sort("batches")
        mild = table.filter(environment=STOCHASTIC)
        steep = worst.filter(pl.col("batches") >= DIM / 2)
        rate = slope_estimates(slopes(steep, over="batches"), trials=table["trial"].n_unique())
        slope = next(iter(rate.values()), MeanEstimate(nan, nan, 1))
        counts = sorted(set(mild["batches"]))
        few, most = max(M for M in counts if M <= ENOUGH), counts[-1]
        price = ratio(*(mild.filter(batches=M).sort("trial")["regret"] for M in (few, most)))
        return [
            _bounded(worst),
            Claim(
                "Theorem 1, statement 2",
                "past d/2 batches the adversary's price falls as 1/M (slope -1, here within 0.05): "
                "few batches are never enough",
                f"slope of log regret on log M {slope.shown(3)}",
                slope.within(-1.05, -0.95),
            ),
            Claim(
                "Corollary 2",
                f"order ln ln(T / d^2) batches are enough under Gaussian contexts: {few} lose at "
                f"most twice what {most:,} do",
                f"{price.shown(2)} times",
                price.within(0, 2),
            ),
        ]


def _lines(table: "pl.DataFrame") -> "pl.DataFrame":
    """Return the measured means with their intervals, and the bounds as a separate line."""
    import polars as pl

    columns = ["environment", "batches", "line", "mean", "low", "high"]
    measured = above_zero(summarise(table)).rename({"policy": "line"}).select(columns)
    bounds = table.select(
        "environment",
        "batches",
        line=pl.lit(BOUND),
        mean="bound",
        low=pl.lit(None, pl.Float64),
        high=pl.lit(None, pl.Float64),
    ).unique(maintain_order=True)
    return pl.concat([measured, bounds]).sort("batches", maintain_order=True)


def _bounded(worst: "pl.DataFrame") -> Claim:
    """Compare the regret under the adversary with the lower bound of any method."""
    ratios = {
        M: ratio(part["regret"], part["bound"])
        for (M,), part in worst.group_by("batches", maintain_order=True)
    }
    M, lowest = min(ratios.items(), key=lambda item: item[1].value)
    return Claim(
        "Theorem 1, statement 2",
        "no method beats the lower bound under the adversary (here: by more than a tenth)",
        f"closest at M = {M:,}: {lowest.shown(3)} times the bound",
        all_of(one.within(0.9, of=len(ratios)) for one in ratios.values()),
    )
