"""Summaries of a sweep's table: means, intervals, slopes, paired differences."""

from typing import TYPE_CHECKING

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    import polars as pl


def summarise(table: "pl.DataFrame", *, value: str = "regret") -> "pl.DataFrame":
    """Return mean, standard deviation, trials and a 95% interval of the mean, for each line and T.

    The interval is Student's; with a single trial it is null.
    """
    import polars as pl
    from scipy.special import stdtrit

    grouped = (
        table.group_by("environment", "policy", "units", "batches", maintain_order=True)
        .agg(
            mean=pl.col(value).mean(),
            sd=pl.col(value).std(),
            trials=pl.len(),
        )
        .sort("environment", "policy", "units", maintain_order=True)
    )
    trials = grouped["trials"].to_numpy()
    # With one trial the deviation is null, and makes the interval null whatever the factor is.
    factor = stdtrit(np.maximum(trials - 1, 1), 0.975) / np.sqrt(trials)
    half = pl.Series("half", factor) * grouped["sd"]
    return grouped.with_columns(low=pl.col("mean") - half, high=pl.col("mean") + half)


def slopes(table: "pl.DataFrame", *, value: str = "regret", over: str = "units") -> "pl.DataFrame":
    """Return each line's slope of log mean value on log T, with its standard error.

    `over` names another column than T to take the slope over.

    The error is the jackknife's over trials: what repeating the whole sweep would show. A line
    whose mean is not positive throughout has a null slope.
    """
    import polars as pl

    rows = []
    for (environment, policy), part in table.group_by("environment", "policy", maintain_order=True):
        # One column per trial, so that the jackknife can leave them out one by one.
        wide = part.pivot(on="trial", index=over, values=value).sort(over)
        x, y = np.log(wide[over].to_numpy()), wide.drop(over).to_numpy()
        trials = y.shape[1]
        slope = error = None
        if len(x) > 1 and (y.mean(axis=1) > 0).all():
            slope = float(_slopes(x, np.log(y.mean(axis=1))))
            without = (y.sum(axis=1, keepdims=True) - y) / max(trials - 1, 1)
            if trials > 1 and (without > 0).all():
                error = float(np.std(_slopes(x, np.log(without))) * np.sqrt(trials - 1))
        rows.append({"environment": environment, "policy": policy, "slope": slope, "error": error})
    names = ("environment", "policy", "slope", "error")
    kinds = (pl.String, pl.String, pl.Float64, pl.Float64)
    return pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)))


def paired(table: "pl.DataFrame", *, base: str, value: str = "regret") -> "pl.DataFrame":
    """Return each line's mean difference from the line `base`, trial by trial, with its error."""
    import polars as pl

    if base not in (known := table["policy"].unique(maintain_order=True).to_list()):
        raise InvalidArgumentError("base", f"one of the table's lines: {known}", repr(base))
    keys = ["environment", "units", "trial"]
    reference = table.filter(pl.col("policy") == base).select(*keys, base=pl.col(value))
    joined = table.filter(pl.col("policy") != base).join(reference, on=keys, maintain_order="left")
    gap = pl.col(value) - pl.col("base")
    return joined.group_by("environment", "policy", "units", maintain_order=True).agg(
        difference=gap.mean(),
        error=(gap.std() / pl.len().sqrt()).fill_null(float("nan")),
        trials=pl.len(),
    )


def _slopes(x: Floats, y: Floats) -> Floats:
    """Return the slope of each column on x, by least squares."""
    off = x - x.mean()
    slopes: Floats = off @ y / (off @ off)
    return slopes
