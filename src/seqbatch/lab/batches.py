"""Regret against the number of batches, under the adversary and under Gaussian contexts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import SeedSequence

from seqbatch import grids, theory
from seqbatch.environments import Environment, Gaussian, WorstCase
from seqbatch.lab.charts import band_and_line, colour, data
from seqbatch.lab.experiment import Claim, Options
from seqbatch.policies import SBPE, SBUCB, Policy
from seqbatch.simulation import run_tasks, simulate, summarise
from seqbatch.simulation.runs import Row

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


@dataclass(frozen=True)
class Batched:
    """One number of batches in one of the two settings, some trials of it."""

    setting: str
    batches: int
    trials: int

    @property
    def name(self) -> str:
        """Its name in the run."""
        return f"{self.setting}/{self.batches}"

    def __call__(self) -> list[Row]:
        """Run the setting's own policy on the setting's own grid."""
        environment: Environment
        policy: Policy
        if self.setting == ADVERSARY:
            grid = grids.uniform(units=UNITS, batches=self.batches)
            environment = WorstCase(ends=grid.ends, dim=DIM)
            policy = SBUCB(gamma=1.0, ties="random")
            bound = theory.adversarial_lower_bound_on(grid, dim=DIM)
        else:
            # Geometric for every M, so that the curve shows batches and not a change of grid.
            grid = grids.geometric(units=UNITS, dim=DIM, batches=self.batches)
            environment, policy = Gaussian(dim=DIM, actions=2, kappa=1.0), SBPE()
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
    """The paper's main message in one picture: how many batches are enough depends on contexts."""

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
            declaration=tasks,
            jobs=options.jobs,
            report=options.report,
        )

    def chart(self, table: "pl.DataFrame") -> "alt.TopLevelMixin":
        """Draw the two settings side by side, with what no method can beat."""
        import altair as alt
        import polars as pl

        summary = summarise(table).join(
            table.select("environment", "batches", "bound").unique(),
            on=["environment", "batches"],
        )
        names = [f"{policy} (mean and one sd)" for policy in ("SBUCB", "SBPE")]
        names.append("certified lower bound")
        panels = []
        for environment, name in zip((ADVERSARY, STOCHASTIC), names, strict=False):
            here = summary.filter(pl.col("environment") == environment).sort("batches")
            x = alt.X("batches:Q", title="number of batches M", scale=alt.Scale(type="log"))
            measured = here.select(
                "batches",
                "mean",
                low=pl.max_horizontal(pl.col("mean") - pl.col("sd"), pl.col("mean") * 0.1),
                high=pl.col("mean") + pl.col("sd"),
                line=pl.lit(name),
            )
            shades = colour("line", names, columns=3)
            log = alt.Scale(type="log")
            lines = band_and_line(
                measured, x=x, y="mean", low="low", high="high", colour=shades, title="regret"
            ).encode(y=alt.Y(scale=log))
            floor = (
                alt.Chart(data(here.select("batches", "bound", line=pl.lit(names[2]))))
                .mark_line(strokeDash=[6, 3], strokeWidth=2)
                .encode(x=x, y=alt.Y("bound:Q", scale=log), color=shades)
            )
            panels.append((lines + floor).properties(width=400, height=320, title=environment))
        chart: alt.HConcatChart = alt.hconcat(*panels).resolve_scale(y="shared")
        return chart.properties(title=self.title)

    def claims(self, table: "pl.DataFrame") -> Sequence[Claim]:
        """Set the two theorems beside the table."""
        rows = {(r["environment"], r["batches"]): r for r in summarise(table).iter_rows(named=True)}
        mean = {key: row["mean"] for key, row in rows.items()}
        bound = {(r["environment"], r["batches"]): r["bound"] for r in table.iter_rows(named=True)}
        below = [
            M
            for (setting, M), row in rows.items()
            if setting == ADVERSARY
            and row["mean"] + 3 * row["sd"] / np.sqrt(row["trials"]) < 0.999 * bound[setting, M]
        ]
        few = sorted(M for setting, M in mean if setting == STOCHASTIC)
        enough = next(M for M in few if mean[STOCHASTIC, M] <= 2 * mean[STOCHASTIC, few[-1]])
        many = sorted(M for setting, M in mean if setting == ADVERSARY)
        steep = [M for M in many if M >= DIM / 2]
        slope = (
            np.polyfit(np.log(steep), [np.log(mean[ADVERSARY, M]) for M in steep], 1)[0]
            if len(steep) > 1
            else np.nan
        )
        return [
            Claim(
                "Theorem 1, statement 2",
                "no method beats the lower bound under the adversary",
                f"{len(below)} of {len(many)} numbers of batches below it by three standard errors",
                not below,
            ),
            Claim(
                "Theorem 1, statement 2",
                "past d/2 batches the adversary's price falls as 1/M: few batches are never enough",
                f"slope of log regret on log M {slope:.3f}",
                None if np.isnan(slope) else abs(slope + 1) < 0.05,
            ),
            Claim(
                "Corollary 2",
                "order ln ln(T / d^2) batches are enough under Gaussian contexts",
                f"{enough} batches for twice the regret of {few[-1]:,}",
                enough <= 6,
            ),
        ]
