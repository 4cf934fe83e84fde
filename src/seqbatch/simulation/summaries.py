"""Summaries of a table of runs: means, intervals, ranks, paired differences, slopes, by batch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    import polars as pl

#: What identifies a line of a table: a policy on a grid in an environment.
LINE = ("environment", "policy", "units", "batches")
#: Values of which more is better.
GAINS = ("reward", "accuracy")


def summarise(
    table: "pl.DataFrame", *, value: str = "regret", by: tuple[str, ...] = LINE
) -> "pl.DataFrame":
    """Return mean, standard deviation and error, trials and a 95% interval of the mean, by line.

    The interval is Student's t interval; with a single trial it is null.
    """
    import polars as pl
    from scipy.special import stdtrit

    # NaN is a value that is unknown: by a run on a device, for example.
    known = table.with_columns(pl.col(value).fill_nan(None))
    grouped = (
        known.group_by(*by, maintain_order=True)
        .agg(
            mean=pl.col(value).mean(),
            sd=pl.col(value).std(),
            trials=pl.len(),
        )
        .sort("environment", "policy", "units", maintain_order=True)
    )
    trials = grouped["trials"].to_numpy()
    # With one trial the deviation is null, and with it the interval, whatever the factor.
    factor = stdtrit(np.maximum(trials - 1, 1), 0.975) / np.sqrt(trials)
    half = pl.Series("half", factor) * grouped["sd"]
    return grouped.with_columns(
        low=pl.col("mean") - half,
        high=pl.col("mean") + half,
        error=pl.col("sd") / pl.col("trials").sqrt(),
    )


def by_batch(table: "pl.DataFrame", *, also: tuple[str, ...] = ()) -> "pl.DataFrame":
    """Return the summary of the cumulative regret at each batch's end, and by further columns.

    Runs of more than 100 batches do not keep it, and are left out.
    """
    import polars as pl

    kept = table.filter(pl.col("ends").list.len() > 0)
    numbers = pl.int_ranges(1, pl.col("ends").list.len() + 1)
    long = (
        kept.with_columns(batch=numbers)
        .rename({"ends": "end"})
        .explode("batch", "end", "batch_regret")
    )
    return summarise(long, value="batch_regret", by=(*LINE, *also, "batch", "end"))


def slopes(table: "pl.DataFrame", *, value: str = "regret", over: str = "units") -> "pl.DataFrame":
    """Return each line's slope of log mean value in log T, with its standard error.

    Parameters
    ----------
    table
        The runs.
    value
        The column of values.
    over
        The column to use as T: ``"units"`` or ``"batches"``. Where a policy has runs of several
        numbers of the other one, each number has its slope.

    The standard error is the jackknife's over trials: the variation between repetitions of the
    whole. The slope is null if a line's mean is not positive throughout.
    """
    import polars as pl

    if over not in ("units", "batches"):
        raise InvalidArgumentError("over", "'units' or 'batches'", repr(over))
    other = "batches" if over == "units" else "units"
    rows = []
    for (environment, policy), part in table.group_by("environment", "policy", maintain_order=True):
        for fixed, own in _apart(part, over, other):
            slope, error = _slope(own, value, over)
            line = {"environment": environment, "policy": policy, other: fixed}
            rows.append({**line, "slope": slope, "error": error})
    names = ("environment", "policy", other, "slope", "error")
    kinds = (pl.String, pl.String, pl.Int64, pl.Float64, pl.Float64)
    return pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)))


def _apart(
    part: "pl.DataFrame", over: str, other: str
) -> Iterator[tuple[int | None, "pl.DataFrame"]]:
    """Yield the runs of a policy, by the other number where one of `over` has several of it."""
    if part.select(over, "trial").is_unique().all():
        numbers = part[other].unique()
        yield (numbers.item() if len(numbers) == 1 else None), part
        return
    for (number,), own in part.sort(other).group_by(other, maintain_order=True):
        yield number, own


def _slope(part: "pl.DataFrame", value: str, over: str) -> tuple[float | None, float | None]:
    # One column per trial: the jackknife leaves them out one by one.
    wide = part.pivot(on="trial", index=over, values=value).sort(over)
    x, y = np.log(wide[over].to_numpy()), wide.drop(over).to_numpy()
    trials = y.shape[1]
    slope = error = None
    if len(x) > 1 and (y.mean(axis=1) > 0).all():
        slope = float(_slopes(x, np.log(y.mean(axis=1))))
        without = (y.sum(axis=1, keepdims=True) - y) / max(trials - 1, 1)
        if trials > 1 and (without > 0).all():
            error = float(np.std(_slopes(x, np.log(without))) * np.sqrt(trials - 1))
    return slope, error


def _slopes(x: Floats, y: Floats) -> Floats:
    """Return the slope of each column on x, by least squares."""
    off = x - x.mean()
    slopes: Floats = off @ y / (off @ off)
    return slopes


# ----------------------------------------------------------------------
# Policies beside one another, at the same number of batches.


def rounds(table: "pl.DataFrame") -> "pl.DataFrame":
    """Return the runs with the column `round`: the number of batches at which they are compared.

    Policies that ran with several numbers of batches are compared at each. A policy with a grid
    that is its own is compared with the others at each of theirs. Where all have one grid, there is
    one round, without a number.
    """
    import polars as pl

    where = ("environment", "units")
    counted = pl.col("batches").n_unique().over(*where, "policy")
    varied = table.filter(counted > 1)
    if varied.is_empty():
        return table.with_columns(round=pl.lit(None, dtype=pl.Int64))
    numbers = varied.select(*where, round="batches").unique(maintain_order=True)
    own = table.filter(counted == 1).join(numbers, on=where, how="left", maintain_order="left")
    return pl.concat([varied.with_columns(round="batches"), own], how="diagonal")


def paired(table: "pl.DataFrame", *, base: str, value: str = "regret") -> "pl.DataFrame":
    """Return each line's mean difference from the policy `base`, by trial, with its error.

    Where policies ran with several numbers of batches, each line is compared at its own.
    """
    import polars as pl

    if base not in (known := table["policy"].unique(maintain_order=True).to_list()):
        raise InvalidArgumentError("base", f"one of the table's policies: {known}", repr(base))
    runs = rounds(table)
    keys = ["environment", "units", "round", "trial"]
    reference = runs.filter(pl.col("policy") == base).select(*keys, base=pl.col(value))
    others = runs.filter(pl.col("policy") != base)
    joined = others.join(reference, on=keys, maintain_order="left", nulls_equal=True)
    gap = pl.col(value) - pl.col("base")
    return joined.group_by(*LINE, "round", maintain_order=True).agg(
        difference=gap.mean(),
        error=(gap.std() / pl.len().sqrt()).fill_null(float("nan")),
        trials=pl.len(),
    )


def ranked(table: "pl.DataFrame", *, value: str = "regret") -> "pl.DataFrame":
    """Return the mean value of each line and its rank, 1 for the best, among those of its round."""
    import polars as pl

    known = pl.col(value).fill_nan(None)
    means = rounds(table).group_by(*LINE, "round", maintain_order=True).agg(known.mean())
    place = pl.col(value).rank("min", descending=value in GAINS)
    return means.with_columns(rank=place.over("environment", "units", "round"))


def overall(table: "pl.DataFrame", *, base: str, value: str = "regret") -> "pl.DataFrame":
    """Return policies over all environments: mean rank, and mean difference from `base`.

    The error of the difference is that over trials: the environments are taken as they are.
    """
    import polars as pl

    keys = ["policy", "units", "round"]
    ranks = (
        ranked(table, value=value)
        .group_by(*keys, maintain_order=True)
        .agg(environments=pl.len(), mean=pl.col(value).mean(), rank=pl.col("rank").mean())
    )
    gaps = (
        paired(table, base=base, value=value)
        .group_by(*keys, maintain_order=True)
        .agg(
            difference=pl.col("difference").mean(),
            error=(pl.col("error") ** 2).sum().sqrt() / pl.len(),
        )
    )
    joined = ranks.join(gaps, on=keys, how="left", maintain_order="left", nulls_equal=True)
    return joined.sort("units", "round", "rank", maintain_order=True)
