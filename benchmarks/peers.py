"""The compact table of the quality study: regret and seconds of all methods, in batches.

`python -m benchmarks.peers` plays our policies, methods by hand and libraries in the worlds of
`benchmarks.quality`, at equal information, and writes docs/peers.md. Install the extra `bench` for
the libraries. Campaigns that `python -m benchmarks.quality` has played in the same folder are not
played again.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.quality.methods import METHODS, REFERENCE
from benchmarks.quality.page import (
    Compared,
    compared,
    maker_of,
    markdown,
    played,
    scores_of,
    seconds_of,
    wrapped,
)
from benchmarks.quality.study import COMMON, Quality, Results
from benchmarks.quality.worlds import CONFIRMATION, SIXTEEN, TINY
from seqbatch.cli.console import kindly, progress
from seqbatch.lab import Options

PAGE = Path("docs/peers.md")
#: How the answer names who made a method.
BY = {"library": "by another library", "seqbatch": "by seqbatch"}
TEXT = """# How do other libraries compare?

Written by `python -m benchmarks.peers`: {count} worlds, {waves} {grid} waves, the same units and
outcomes and the same uniformly random first wave for all. *Regret* is what a campaign loses beside
the best action for every unit, as % of what uniformly random assignment loses, averaged over
worlds; *beside {reference}* is the mean difference in the same campaigns (standard errors at most
{error:.1f}); *rank* is among all methods of a world. Only in worlds of yes/no outcomes: {few}.
*Seconds* are of processor time for a campaign. [Which method earns most?](quality.md)
has the methods, the worlds and more.

{ran}

{table}
"""


def page(study: Quality, results: Results) -> str:
    """Return the page."""
    rows = compared(scores_of(results.campaigns, study.worlds))
    seconds = seconds_of(results.campaigns)
    heads = ("method", "by", "regret", f"beside {REFERENCE}", "rank", "seconds")
    waves, grid = COMMON
    # Paragraphs are filled, but for the title and the table.
    title, text, *_ = TEXT.split("\n\n")
    told = text.format(
        count=len(study.worlds),
        waves=waves,
        grid=grid,
        reference=REFERENCE,
        error=max(one.error for one in rows if one.name != REFERENCE),
        few=", ".join(one.name for one in rows if one.worlds < len(study.worlds)) or "none",
    )
    table = markdown(heads, [_row(one, seconds[one.name]) for one in rows])
    said = (
        title,
        _answer(rows, len(study.worlds)),
        wrapped(told),
        played(study, results.campaigns),
    )
    return "\n\n".join([*said, table]) + "\n"


def _answer(rows: Sequence[Compared], worlds: int) -> str:
    """Return the least regret of each kind of method that plays in all worlds."""
    best: dict[str, Compared] = {}
    for one in sorted(rows, key=lambda one: one.mean):
        if one.worlds == worlds:
            best[maker_of(one.name)] = one
    found = (
        f"{100 - one.mean:.1f} {BY.get(by, by)} ({one.name})" for by, one in sorted(best.items())
    )
    return wrapped(f"The least regret: {', '.join(found)}.")


def _row(one: Compared, seconds: float) -> tuple[str, ...]:
    beside = "" if one.name == REFERENCE else f"{-one.ahead:+.1f}"
    return (
        one.name, maker_of(one.name), f"{100 - one.mean:.1f}", beside,
        f"{one.rank:.1f}", f"{seconds:.3f}",
    )  # fmt: skip


def main() -> None:
    """Run the common grid of the study, print the table and write its page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--seed", type=int, default=29, help="other units and draws")
    parser.add_argument("--seeds", type=int, default=2, help="campaigns in each world")
    parser.add_argument("--quick", action="store_true", help="two tiny worlds, and no page")
    parser.add_argument("--out", type=Path, default=Path("out/quality"), help="the folder")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use")
    told = parser.parse_args()
    worlds = list(TINY if told.quick else (*SIXTEEN, *CONFIRMATION))
    study = Quality(worlds, list(METHODS), seed=told.seed, seeds=told.seeds, log=False, common=True)
    with kindly(extra="lab"), progress("peers") as report:
        options = Options(out=told.out, jobs=told.jobs, report=report)
        made = page(study, study.run(options))
    if not told.quick:
        PAGE.write_text(made, encoding="utf-8")
    print(made)


if __name__ == "__main__":
    main()
