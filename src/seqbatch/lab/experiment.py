"""What an experiment of the lab is: a declaration that makes a table, and an analysis of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seqbatch.core import arguments
from seqbatch.engine import Engine
from seqbatch.errors import InvalidArgumentError
from seqbatch.lab.claims import Claim, claims_page
from seqbatch.pictures import save
from seqbatch.simulation import Progress
from seqbatch.simulation.device import DEVICES

if TYPE_CHECKING:
    import altair as alt
    import polars as pl


#: The experiments whose trials can run side by side on a device.
ON_DEVICES = ("fig2", "fig3")


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
    jobs, engine
        How many processes, and whose; see :func:`seqbatch.engine.open_engine`.
    device
        Where to run the trials side by side, or None for the processor alone; see
        :func:`seqbatch.simulation.sweep`.
    report
        Called with the progress.
    """

    out: Path
    trials: int | None = None
    quick: bool = False
    jobs: int = 1
    engine: str | Engine = "local"
    device: str | None = None
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

    An interrupted run goes on where it stopped. A quick look, and a device's run, has a folder of
    its own.
    """
    if options.device is not None:
        _require_device(experiment, options.device)
    folder = options.out / _folder(experiment, options)
    table = experiment.run(replace(options, out=folder / "run"))
    # Not before: a run that is refused leaves no folder behind.
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{experiment.name}.{ending}" for ending in ("parquet", "csv")]
    table.write_parquet(files[0])
    flat = [name for name, kind in table.schema.items() if not kind.is_nested()]
    table.select(flat).write_csv(files[1])
    chart = experiment.chart(table)
    files += [save(chart, folder / f"{experiment.name}.{end}") for end in ("png", "svg", "html")]
    page = folder / "claims.md"
    words = claims_page(
        experiment.title, _command(experiment, options), table, experiment.claims(table)
    )
    page.write_text(words, encoding="utf-8")
    return [*files, page]


def _require_device(experiment: Experiment, device: str) -> None:
    """Refuse a device that is not known, or is for others, before anything is planned or run."""
    if experiment.name not in ON_DEVICES:
        raise InvalidArgumentError(
            "device",
            f"left out but for {' and '.join(ON_DEVICES)}",
            f"{device!r} with {experiment.name}",
        )
    arguments.choice("device", device, DEVICES)


def _folder(experiment: Experiment, options: Options) -> str:
    # Apart, so that a quick look does not take the place of a long run's picture.
    quick = ["quick"] if options.quick else []
    return "-".join([experiment.name, *quick, *filter(None, [options.device])])


def _command(experiment: Experiment, options: Options) -> str:
    chosen = ["--quick"] if options.quick else []
    chosen += [f"--trials {options.trials}"] if options.trials else []
    chosen += [f"--device {options.device}"] if options.device else []
    return " ".join(["seqbatch reproduce", experiment.name, *chosen])
