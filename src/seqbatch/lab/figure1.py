"""Figure 1: accuracy on labelled data in file order, at several horizons (Section 6.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seqbatch import Learner, datasets
from seqbatch.datasets import Labelled
from seqbatch.grids import GridRule
from seqbatch.lab.experiment import Claim, Options
from seqbatch.policies import SBUCB, LinUCB, Policy, SupSBUCB
from seqbatch.simulation import run_tasks
from seqbatch.simulation.charts import LineStyle, drawn, fitted, looks, pictured
from seqbatch.simulation.resumable_tasks import Row

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

GAMMA = 6.0
Dataset = Literal["mushroom", "covertype"]
HORIZONS: dict[Dataset, tuple[int, ...]] = {
    "mushroom": (500, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_124),
    "covertype": (
        5_000,
        10_000,
        20_000,
        50_000,
        100_000,
        200_000,
        300_000,
        400_000,
        500_000,
        581_012,
    ),
}
QUICK = {"mushroom": (500, 2_000, 8_124), "covertype": (5_000, 20_000, 50_000)}


@cache
def _data(name: Dataset) -> Labelled:
    return datasets.mushroom() if name == "mushroom" else datasets.covertype()


@dataclass(frozen=True)
class Accuracy:
    """One line at one horizon, as a separate run, because M, gamma and S depend on T."""

    dataset: Dataset
    line: str
    policy: Policy
    rule: GridRule
    units: int

    @property
    def name(self) -> str:
        """Its name in the run."""
        return f"{self.line}/{self.units}"

    def __call__(self) -> list[Row]:
        """Replay the first rows; nothing is random."""
        table = _data(self.dataset).head(self.units)
        features, labels, classes = table.features, table.labels, len(table.classes)
        grid = self.rule.grid(self.units, classes * features.shape[1])
        learner = Learner(self.policy, grid, actions=classes, dim=features.shape[1], layout="block")
        actions = learner.replay(features, np.eye(classes)[labels])
        return [
            {
                "policy": self.line,
                "units": self.units,
                "batches": grid.batches,
                "accuracy": float((actions == labels).mean()),
            }
        ]


@dataclass(frozen=True)
class Figure1:
    """Accuracy of LinUCB, SBUCB and SupSBUCB on a data set."""

    dataset: Dataset

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return f"fig1-{self.dataset}"

    @property
    def title(self) -> str:
        """One line on what it shows."""
        return f"Figure 1: accuracy on {self.dataset.title()} in file order"

    def lines(self) -> dict[str, tuple[Policy, GridRule]]:
        """Return the lines; on Covertype also with a tenth of M, as in the paper's text."""
        lines: dict[str, tuple[Policy, GridRule]] = {
            "LinUCB": (LinUCB(gamma=GAMMA, first="fixed"), GridRule(kind="online"))
        }
        parts = ("", "/2", "/4", "/8") if self.dataset == "covertype" else ("",)
        readings = {"M": 1, "M as in the text": 10} if self.dataset == "covertype" else {"M": 1}
        for name, tenth in readings.items():
            for power, part in enumerate(parts):
                rule = GridRule(kind="uniform", batches="adversarial", divide=tenth * 2**power)
                lines[f"SBUCB, {name.replace('M', 'M' + part, 1)}"] = (
                    SBUCB(gamma=GAMMA, first="fixed"),
                    rule,
                )
        rule = GridRule(kind="uniform", batches="adversarial")
        lines["SupSBUCB, M"] = (SupSBUCB(gamma=GAMMA, first="fixed"), rule)
        return lines

    def run(self, options: Options) -> "pl.DataFrame":
        """Replay every line at every horizon; one trial is exact."""
        horizons = (QUICK if options.quick else HORIZONS)[self.dataset]
        tasks = [
            Accuracy(self.dataset, line, policy, rule, units)
            # The longest first: no process should be left with it at the end.
            for units in reversed(horizons)
            for line, (policy, rule) in self.lines().items()
        ]
        return run_tasks(
            tasks,
            out=options.out,
            declaration=(self, self.lines(), horizons),
            jobs=options.jobs,
            engine=options.engine,
            report=options.report,
        ).sort("policy", "units")

    def chart(self, table: "pl.DataFrame") -> "alt.TopLevelMixin":
        """Draw accuracy against the horizon; on Covertype also the loss with fewer batches."""
        import altair as alt
        import polars as pl

        labels = self._labels(table)
        styles = looks({label: line.partition(",")[0] for line, label in labels.items()})
        shown = table.with_columns(line=pl.col("policy").replace(labels))
        many = self.dataset == "covertype"
        spread = fitted(table["units"], form="~s", margin=1.1) if many else _thousands()
        x = alt.X("units:Q", title="horizon T (units)", **spread)
        few = shown.filter(pl.col("policy").is_in(["LinUCB", "SBUCB, M", "SupSBUCB, M"]))
        y = alt.Y("accuracy:Q", title="accuracy", scale=alt.Scale(zero=False, padding=8))
        title = _left("Accuracy of the three policies" if many else "")
        panels = drawn(few, styles, x=x, y=y).properties(
            width=420 if many else 640, height=360, title=title
        )
        if many:
            panels = alt.hconcat(panels, _losses(shown, styles, x), spacing=30)
        return pictured(
            panels, styles, title=self.title, subtitle=self._subtitle(), width=930 if many else 640
        )

    def _labels(self, table: "pl.DataFrame") -> dict[str, str]:
        """Label each line with its number of batches at the largest horizon."""
        last = table.filter(table["units"] == table["units"].max())
        batches = dict(last.select("policy", "batches").iter_rows())
        return {
            line: "LinUCB, one unit per batch"
            if line == "LinUCB"
            else f"{line}: {batches[line]:,} batches"
            for line in self.lines()
        }

    def _subtitle(self) -> list[str]:
        formula = (
            "M = √(d T ln(1 + T/d) / ln 2) batches of equal size, where d = classes × features"
        )
        if self.dataset == "mushroom":
            return [
                f"{formula}.",
                "Each T is a separate run; the legend gives M at the largest T.",
            ]
        return [
            f"{formula}; the paper's text has a tenth of that.",
            "Each T is a separate run; the legend gives the number of batches at the largest T.",
        ]

    def claims(self, table: "pl.DataFrame") -> Sequence[Claim]:
        """Compare the claims of Section 6.1 with the table."""
        value = {(r["policy"], r["units"]): r for r in table.iter_rows(named=True)}
        units = sorted({key[1] for key in value})
        last = units[-1]
        gaps = [
            abs(value["SBUCB, M", T]["accuracy"] - value["LinUCB", T]["accuracy"]) for T in units
        ]
        drop = value["SBUCB, M", last]["accuracy"] - value["SupSBUCB, M", last]["accuracy"]
        claims = [
            Claim(
                "Section 6.1",
                "SBUCB nearly identical to LinUCB (within 0.01)",
                f"gap {gaps[-1]:.4f} at T = {last:,}; largest {max(gaps):.4f}, at "
                f"T = {units[int(np.argmax(gaps))]:,}",
                gaps[-1] <= 0.01,
            ),
            Claim(
                "Section 6.1",
                "SupSBUCB noticeably less accurate (by 0.01 or more)",
                f"{drop:.3f} below SBUCB at T = {last:,}",
                drop >= 0.01,
            ),
            Claim(
                "Section 6.1",
                "SupSBUCB 15-20 times slower than SBUCB",
                "not timed here; docs/benchmarks.md has the ratio",
                None,
            ),
        ]
        return claims if self.dataset == "mushroom" else claims + _covertype_claims(value, units)


