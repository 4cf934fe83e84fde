"""What a sweep's table says: means, bands, slopes, paired differences."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl


def summarise(table: "pl.DataFrame", *, value: str = "regret") -> "pl.DataFrame":
    """Return mean, standard deviation, trials and a 95% interval of the mean, for each line and T.

    The interval is Student's; it is as wide as the line with a single trial, where it is not known.
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
    factor = np.where(trials > 1, stdtrit(np.maximum(trials - 1, 1), 0.975) / np.sqrt(trials), 0.0)
    half = pl.Series("half", factor) * grouped["sd"].fill_null(0.0)
    return grouped.with_columns(
        sd=pl.col("sd").fill_null(0.0), low=pl.col("mean") - half, high=pl.col("mean") + half
    )


def slopes(table: "pl.DataFrame", *, value: str = "regret") -> "pl.DataFrame":
    """Return each line's slope of log mean value on log T, with its standard error.

    The error comes from the trials: each trial's own slope, and how much these vary. With paired
    horizons that is what repeating the whole sweep would show.
    """
    import polars as pl

    rows = []
    for (environment, policy), part in table.group_by("environment", "policy", maintain_order=True):
        wide = part.pivot(on="trial", index="units", values=value).sort("units")
        x = np.log(wide["units"].to_numpy())
        y = wide.drop("units").to_numpy()
        if len(x) < 2 or not (y > 0).all():
            continue
        single = [_slope(x, np.log(column)) for column in y.T]
        rows.append(
            {
                "environment": environment,
                "policy": policy,
                "slope": _slope(x, np.log(y.mean(axis=1))),
                "error": float(np.std(single, ddof=1) / np.sqrt(len(single)))
                if len(single) > 1
                else float("nan"),
            }
        )
    schema = {
        "environment": pl.String,
        "policy": pl.String,
        "slope": pl.Float64,
        "error": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema)


def paired(table: "pl.DataFrame", *, base: str, value: str = "regret") -> "pl.DataFrame":
    """Return each line's mean difference from the line `base`, trial by trial, with its error."""
    import polars as pl

    keys = ["environment", "units", "trial"]
    reference = table.filter(pl.col("policy") == base).select(*keys, base=pl.col(value))
    joined = table.filter(pl.col("policy") != base).join(reference, on=keys, maintain_order="left")
    gap = pl.col(value) - pl.col("base")
    return joined.group_by("environment", "policy", "units", maintain_order=True).agg(
        difference=gap.mean(),
        error=(gap.std() / pl.len().sqrt()).fill_null(float("nan")),
        trials=pl.len(),
    )


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.polyfit(x, y, 1)[0])
