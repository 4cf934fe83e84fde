"""The interface of the experiments, how they run, and claims of the paper beside measurements."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import hypot, inf, isnan, nan, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seqbatch.core import arguments
from seqbatch.engine import Engine
from seqbatch.errors import InvalidArgumentError
from seqbatch.simulation.charts import save
from seqbatch.simulation.device import DEVICES
from seqbatch.simulation.resumable_tasks import Report

if TYPE_CHECKING:
    import altair as alt
    import polars as pl


# ----------------------------------------------------------------------
# Claims, which are decided only if the measurement is precise enough.


@dataclass(frozen=True)
class Claim:
    """A claim of the paper beside a measurement.

    Parameters
    ----------
    source
        The place in the paper.
    text
        The claim.
    measured
        The measurement.
    held
        Whether the measurement confirms the claim; None if this run cannot decide.
    """

    source: str
    text: str
    measured: str
    held: bool | None


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over trials, or a number computed from such means.

    Parameters
    ----------
    value, error
        The estimate and its standard error, which is NaN for a single trial.
    trials
        The number of trials.
    """

    value: float
    error: float
    trials: int

    def within(self, low: float, high: float = inf, *, of: int = 1) -> bool | None:
        """Return whether the true value lies between two numbers; None without 95% confidence.

        If a claim rests on several estimates (`of`), all of them are right in 95% of runs.

        >>> one = MeanEstimate(1.0, 0.1, 50)
        >>> one.within(0.5), one.within(0.9)
        (True, None)
        """
        from scipy.special import stdtrit

        if isnan(self.value) or isnan(self.error):
            return None
        half = self.error * float(stdtrit(self.trials - 1, 1 - 0.025 / of))
        if low <= self.value - half and self.value + half <= high:
            return True
        return False if self.value + half < low or self.value - half > high else None

    def shown(self, digits: int) -> str:
        """Return the value and its error as text.

        >>> MeanEstimate(0.5678, 0.0234, 50).shown(2), MeanEstimate(3.0, float("nan"), 1).shown(0)
        ('0.57 ± 0.02', '3 ± ?')
        """
        error = "?" if isnan(self.error) else f"{self.error:.{digits}f}"
        return "unknown" if isnan(self.value) else f"{self.value:,.{digits}f} ± {error}"


def ratio(above: "pl.Series", below: "pl.Series") -> MeanEstimate:
    """Return the ratio of two means over the same trials, with its first-order error."""
    top, bottom = above.to_numpy(), below.to_numpy()
    value = float(top.mean() / bottom.mean())
    spread = top / bottom.mean() - value * bottom / bottom.mean()
    error = spread.std(ddof=1) / sqrt(len(spread)) if len(spread) > 1 else nan
    return MeanEstimate(value, float(error), len(spread))


def difference(one: MeanEstimate, other: MeanEstimate) -> MeanEstimate:
    """Return the difference, with the error of independent estimates."""
    return MeanEstimate(one.value - other.value, hypot(one.error, other.error), one.trials)


def slope_estimates(slopes: "pl.DataFrame", *, trials: int) -> dict[tuple[str, str], MeanEstimate]:
    """Return the slopes of :func:`~seqbatch.simulation.summaries.slopes` by line."""
    return {
        (row["environment"], row["policy"]): MeanEstimate(
            nan if row["slope"] is None else row["slope"],
            nan if row["error"] is None else row["error"],
            trials,
        )
        for row in slopes.iter_rows(named=True)
    }


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """Return False if any verdict is False, else None if any is None, else True.

    >>> all_of([True, None]), all_of([None, False]), all_of([True])
    (None, False, True)
    """
    found = list(verdicts)
    return False if False in found else None if None in found else True


def claims_page(title: str, command: str, table: "pl.DataFrame", claims: Sequence[Claim]) -> str:
    """Return the claims as a Markdown page, with an explanation of its numbers."""
    words = {True: "held", False: "**did not hold**", None: "not decided"}
    lines = [
        f"# {title}",
        "",
        f"Made by `{command}`. {_meaning(table)}",
        "",
        "| where | the claim | measured | |",
        "|---|---|---|---|",
    ]
    lines += [f"| {c.source} | {c.text} | {c.measured} | {words[c.held]} |" for c in claims]
    return "\n".join(lines) + "\n"


