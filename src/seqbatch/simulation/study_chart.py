"""The charts of a study: a value against horizons, batches or time, one panel per environment."""

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, get_args

from seqbatch.core import arguments
from seqbatch.display import counted, visible
from seqbatch.errors import InvalidArgumentError
from seqbatch.simulation.charts import LineStyle, drawn, interval_words, looks, pictured
from seqbatch.simulation.summaries import by_batch, rounds, summarise

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

Over = Literal["horizons", "batches", "time"]
TITLES = {"horizons": "the horizon", "batches": "the number of batches", "time": "time"}
AXES = {"horizons": "horizon T (units)", "batches": "batches M", "time": "units so far"}
COLUMNS = {"horizons": "units", "batches": "round", "time": "end"}
#: The most points of a line over time.
POINTS = 12


def shown(runs: "pl.DataFrame") -> list[Over]:
    """Return what a study can be drawn over, the most telling first."""
    found: list[Over] = []
    if runs["units"].n_unique() > 1:
        found.append("horizons")
    if rounds(runs)["round"].is_not_null().any():
        found.append("batches")
    return [*found, "time"] if (runs["ends"].list.len() > 0).any() else found or ["horizons"]


def chart(
    runs: "pl.DataFrame",
    kinds: Mapping[str, str],
    *,
    over: Over | None = None,
    value: str,
    expected: float | None = None,
) -> "alt.TopLevelMixin":
    """Draw mean values with intervals, given the class of each policy; a line where expected."""
    import altair as alt
    import polars as pl

    if over is None:
        over = shown(runs)[0]
        over = "horizons" if over == "time" and value != "regret" else over
    arguments.choice("over", over, get_args(Over))
    if over == "time" and value != "regret":
        raise InvalidArgumentError("value", '"regret" over time', repr(value))
    # Show the class beside the user's name, because it determines the colour.
    labels = {
        line: visible(line) if line == kind else f"{visible(line)} ({kind})"
        for line, kind in kinds.items()
    }
    styles = looks({labels[line]: kind for line, kind in kinds.items()})
    table = _means(runs, over, value).with_columns(line=pl.col("policy").replace(labels))
    panels = _panels(table, styles, over, value, expected)
    words = [interval_words(table)]
    if expected is not None:
        words.append(f"The dashed line is the value expected, {expected:g}.")
    if over != "horizons" and runs["units"].n_unique() > 1:
        words.append(f"Runs of {counted(max(runs['units']), 'unit')}.")
    return pictured(
        alt.concat(*panels, columns=2),
        styles,
        title=f"{value_words(value).capitalize()} against {TITLES[over]}",
        subtitle=words,
        width=480 * min(len(panels), 2),
    )


def _means(runs: "pl.DataFrame", over: Over, value: str) -> "pl.DataFrame":
    """Return what is drawn: one row per point."""
    import polars as pl

    longest = runs.filter(pl.col("units") == runs["units"].max())
    if over == "time":
        # Curves begin before the first unit.
        means = by_batch(rounds(longest), also=("round",))
        first = means.filter(pl.col("batch") == 1).with_columns(
            end=pl.lit(0, dtype=pl.Int64), mean=pl.lit(0.0), low=None, high=None
        )
        done = [(pl.col("batch") - before) * POINTS // pl.col("batches") for before in (0, 1)]
        return pl.concat([first, means.filter(done[0] > done[1])], how="vertical_relaxed")
    table = rounds(longest if over == "batches" else runs)
    by = ("environment", "policy", "units", "batches", "round")
    return summarise(table, value=value, by=by)


def _panels(
    table: "pl.DataFrame",
    styles: Mapping[str, LineStyle],
    over: Over,
    value: str,
    expected: float | None,
) -> list[Any]:
    import altair as alt
    import polars as pl

    scale = alt.Scale(zero=over == "time", nice=False, padding=12)
    axis = alt.Axis(tickCount=6)
    if over == "batches":
        axis = alt.Axis(values=sorted(set(table["round"].drop_nulls())), format="d")
    x = alt.X(f"{COLUMNS[over]}:Q", title=AXES[over], scale=scale, axis=axis)
    y = alt.Y("mean:Q", title=value_words(value), scale=alt.Scale(zero=over == "time"))
    apart = [None] if over == "batches" else sorted(set(table["round"]), key=lambda n: n or 0)
    panels = []
    for environment, batches in product(dict.fromkeys(table["environment"]), apart):
        part = table.filter(pl.col("environment") == environment)
        words = [visible(environment)]
        if batches is not None:
            part = part.filter(pl.col("round") == batches)
            words.append(f"M = {batches}")
        title = alt.TitleParams(", ".join(words), anchor="start")
        made = drawn(part, styles, x=x, y=y, interval=True)
        if expected is not None:
            line = alt.Chart({"values": [{"mean": expected}]}).mark_rule(strokeDash=[4, 4])
            made = alt.layer(line.encode(y=y), made)
        panels.append(made.properties(width=420, height=280, title=title))
    return panels


def value_words(value: str) -> str:
    """Return what a value is, for titles."""
    return {"error": "error of the estimate"}.get(value, value.replace("_", " "))
