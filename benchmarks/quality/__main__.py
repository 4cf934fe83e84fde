"""Compare decisions: policies, methods by hand and libraries, in waves, at equal information.

`python -m benchmarks.quality` plays all methods in all worlds and writes docs/quality.md. Install
the extra `bench` for the libraries. `--seed` sets fresh seeds, `--seeds` how many; `--worlds` and
`--methods` run those whose names begin so, and write no page; nor does `--quick`, which plays our
policies in two tiny worlds. Run the same command again to continue an interrupted run, or after
adding a method; after a change in src/seqbatch, use another folder (`--out`).
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

from benchmarks.quality.methods import METHODS, OURS
from benchmarks.quality.page import page
from benchmarks.quality.study import Quality
from benchmarks.quality.worlds import CONFIRMATION, SIXTEEN, TINY
from seqbatch.cli.console import kindly, progress
from seqbatch.lab import Options

COMMAND = "python -m benchmarks.quality"
PAGE = Path("docs/quality.md")


def main() -> None:
    """Run the study, print its page, and write it if nothing was left out."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--seed", type=int, default=29, help="other units and draws")
    parser.add_argument("--seeds", type=int, default=12, help="campaigns in each world")
    parser.add_argument("--worlds", nargs="+", help="beginnings of names")
    parser.add_argument("--methods", nargs="+", help="beginnings of names")
    parser.add_argument("--quick", action="store_true", help="two tiny worlds")
    parser.add_argument("--out", type=Path, default=Path("out/quality"), help="the folder")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use")
    parser.add_argument("--engine", default="local", help="local, dask or ray, or a cluster")
    told = parser.parse_args()
    study = Quality(
        worlds=_chosen(TINY if told.quick else (*SIXTEEN, *CONFIRMATION), told.worlds),
        methods=_chosen([one.name for one in OURS] if told.quick else METHODS, told.methods),
        seed=told.seed,
        seeds=told.seeds,
        log=not told.quick,
    )
    with kindly(extra="lab"), progress("quality") as report:
        options = Options(out=told.out, jobs=told.jobs, engine=told.engine, report=report)
        made = page(study, study.run(options))
    if not (told.quick or told.worlds or told.methods):
        PAGE.write_text(made, encoding="utf-8")
    print(made)


def _chosen(names: Iterable[str], beginnings: list[str] | None) -> list[str]:
    return [name for name in names if not beginnings or name.startswith(tuple(beginnings))]


if __name__ == "__main__":
    main()
