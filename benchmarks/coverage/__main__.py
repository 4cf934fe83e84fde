"""Measure how often intervals cover, in thousands of simulated campaigns.

`python -m benchmarks.coverage --jobs 2` simulates 2,000 campaigns in each cell and writes
docs/coverage.md; `--trials` sets another number. `--real` runs campaigns through a store, reads
their findings, and writes the last section of the page. `--quick` runs a small version and writes
no page. Run the same command again to continue an interrupted run.
"""

import argparse
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.coverage.page import page
from benchmarks.coverage.real import HEAD, run_real, section
from benchmarks.coverage.study import Coverage
from seqbatch.cli.console import kindly, progress
from seqbatch.lab import Options, reproduce

COMMAND = "python -m benchmarks.coverage"
PAGE = Path("docs/coverage.md")


def main() -> None:
    """Run the study or the real campaigns, print what is claimed, and name the files."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--trials", type=int, help="campaigns in each cell")
    parser.add_argument("--real", action="store_true", help="run campaigns through a store")
    parser.add_argument("--quick", action="store_true", help="run a small version")
    parser.add_argument("--out", type=Path, default=Path("out"), help="the folder to write to")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use")
    parser.add_argument("--engine", default="local", help="local, dask or ray, or a cluster")
    told = vars(parser.parse_args())
    (_real if told.pop("real") else _study)(told)


def _study(told: dict[str, Any]) -> None:
    with kindly(extra="lab"), progress("coverage") as report:
        files = reproduce(Coverage(), Options(**told, report=report), command=COMMAND)
    if not told["quick"]:
        table = pl.read_parquet(files[0])
        made = page(table, Coverage().claims(table))
        PAGE.write_text("\n".join([made, *_parts()[1:]]), encoding="utf-8")
        files.append(PAGE)
    print(files[-1].read_text(encoding="utf-8"))
    print(*files, sep="\n")


def _real(told: dict[str, Any]) -> None:
    out = told.pop("out") / "coverage-real"
    with kindly(extra="lab"), progress("coverage") as report:
        made = section(run_real(Options(**told, out=out, report=report)))
    if not told["quick"]:
        PAGE.write_text("\n".join([_parts()[0], made]), encoding="utf-8")
    print(made)


def _parts() -> list[str]:
    """Return the page as it is: the study, and the section on real campaigns if there is one."""
    study, head, real = PAGE.read_text(encoding="utf-8").partition(HEAD)
    return [study.rstrip() + "\n", head + real] if head else [study]


if __name__ == "__main__":
    main()
