"""Many independent tasks: in parallel, with progress, resumable, to the same bits.

Each finished task is one Parquet file in a folder, written whole or not at all. A run that was
killed finds them and does only what is missing; at the end they are joined in the order of the
tasks. The result does not depend on who did what when.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from seqbatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    import polars as pl

Row = dict[str, Any]


class Task(Protocol):
    """A unit of work: a name that no other task of the run has, and what to do."""

    @property
    def name(self) -> str:
        """A short name, fit for a file."""

    def __call__(self) -> list[Row]:
        """Do it; return rows of the table."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come; handed to whoever shows it."""

    done: int
    total: int
    resumed: int


def run_tasks(
    tasks: Sequence[Task],
    *,
    out: Path,
    declaration: str,
    jobs: int = 1,
    executor: Executor | None = None,
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
        What the run is, in words that change when it changes. A folder with another run is refused.
    jobs
        How many processes to use.
    executor
        Where to run instead, if not in processes of this machine.
    report
        Called after every task.
    """
    import polars as pl

    parts = _claim(out, declaration)
    missing = [task for task in tasks if not _part(parts, task.name).exists()]
    resumed = len(tasks) - len(missing)
    report(Progress(resumed, len(tasks), resumed))
    for done, (name, rows) in enumerate(_results(missing, jobs, executor), start=resumed + 1):
        _write(pl.DataFrame(rows), _part(parts, name))
        report(Progress(done, len(tasks), resumed))
    table = pl.concat([pl.read_parquet(_part(parts, task.name)) for task in tasks])
    _write(table, out / "results.parquet")
    return table


def _results(
    tasks: Sequence[Task], jobs: int, executor: Executor | None
) -> Iterable[tuple[str, list[Row]]]:
    if executor is None and jobs == 1:
        yield from (_perform(task) for task in tasks)
        return
    with ExitStack() as stack:
        pool = executor or stack.enter_context(
            # A fresh process inherits no threads, locks or generator states.
            ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
        )
        futures = [pool.submit(_perform, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def _perform(task: Task) -> tuple[str, list[Row]]:
    """Run a task with one BLAS thread: sums must not depend on how many there are."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return task.name, task()


def _claim(out: Path, declaration: str) -> Path:
    """Make the folder, or make sure that it belongs to this very run."""
    parts = out / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    file, text = out / "run.json", json.dumps({"declaration": declaration}, indent=1) + "\n"
    if file.exists() and file.read_text(encoding="utf-8") != text:
        raise InvalidArgumentError(
            "out",
            "an empty folder, or that of an interrupted run of the same declaration",
            f"{out}, which holds another run",
            "Choose another folder, or remove this one.",
        )
    _replace(file, lambda partial: partial.write_text(text, encoding="utf-8"))
    return parts


def _part(parts: Path, name: str) -> Path:
    digest = hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
    return parts / f"{digest}.parquet"


def _write(table: "pl.DataFrame", path: Path) -> None:
    _replace(path, lambda partial: table.write_parquet(partial))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file beside its place and move it there, so that it is whole or absent."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
