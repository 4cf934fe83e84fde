"""Figure 3: problem-dependent regret on ads drawn from a pool (Section 6.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from numpy.random import SeedSequence

from seqbatch.core import Layout
from seqbatch.datasets import (
    DeviceAvazu,
    MissingDatasetError,
    SyntheticAvazu,
    avazu,
    avazu_chunks,
    fit_theta,
)
from seqbatch.environments import FeaturePool, Instance
from seqbatch.grids import GridRule
from seqbatch.lab.experiment import (
    Claim,
    MeanEstimate,
    Options,
    all_of,
    difference,
    ratio,
    slope_estimates,
)
from seqbatch.policies import BPE, LBGL, RBGL
from seqbatch.simulation import Line, Study
from seqbatch.simulation.charts import above_zero, drawn, fitted, interval_words, looks, pictured
from seqbatch.simulation.summaries import slopes, summarise

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

POOL, DIM, NOISE, TRIALS = 40_428_967, 40, 0.1, 50
HORIZONS = (100_000, 330_000, 1_100_000, 3_700_000, 12_000_000, POOL)
QUICK_POOL, QUICK_HORIZONS = 200_000, (20_000, 60_000, 180_000)
#: LBGL's multiplier; at 1 the penalty shrinks parameters of this size to 0.
LASSO_SCALE = 0.002


FILE, GENERATED = "Avazu", "generated rows of Avazu's shape"


def _source() -> str:
    """Return the data source: your Avazu file if it exists, else generated rows."""
    try:
        next(iter(avazu_chunks(rows=1)))
    except MissingDatasetError:
        return GENERATED
    return FILE


@cache
def _environment(rows: int, source: str, device: str | None) -> FeaturePool:
    if device is not None and source == GENERATED:
        drawn = DeviceAvazu(rows=rows, device=device)
        return FeaturePool(rows=drawn, theta=drawn.theta, actions=2, noise=NOISE)
    pool = avazu(rows=rows) if source == FILE else SyntheticAvazu(seed=0).hashed(rows)
    return FeaturePool(rows=pool, theta=fit_theta(pool), actions=2, noise=NOISE)


@dataclass(frozen=True)
class AvazuPool:
    """The pool as an environment that is loaded where it is used instead of being sent there.

    Parameters
    ----------
    rows
        The number of rows of the pool.
    source
        The file, or generated rows; part of the run's identity.
    device
        The device on which rows are generated, or None for the host.
    """

    rows: int
    source: str
    device: str | None = None

    actions: ClassVar[int] = 2
    dim: ClassVar[int] = DIM
    layout: ClassVar[Layout] = "shared"
    units: ClassVar[int | None] = None

    def instance(self, seed: SeedSequence) -> Instance:
        """Draw from the pool with this seed."""
        return _environment(self.rows, self.source, self.device).instance(seed)


@dataclass(frozen=True)
class Figure3:
    """Regret of BPE, and of RBGL and LBGL on their own grids and on BPE's."""

    name: str = "fig3"
    title: str = "Figure 3: problem-dependent regret on a pool of ads, d = 40, K = 2"

    def lines(self) -> dict[str, Line]:
        """Return the paper's five lines."""
        geometric = GridRule(kind="geometric", batches="problem-dependent")
        original = GridRule(kind="sparse", batches="problem-dependent")
        return {
            "BPE": Line(BPE(first="fixed"), geometric),
            "RBGL, original": Line(RBGL(first="fixed"), original),
            "RBGL, unified": Line(RBGL(first="fixed"), geometric),
            "LBGL, original": Line(LBGL(scale=LASSO_SCALE), original),
            "LBGL, unified": Line(LBGL(scale=LASSO_SCALE), geometric),
        }

    def run(self, options: Options) -> "pl.DataFrame":
        """Run the study; the column `pool` of the table is the number of rows of the pool."""
        import polars as pl

        source = _source()
        pool = AvazuPool(QUICK_POOL if options.quick else POOL, source, options.device)
        study = Study(
            environments={source: pool},
            policies=self.lines(),
            horizons=QUICK_HORIZONS if options.quick else HORIZONS,
            trials=options.trials or (4 if options.quick else TRIALS),
            seed=3,
            learn_last=False,
            device=options.device,
        )
        result = study.run(
            options.out, jobs=options.jobs, engine=options.engine, report=options.report
        )
        return result.runs.with_columns(pool=pl.lit(pool.rows))

    def chart(self, table: "pl.DataFrame") -> "alt.TopLevelMixin":
        """Draw regret against the horizon on logarithmic scales."""
        import altair as alt
        import polars as pl

        rates = _rates(table)
        labels = {line: f"{line} (slope {rate.shown(3)})" for line, rate in rates.items()}
        styles = looks({label: line.partition(",")[0] for line, label in labels.items()})
        summary = above_zero(summarise(table)).with_columns(line=pl.col("policy").replace(labels))
        extremes = [*summary["mean"], *summary["low"], *summary["high"]]
        panel = drawn(
            summary,
            styles,
            x=alt.X("units:Q", title="horizon T (units)", **fitted(summary["units"], form="~s")),
            y=alt.Y("mean:Q", title="regret", **fitted(extremes)),
            interval=True,
        ).properties(width=720, height=400)
        return pictured(
            panel,
            styles,
            title=self.title,
            subtitle=[
                _source_words(table),
                f"{interval_words(summary)} Slopes of log regret on log T, ± one standard error.",
                "Original: the policy's own grid of batches; unified: BPE's.",
            ],
            width=720,
        )

    def claims(self, table: "pl.DataFrame") -> Sequence[Claim]:
        """Compare the claims of Section 6.3 with the table."""
        rate, gaps = _rates(table), _final_ratios(table)
        where = f"Section 6.3, on {table['environment'][0]}"
        rivals = [name for name in rate if name != "BPE"]
        shown = {name: one.shown(3) for name, one in rate.items()}
        apart = {name: difference(rate[name], rate["BPE"]) for name in rivals}
        lowest = min(rivals, key=lambda name: rate[name].value)
        return [
            Claim(
                where,
                "BPE's slope nearly flat (0.002; here within 0.1 of 0)",
                shown["BPE"],
                rate["BPE"].within(-0.1, 0.1),
            ),
            Claim(
                where,
                "slopes near 0.4 (0.3 to 0.5) on the original schedules (0.400 and 0.399)",
                f"RBGL {shown['RBGL, original']}, LBGL {shown['LBGL, original']}",
                all_of(
                    rate[f"{name}, original"].within(0.3, 0.5, of=2) for name in ("RBGL", "LBGL")
                ),
            ),
            Claim(
                where,
                "the unified schedule flattens them (0.026 and 0.035; here within 0.15 of 0)",
                f"RBGL {shown['RBGL, unified']}, LBGL {shown['LBGL, unified']}",
                all_of(
                    rate[f"{name}, unified"].within(-0.15, 0.15, of=2) for name in ("RBGL", "LBGL")
                ),
            ),
            Claim(
                where,
                "BPE's slope below all others'",
                f"{shown['BPE']}; lowest of the others {lowest} {shown[lowest]}",
                all_of(one.within(0, of=len(rivals)) for one in apart.values()),
            ),
            Claim(
                where,
                "both remain above BPE in regret at the largest horizon",
                ", ".join(f"{name} {gaps[name].shown(3)} times BPE's" for name in rivals),
                all_of(gaps[name].within(1, of=len(rivals)) for name in rivals),
            ),
        ]


def _source_words(table: "pl.DataFrame") -> str:
    """State the data source in the picture itself."""
    rows = f"{table['pool'][0]:,}"
    if table["environment"][0] == GENERATED:
        return f"Synthetic data: {rows} rows GENERATED in Avazu's shape, not Avazu's own."
    return f"{rows} rows of Avazu."


def _rates(table: "pl.DataFrame") -> dict[str, MeanEstimate]:
    rates = slope_estimates(slopes(table), trials=table["trial"].n_unique())
    return {line: rate for (_, line), rate in rates.items()}


def _final_ratios(table: "pl.DataFrame") -> dict[str, MeanEstimate]:
    """Return each line's regret at the largest horizon, as a multiple of BPE's."""
    import polars as pl

    last = table.filter(pl.col("units") == pl.col("units").max()).sort("trial")
    base = last.filter(policy="BPE")["regret"]
    return {
        line: ratio(last.filter(policy=line)["regret"], base)
        for line in dict.fromkeys(table["policy"])
    }
