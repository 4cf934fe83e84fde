"""Measure what policies learn from few waves, against others in the same runs.

`python -m benchmarks.learning` writes docs/learning.md. `--only NAME` measures one table again and
keeps the others; `--quick` runs a small version of all and writes nothing.
"""

import argparse
import warnings
from pathlib import Path

from benchmarks.learning import (
    choosing,
    costs,
    earlier,
    exploring,
    first_batch,
    pooling,
    readable,
    yes_or_no,
)
from benchmarks.learning.table import Table
from seqbatch.datasets import MissingDatasetError
from seqbatch.errors import RankDeficiencyWarning

PAGE = Path("docs/learning.md")
HEAD = """# What does each policy option gain?

Written by `python -m benchmarks.learning`. In every run all policies of a table meet the same
truth, units and outcomes. Changes are in percent of the policy named first, from the same runs;
a star marks more than two standard errors. Below each table are the gains that were expected, and
in how many rows they were reproduced beyond two standard errors.
"""
TABLES = (
    Table(
        name="without-features",
        title="Exploring without features",
        text=(
            "{runs:,} runs a row. Means of actions have the standard deviation *effects*, "
            "outcomes 1. *Greedy* takes the highest posterior mean after a uniform first wave. "
            "Regret is per unit; *simple* is the regret of the action chosen at the end. All "
            "policies know the law of the means; lookahead estimates the noise. *Lookahead, after "
            "10^9* counts only what waves teach."
        ),
        measure=exploring.all_without_features,
        runs=1_000,
    ),
    Table(
        name="with-features",
        title="Exploring with features",
        text=(
            "{runs:,} runs a row: 600 units in doubling waves, 3 actions, a constant and 4 "
            "normal features, effects with standard deviation 0.1, noise 1. *Greedy* is ridge "
            "regression that knows the law of the effects; SBPE does not."
        ),
        measure=exploring.with_features,
        runs=250,
    ),
    Table(
        name="after",
        title="Units that get the final rule",
        text=(
            "{runs:,} runs a row, as above with effects 0.1. The loss is regret per unit plus the "
            "simple regret of the final choice for `after` units, in campaigns T. *Best other "
            "policy* is the best in hindsight of all others in that table."
        ),
        measure=exploring.rolled_out,
        runs=600,
    ),
    Table(
        name="choosing",
        title="Choosing one action at the end",
        text=(
            "{runs:,} runs a row, yes/no outcomes, equal waves; published rates are those of "
            "Kasy and Sautmann (2021). Simple regret of the final choice; *right* is how "
            "often it is the best action."
        ),
        measure=choosing.measure,
        runs=800,
    ),
    Table(
        name="pooled",
        title="Pooled estimates",
        text=(
            "{runs:,} runs a row: three doubling waves, 3 actions, customers from Hillstrom's "
            "log with a constant and standardised features, noise 1. Each coefficient has a "
            "common part (0.38 over the root of their number) and a deviation for each "
            "action, with the standard deviations *deviations* for the constant and the "
            "features. Regret per unit."
        ),
        measure=pooling.pooled,
        runs=200,
        quick=2,
    ),
    Table(
        name="wave-levels",
        title="Wave levels",
        text=(
            "{runs:,} runs a row: as above with five waves of 800 units, a tenth at random, "
            "deviations 0.1 and 0.03. Each wave's level is drawn with the standard deviation "
            "*shock*."
        ),
        measure=pooling.leveled,
        runs=200,
        quick=2,
    ),
    Table(
        name="yes-or-no",
        title="Logistic or linear, if outcomes are yes or no",
        text=(
            "{runs:,} runs a row, three doubling waves. The truth is a logistic regression of "
            "visits for each arm of Hillstrom's log, moved to *rate*, with differences "
            "between arms multiplied by *differences*. *Logistic* is scikit-learn's "
            "`LogisticRegression()`; *single* gives each wave the best action so far. Regret "
            "per unit."
        ),
        measure=yes_or_no.measure,
        runs=60,
        quick=2,
    ),
    Table(
        name="readable",
        title="A rule one can read",
        text=(
            "{runs:,} random splits of Hillstrom's log a row: rules are fitted to *rows* "
            "customers and valued on all others. *Tree* has at most four leaves; *single* is "
            "the best action. Splits overlap, so standard errors are too small."
        ),
        measure=readable.measure,
        runs=40,
        quick=2,
    ),
    Table(
        name="earlier-campaign",
        title="Starting from an earlier campaign",
        text=(
            "{runs:,} runs a row: 1,200 units in three equal waves, 3 actions, a constant and "
            "4 normal features, noise 1; coefficients with a common part of standard "
            "deviation 0.17 and deviations of 0.1. An earlier campaign gave 600 units an "
            "action at random; since then coefficients have drifted, with standard deviation "
            "*drift* in units of 0.1. The joint ridge ignores it, adds its sums, or learns "
            "how far to trust it; *drift known* is told. Regret per unit."
        ),
        measure=earlier.measure,
        runs=400,
        quick=2,
    ),
    Table(
        name="first-batch",
        title="The first batch by design",
        text=(
            "{runs:,} runs a row: shared layout, vectors of 10 normal numbers whose "
            "covariance has eigenvalues from *kappa* times the largest, parameter of length "
            "1, noise 1. The design uses up to 2,000 of the first vectors. Regret of the "
            "whole campaign."
        ),
        measure=first_batch.measure,
        runs=100,
        quick=2,
    ),
    Table(
        name="costs",
        title="What a close costs",
        text=(
            "Seconds of processor time, on one thread, to close the first of three waves of "
            "10 units for each coefficient and action: the median of {runs} closes."
        ),
        measure=costs.measure,
        runs=3,
        quick=1,
    ),
)


def main() -> None:
    """Measure the tables, and write the page unless it is a quick run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    names = [table.name for table in TABLES]
    parser.add_argument("--only", action="append", choices=names, help="measure this table alone")
    parser.add_argument("--quick", action="store_true", help="a few runs, and no page")
    told = parser.parse_args()
    warnings.simplefilter("ignore", RankDeficiencyWarning)
    for table in TABLES:
        if not told.only or table.name in told.only:
            try:
                made = table.section(table.quick if told.quick else table.runs)
            except MissingDatasetError as error:
                raise SystemExit(f"error: {error}") from None
            print(made, flush=True)
            if not told.quick:
                # Read again each time: several tables may be measured at once.
                PAGE.write_text(page(sections(PAGE) | {table.title: made}), encoding="utf-8")


def sections(path: Path) -> dict[str, str]:
    """Return the sections of the page as it is, by title."""
    parts = path.read_text(encoding="utf-8").split("\n## ")[1:] if path.exists() else []
    return {part.partition("\n")[0]: f"## {part.rstrip()}\n" for part in parts}


def page(made: dict[str, str]) -> str:
    """Return the page with these sections, in the order of the tables."""
    return "\n".join([HEAD, *(made[table.title] for table in TABLES if table.title in made)])


if __name__ == "__main__":
    main()