def _meaning(table: "pl.DataFrame") -> str:
    if "campaigns" in table.columns:
        return (
            f"{min(table['campaigns']):,} campaigns or more in each of {table['cell'].n_unique()} "
            "cells; ± is one standard error. A claim is decided if its 95% interval, widened for "
            "the number of cells, leaves no doubt; otherwise it is not decided."
        )
    if "trial" not in table.columns:
        return "Nothing in this run is random: one trial is exact."
    trials = table["trial"].n_unique()
    return (
        f"{trials} trial{'s' * (trials > 1)}; ± is one standard error over the trials (for slopes, "
        "by the jackknife). A claim is decided if its 95% interval, widened for the number of "
        "comparisons that it makes, leaves no doubt; otherwise it is not decided."
    )


# ----------------------------------------------------------------------
# Experiments and how to run them.


#: The experiments whose trials can run in parallel on a device.
ON_DEVICES = ("fig2", "fig3")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to run an experiment.

    Parameters
    ----------
    out
        The output folder.
    trials
        The number of trials, or None for the paper's number.
    quick
        Whether to run a small version that shows the overall picture.
    jobs, engine
        The number of processes and the engine; see :func:`seqbatch.engine.open_engine`.
    device
        The device on which all trials run in parallel, or None for the processor; see
        :class:`seqbatch.simulation.Study`.
    report
        A function that is called with the progress.
    """

    out: Path
    trials: int | None = None
    quick: bool = False
    jobs: int = 1
    engine: str | Engine = "local"
    device: str | None = None
    report: Report | None = None


class Experiment(Protocol):
    """One figure of the paper, or an additional one."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    @property
    def title(self) -> str:
        """One line on what it shows."""

    def run(self, options: Options) -> "pl.DataFrame":
        """Run it and return the table."""

    def chart(self, table: "pl.DataFrame") -> "alt.TopLevelMixin":
        """Draw the table."""

    def claims(self, table: "pl.DataFrame") -> Sequence[Claim]:
        """Compare the paper's claims with the table."""


def reproduce(
    experiment: Experiment, options: Options, *, command: str | None = None
) -> list[Path]:
    """Run an experiment and write its table, picture and claims; return the files.

    An interrupted run continues where it stopped. Quick runs, and runs on a device, have separate
    folders.

    Parameters
    ----------
    experiment, options
        What to run, and how.
    command
        The command that the page of claims names; `seqbatch reproduce` and the experiment's name
        unless given.
    """
    if options.device is not None:
        _require_device(experiment, options.device)
    folder = options.out / _folder(experiment, options)
    table = experiment.run(replace(options, out=folder / "run"))
    # Only now: a refused run leaves no folder behind.
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{experiment.name}.{ending}" for ending in ("parquet", "csv")]
    table.write_parquet(files[0])
    flat = [name for name, kind in table.schema.items() if not kind.is_nested()]
    table.select(flat).write_csv(files[1])
    chart = experiment.chart(table)
    files += [save(chart, folder / f"{experiment.name}.{end}") for end in ("png", "svg", "html")]
    page = folder / "claims.md"
    asked = _command(command or f"seqbatch reproduce {experiment.name}", options)
    words = claims_page(experiment.title, asked, table, experiment.claims(table))
    page.write_text(words, encoding="utf-8")
    return [*files, page]


def _require_device(experiment: Experiment, device: str) -> None:
    """Refuse an unknown device, or one for another experiment, before anything runs."""
    if experiment.name not in ON_DEVICES:
        raise InvalidArgumentError(
            "device",
            f"used only with {' and '.join(ON_DEVICES)}",
            f"{device!r} with {experiment.name}",
        )
    arguments.choice("device", device, DEVICES)


def _folder(experiment: Experiment, options: Options) -> str:
    # Separate folders: a quick run must not overwrite the picture of a full one.
    quick = ["quick"] if options.quick else []
    return "-".join([experiment.name, *quick, *filter(None, [options.device])])


def _command(command: str, options: Options) -> str:
    chosen = ["--quick"] if options.quick else []
    chosen += [f"--trials {options.trials}"] if options.trials else []
    chosen += [f"--device {options.device}"] if options.device else []
    return " ".join([command, *chosen])
