"""Measure how often intervals cover, in thousands of simulated campaigns.

`python -m benchmarks.coverage --jobs 2` simulates 2,000 campaigns in each cell and writes
docs/coverage.md; `--trials` sets another number. `--quick` runs a small version and writes no page.
Run the same command again to continue an interrupted run.
"""

import argparse
from pathlib import Path

import polars as pl

from benchmarks.coverage.page import page
from benchmarks.coverage.study import Coverage
from seqbatch.cli.console import kindly, progress
from seqbatch.lab import Options, reproduce

COMMAND = "python -m benchmarks.coverage"
PAGE = Path("docs/coverage.md")


def main() -> None:
    """Run the study, print its claims, and name the files."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--trials", type=int, help="campaigns in each cell")
    parser.add_argument("--quick", action="store_true", help="run a small version")
    parser.add_argument("--out", type=Path, default=Path("out"), help="the folder to write to")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use")
    parser.add_argument("--engine", default="local", help="local, dask or ray, or a cluster")
    told = parser.parse_args()
    with kindly(extra="lab"), progress("coverage") as report:
        files = reproduce(Coverage(), Options(**vars(told), report=report), command=COMMAND)
    if not told.quick:
        table = pl.read_parquet(files[0])
        PAGE.write_text(page(table, Coverage().claims(table)), encoding="utf-8")
        files.append(PAGE)
    print(files[-1].read_text(encoding="utf-8"))
    print(*files, sep="\n")


if __name__ == "__main__":
    main()
