"""The results of a study: its table of runs, summaries with ranks and differences, and plots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqbatch.core import arguments
from seqbatch.display import cell, counted
from seqbatch.document import Table, shown
from seqbatch.simulation import study_chart
from seqbatch.simulation.charts import Rendered, save
from seqbatch.simulation.summaries import by_batch, overall, paired, ranked, slopes, summarise

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

#: What a study measures, in the table of runs.
VALUES = ("regret", "simple_regret", "reward", "error")


@dataclass(frozen=True, eq=False)
class StudyResult:
    """The results of a study.

    Parameters
    ----------
    runs
        One row per run: environment, policy, units, batches, trial, regret, simple regret, reward,
        the estimate's error, and the regret at each batch's end.
    kinds
        The class of each policy.
    measures
        The study's measures, each with the value that it should have, or None.
    """

    runs: "pl.DataFrame"
    kinds: Mapping[str, str]
    measures: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def values(self) -> tuple[str, ...]:
        """What the study measures: columns of the runs."""
        return (*VALUES, *self.measures)

    def summary(self, *, value: str = "regret", base: str | None = None) -> Table:
        """Return the mean of each policy on each grid, with its error, 95% interval and rank.

        Ranks are those among policies with as many batches, 1 for the best; measures have none.

        Parameters
        ----------
        value
            ``"regret"``, ``"simple_regret"`` (of the final rule, per unit), ``"reward"`` or
            ``"error"`` (of the estimate); or a measure of the study.
        base
            A policy from which to take the mean difference, by trial.
        """
        arguments.choice("value", value, self.values)
        keys = ["environment", "policy", "units", "batches"]
        # A policy with an own grid has a rank beside each number of batches of the others.
        ranks = ranked(self.runs, value=value).unique(keys, keep="none", maintain_order=True)
        table = summarise(self.runs, value=value).join(
            ranks.select(*keys, "rank"), on=keys, how="left", maintain_order="left"
        )
        # Of a measure it is not known whether more is better.
        rank = [] if value in self.measures else ["rank"]
        columns = [*keys, "trials", "mean", "error", "low", "high", *rank]
        if base is not None:
            gaps = paired(self.runs, base=base, value=value)
            gaps = gaps.unique(keys, keep="none", maintain_order=True)
            gaps = gaps.select(*keys, "difference", difference_error="error")
            table = table.join(gaps, on=keys, how="left", maintain_order="left")
            columns += ["difference", "difference_error"]
        return _table(study_chart.value_words(value).capitalize(), table.select(columns))

    def overall(self, *, value: str = "regret", base: str | None = None) -> Table:
        """Return the policies over all environments: mean rank, and mean difference from a base.

        The base is the first policy, unless named. Errors are over trials, with the environments
        taken as they are.
        """
        arguments.choice("value", value, self.values)
        base = next(iter(self.kinds)) if base is None else base
        columns = [
            "policy",
            "units",
            "batches",
            "environments",
            "mean",
            "rank",
            "difference",
            "error",
        ]
        found = overall(self.runs, base=base, value=value).rename({"round": "batches"})
        title = (
            f"{study_chart.value_words(value).capitalize()} over environments, compared with {base}"
        )
        return _table(title, found.select(columns))

    def by_batch(self) -> Table:
        """Return the cumulative regret at each batch's end, with its error and 95% interval."""
        columns = ["environment", "policy", "units", "batches", "batch", "end"]
        found = by_batch(self.runs).select(*columns, "mean", "error", "low", "high")
        return _table("Regret by batch", found)

    def slopes(self, *, value: str = "regret", over: str = "units") -> Table:
        """Return the slope of log mean value in log units, or in log batches, with its error."""
        arguments.choice("value", value, self.values)
        found = slopes(self.runs, value=value, over=over)
        return _table(f"Slope of log {study_chart.value_words(value)} in log {over}", found)

    def plot(
        self, over: study_chart.Over | None = None, *, value: str = "regret"
    ) -> "alt.TopLevelMixin":
        """Draw the means with their 95% intervals, one panel per environment.

        Parameters
        ----------
        over
            ``"horizons"``, ``"batches"``, or ``"time"``: regret at the batches' ends, within the
            runs of the largest horizon. None: horizons if there are several, then batches, then
            time.
        value
            See :meth:`summary`; over time it is regret.
        """
        arguments.choice("value", value, self.values)
        expected = self.measures.get(value)
        return study_chart.chart(self.runs, self.kinds, over=over, value=value, expected=expected)

    def to_pandas(self) -> Any:
        """Return the runs as a pandas data frame."""
        return _flat_table(self.runs).to_pandas()

    def to_polars(self) -> "pl.DataFrame":
        """Return the runs as a Polars data frame."""
        return self.runs

    def to_arrow(self) -> Any:
        """Return the runs as an Arrow table."""
        return self.runs.to_arrow()

    def tables(self) -> list[Table]:
        """Return the mean regret by environment, and the policies over all environments."""
        extra = ("simple regret",)
        simple = summarise(self.runs, value="simple_regret")["mean"].to_list()
        whole = self.summary()
        rows = [(*row, final) for row, final in zip(whole.rows, simple, strict=True)]
        columns = (*whole.columns[1:], *extra)
        tables = [
            Table(
                f"Regret in {name}: mean, standard error, 95% interval of the mean, rank; and "
                "simple regret",
                columns, [row[1:] for row in rows if row[0] == name], ("policy",), keys=2,
            )
            for name in dict.fromkeys(row[0] for row in rows)
        ]  # fmt: skip
        return [*tables, self.overall()] if len(self.kinds) > 1 and len(tables) > 1 else tables

    def save(self, folder: str | Path) -> list[Path]:
        """Write the runs, the tables (CSV and LaTeX) and the plots; return the files."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        summary = self.summary()
        files = [
            _flat_table(self.runs).to_csv(place / "results.csv"),
            summary.to_csv(place / "summary.csv"),
            self.overall().to_csv(place / "overall.csv"),
            self.by_batch().to_csv(place / "by-batch.csv"),
            place / "summary.tex",
        ]
        files[-1].write_text(summary.to_latex() + "\n", encoding="utf-8")
        for over in study_chart.shown(self.runs):
            picture = self.plot(over)
            files += [save(picture, place / f"{over}.{ending}") for ending in ("png", "html")]
        if self.runs["simple_regret"].is_not_nan().any():
            files.append(save(self.plot(value="simple_regret"), place / "simple-regret.png"))
        files += [save(self.plot(value=name), place / f"{name}.png") for name in self.measures]
        return files

    def __repr__(self) -> str:
        units, batches = (sorted(set(self.runs[name])) for name in ("units", "batches"))
        return (
            f"<StudyResult: {counted(len(self.kinds), 'policy')} in "
            f"{counted(self.runs['environment'].n_unique(), 'environment')}, "
            f"{_listed(batches)} batches, {_listed(units)} units; "
            f"{counted(self.runs['trial'].n_unique(), 'trial')}>"
        )

    def _repr_html_(self) -> str:
        return shown(repr(self), self.tables(), draw=lambda: Rendered(self.plot()))


def _table(title: str, frame: "pl.DataFrame") -> Table:
    """Return a frame as a table, without columns that are empty."""
    frame = frame.select(name for name in frame.columns if frame[name].null_count() < len(frame))
    words = tuple(name for name in ("environment", "policy") if name in frame.columns)
    return Table(title, tuple(frame.columns), frame.rows(), words, keys=len(words))


def _flat_table(runs: "pl.DataFrame") -> Table:
    flat = [name for name, kind in runs.schema.items() if not kind.is_nested()]
    return _table("Runs", runs.select(flat))


def _listed(numbers: Sequence[int]) -> str:
    told = [cell(number) for number in numbers]
    if len(told) > 4:
        told = [told[0], "...", told[-1]]
    return " or ".join([", ".join(told[:-1]), told[-1]]) if len(told) > 1 else told[0]
