"""What all commands share: tables, progress, and errors as one line and an exit code."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from seqbatch.errors import CampaignStateError, InvalidFileError, SeqbatchError
from seqbatch.simulation import Progress as Done

# A pipe has no width: unless COLUMNS states one, tables are as wide as they need to be.
console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200)
errors = Console(stderr=True, soft_wrap=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

#: Exit codes besides 0: something was found; bad usage or input; not in this state; interrupted.
FOUND, BAD_INPUT, WRONG_STATE, INTERRUPTED = 1, 2, 3, 130


@contextmanager
def kindly(*, as_json: bool = False) -> Iterator[None]:
    """Turn the package's errors into a message and an exit code."""
    try:
        yield
    except (SeqbatchError, OSError) as error:
        if as_json:
            print(json.dumps(_plain(error), indent=1))
        errors.print(f"seqbatch: {error}", style="red", markup=False, highlight=False)
        wrong = WRONG_STATE if isinstance(error, CampaignStateError) else BAD_INPUT
        raise typer.Exit(wrong) from None
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "seqbatch":
            raise
        errors.print(
            f"seqbatch: this command needs {error.name}, which is not installed. Install it with: "
            'pip install "seqbatch[campaign]"',
            style="red",
            markup=False,
        )
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        errors.print("seqbatch: interrupted; run the same command again to resume.")
        raise typer.Exit(INTERRUPTED) from None


def _plain(error: Exception) -> dict[str, Any]:
    made: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, InvalidFileError):
        keys = ("row", "column", "reason")
        made["problems"] = [dict(zip(keys, problem, strict=True)) for problem in error.problems]
    return made


@contextmanager
def progress(title: str) -> Iterator[Callable[[Done], None]]:
    """Show a bar with the time left, on a terminal; elsewhere nothing."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=errors, disable=not sys.stderr.isatty(), speed_estimate_period=3600
    ) as bar:
        task = bar.add_task(title, total=None)

        def report(done: Done) -> None:
            bar.update(task, total=done.total, completed=done.done)

        yield report


@contextmanager
def counting() -> Iterator[Callable[[str, int], None]]:
    """Show what is being done and how many rows of it are, on a terminal; elsewhere nothing."""
    columns = (TextColumn("{task.description}"), TextColumn("{task.completed:,} rows"))
    with Progress(*columns, console=errors, disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("", total=None)

        def report(doing: str, rows: int) -> None:
            bar.update(task, description=doing, completed=rows)

        yield report


def show(
    title: str, columns: list[str], rows: list[list[Any]], as_json: bool, *, right: bool = False
) -> None:
    """Print a table, for people or for scripts; numbers stand to the right, or all cells."""
    if as_json:
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=1))
        return
    # Names and reasons are shown as they are: a bracket in one is no markup.
    table = Table(title=Text(title, style="table.title"), title_justify="left")
    for index, column in enumerate(columns):
        numeric = right or (bool(rows) and isinstance(rows[0][index], int | float))
        # Text may take several lines; a number that is cut would be another number.
        table.add_column(
            Text(column),
            justify="right" if numeric else "left",
            no_wrap=numeric,
            overflow="ellipsis" if numeric else "fold",
        )
    for row in rows:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row))
    console.print(table)
