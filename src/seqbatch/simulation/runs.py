"""Runs of many independent tasks: in parallel, with progress, resumable, to the same bits.

Each finished task is one Parquet file in a folder, written whole or not at all. A run that was
killed finds them and does only what is missing; at the end they are joined in the order of the
tasks. The result does not depend on which process did what, or when.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from seqbatch.atomic import atomically
from seqbatch.engine import Engine, as_completed, open_engine
from seqbatch.errors import InvalidArgumentError
from seqbatch.simulation.fingerprint import fingerprint

if TYPE_CHECKING:
    import polars as pl

Row = dict[str, Any]
#: The meaning of the parts; a new number tells runs from those of earlier versions.
VERSION = 1


class Task(Protocol):
    """A unit of work: a name that no other task of the run has, and what to do."""

    @property
    def name(self) -> str:
        """A short name, fit for a file."""

    def __call__(self) -> list[Row]:
        """Do it; return rows of the table."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come, for whoever shows it."""

    done: int
    total: int
    resumed: int


def run_tasks(
    tasks: Sequence[Task],
    *,
    out: Path,
    declaration: object,
    columns: Mapping[str, Any] | None = None,
    jobs: int = 1,
    engine: str | Engine = "local",
    report: Callable[[Progress], None] = lambda _: None,
) -> "pl.DataFrame":
    """Do what is not done yet, and return the table of all tasks.

    Parameters
    ----------
    tasks
        What to do, in the order of the table.
    out
        The folder of the run. It holds ``parts/`` while the run goes on and ``results.parquet`` in
        the end.
    declaration
        What defines the run: dataclasses, arrays, plain values and classes of a user's own, told
        apart by :func:`~seqbatch.simulation.fingerprint.fingerprint`. A folder with results of a
        different run is refused.
    columns
        Types of columns that single tasks may leave empty.
    jobs, engine
        How many processes to use, and whose; see :func:`seqbatch.engine.open_engine`.
    report
        Called after every task.
    """
    import polars as pl
    from threadpoolctl import threadpool_limits

    parts = out / "parts"
    text = json.dumps({"seqbatch": VERSION, "declaration": fingerprint(declaration)}) + "\n"
    _refuse_other(out, parts, text)
    missing = [task for task in tasks if not _whole(_part(parts, task.name))]
    resumed = len(tasks) - len(missing)
    report(Progress(resumed, len(tasks), resumed))
    # What runs in this process changes the number of threads for as long as it runs.
    with (
        threadpool_limits(1),
        open_engine(engine if missing else "local", jobs=jobs) as opened,
        closing(as_completed(opened, _performed, missing)) as results,
    ):
        # Not before: an engine that is refused leaves no folder behind.
        _claim(out, parts, text)
        for done, (place, rows) in enumerate(results, start=resumed + 1):
            table = pl.DataFrame(rows, schema_overrides=columns)
            _write(table, _part(parts, missing[place].name))
            report(Progress(done, len(tasks), resumed))
    table = pl.concat([pl.read_parquet(_part(parts, task.name)) for task in tasks])
    _write(table, out / "results.parquet")
    return table


def _performed(task: Task) -> list[Row]:
    """Run a task with one BLAS thread: sums must not depend on how many there are."""
    from threadpoolctl import threadpool_limits

    # Not undone: other tasks may be running in threads of the same worker.
    threadpool_limits(1)
    return task()


def _refuse_other(out: Path, parts: Path, text: str) -> None:
    """Make sure that what the folder holds, if anything, belongs to this very run."""
    file = out / "run.json"
    # A run that failed before its first result does not keep others out of the folder.
    started = parts.is_dir() and any(_whole(part) for part in parts.iterdir())
    if started and file.exists() and file.read_text(encoding="utf-8") != text:
        raise InvalidArgumentError(
            "out",
            "an empty folder, or that of an interrupted run with the same settings",
            f"{out}, which holds a different run",
            "A run goes on only as it was declared: for other settings, or changed code of your "
            "own, name another folder (out=...), or remove this one.",
        )


def _claim(out: Path, parts: Path, text: str) -> None:
    """Make the folder, and say in it which run it belongs to."""
    parts.mkdir(parents=True, exist_ok=True)
    with atomically(out / "run.json") as partial:
        partial.write_text(text, encoding="utf-8")


def _whole(part: Path) -> bool:
    """Say whether a part is there and complete: Parquet files end in their mark."""
    if part.suffix != ".parquet" or not part.exists() or part.stat().st_size < 8:
        return False
    with part.open("rb") as file:
        file.seek(-4, os.SEEK_END)
        return file.read() == b"PAR1"


def _part(parts: Path, name: str) -> Path:
    # Names may hold slashes and anything else that a user calls an environment.
    digest = hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
    return parts / f"{digest}.parquet"


def _write(table: "pl.DataFrame", path: Path) -> None:
    with atomically(path) as partial:
        table.write_parquet(partial)
