"""What an experiment of the lab is: a declaration that makes a table, and an analysis of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seqbatch.simulation import Progress

if TYPE_CHECKING:
    import altair as alt
    import polars as pl


@dataclass(frozen=True)
class Claim:
    """A claim of the paper beside what was measured.

    Parameters
    ----------
    source
        Where the paper says it.
    text
        What it says.
    measured
        What was found.
    held
        Whether that bears it out; None where it cannot be judged from this run.
    """

    source: str
    text: str
    measured: str
    held: bool | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to run an experiment.

    Parameters
    ----------
    out
        The folder for its files.
    trials
        How often to repeat, or None for the paper's number.
    quick
        A small version that shows the shape of things.
    jobs
        How many processes.
    report
        Called with the progress.
    """

    out: Path
    trials: int | None = None
    quick: bool = False
    jobs: int = 1
    report: Callable[[Progress], None] = lambda _: None


class Experiment(Protocol):
    """One figure of the paper, or one of our own."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    @property
    def title(self) -> str:
        """One line on what it shows."""

    def run(self, options: Options) -> "pl.DataFrame":
        """Make the table."""

    def chart(self, table: "pl.DataFrame") -> "alt.TopLevelMixin":
        """Draw it."""

    def claims(self, table: "pl.DataFrame") -> Sequence[Claim]:
        """Set the paper's claims beside it."""


def reproduce(experiment: Experiment, options: Options) -> list[Path]:
    """Run an experiment and write its table, picture and claims; return the files.

    An interrupted run goes on where it stopped.
    """
    folder = options.out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    table = experiment.run(
        Options(
            # Apart, so that a quick look and the full run do not stand in each other's way.
            out=folder / ("run-quick" if options.quick else "run"),
            trials=options.trials,
            quick=options.quick,
            jobs=options.jobs,
            report=options.report,
        )
    )
    files = [folder / f"{experiment.name}.{ending}" for ending in ("parquet", "csv")]
    table.write_parquet(files[0])
    flat = [name for name, kind in table.schema.items() if not kind.is_nested()]
    table.select(flat).write_csv(files[1])
    chart = experiment.chart(table)
    for ending in ("png", "svg", "html"):
        file = folder / f"{experiment.name}.{ending}"
        if ending == "html":
            chart.save(file, inline=True)  # the page must open without a network
        else:
            chart.save(file, scale_factor=2.0)
        files.append(file)
    page = folder / "claims.md"
    page.write_text(_claims_page(experiment, experiment.claims(table), options), encoding="utf-8")
    return [*files, page]


def _claims_page(experiment: Experiment, claims: Sequence[Claim], options: Options) -> str:
    words = {True: "held", False: "**did not hold**", None: "cannot be judged"}
    words_used = ["--quick"] if options.quick else []
    words_used += [f"--trials {options.trials}"] if options.trials else []
    command = " ".join(["seqbatch reproduce", experiment.name, *words_used])
    lines = [
        f"# {experiment.title}",
        "",
        f"Made by `{command}`.",
        "",
        "| where | the paper says | measured | |",
        "|---|---|---|---|",
    ]
    lines += [f"| {c.source} | {c.text} | {c.measured} | {words[c.held]} |" for c in claims]
    return "\n".join(lines) + "\n"