def _thousands() -> dict[str, Any]:
    """Return a linear axis with well-spaced labels."""
    import altair as alt

    axis = alt.Axis(values=list(range(0, 10_001, 1_000)), format=",d")
    return {"scale": alt.Scale(zero=False, nice=False, padding=12), "axis": axis}


def _losses(shown: "pl.DataFrame", styles: dict[str, LineStyle], x: "alt.X") -> Any:
    """Draw by how much the accuracy of each SBUCB line is below LinUCB's."""
    import altair as alt
    import polars as pl

    online = shown.filter(pl.col("policy") == "LinUCB").select("units", online="accuracy")
    lost = shown.filter(pl.col("policy").str.starts_with("SBUCB")).join(online, on="units")
    lost = lost.with_columns(lost=100 * (pl.col("online") - pl.col("accuracy")))
    # Nearly logarithmic, but defined at 0 and below, where SBUCB is no worse.
    scale = alt.Scale(type="symlog", constant=0.1, nice=False, zero=False, padding=8)
    axis = alt.Axis(values=[-10, -3, -1, -0.3, 0, 0.3, 1, 3, 10], format="~r")
    y = alt.Y(
        "lost:Q", title="percentage points below LinUCB (logarithmic)", scale=scale, axis=axis
    )
    title = _left("What SBUCB loses with fewer batches")
    return drawn(lost, styles, x=x, y=y).properties(width=420, height=360, title=title)


def _left(words: str) -> "alt.TitleParams":
    import altair as alt

    return alt.TitleParams(words, anchor="start")


def _covertype_claims(value: dict[tuple[str, int], Row], units: list[int]) -> list[Claim]:
    curve = [value["SBUCB, M", T]["accuracy"] for T in units]
    peak = int(np.argmax(curve))
    last = units[-1]
    claims = [
        Claim(
            "Section 6.1",
            "accuracy first rises, then falls as T grows",
            f"{curve[0]:.3f} at {units[0]:,}, {curve[peak]:.3f} at {units[peak]:,}, "
            f"{curve[-1]:.3f} at {last:,}",
            0 < peak < len(units) - 1 if last > 100_000 else None,
        )
    ]
    for reading in ("M", "M as in the text"):
        full, eighth = (
            value[f"SBUCB, {reading.replace('M', 'M' + part, 1)}", last] for part in ("", "/8")
        )
        loss = full["accuracy"] - eighth["accuracy"]
        claims.append(
            Claim(
                "Section 6.1",
                f"with {reading} = {full['batches']:,}, a mild loss at an eighth of it",
                f"{loss:.4f} lower with {eighth['batches']:,} batches",
                loss < 0.03,
            )
        )
    text, formula = (
        value[f"SBUCB, {reading}", last]["batches"] for reading in ("M as in the text", "M")
    )
    claims.append(
        Claim(
            "Section 6.1",
            "the formula for M gives 4,821 batches for T = 581,012, a 120-fold reduction",
            f"it gives {formula:,} for T = {last:,}; a tenth of it is {text:,}, a reduction by "
            f"{last / text:.0f}",
            formula == 4_821 if last == 581_012 else None,
        )
    )
    return claims
