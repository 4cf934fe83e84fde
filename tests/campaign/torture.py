"""Thousands of crashes, failing disks and races, counted; writes docs/reliability.md.

Run with `make torture`; the number of kills can be said: `make torture KILLS=500`.
"""

import errno
import platform
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.service.page import PAGE, section
from hypothesis import HealthCheck, given, settings

from seqbatch import __version__
from tests.campaign import torture_lake, torture_postgres
from tests.campaign.crashing import FAULTS, Nursery, order
from tests.campaign.files.damaged_files import examine_many
from tests.campaign.fuzzing import Examiner, cases
from tests.campaign.stages import CALLS, examine, prepare

HEAD = """\
# What happens when a process or a disk fails?

`make torture` kills campaigns and fills or breaks their disks. The table is its last run, with seqbatch {version} on
{machine}, Python {python}, SQLite {sqlite}.

Every attempt makes one call (assign, record or close) on a campaign of 2,300 units, and checks: the database passes its
integrity check; the campaign is in its state before the call or after it; everything acknowledged is stored; an output
file is complete or absent; and repeating the call gives the same state and bytes. One failure ends the run.

| what | attempts | died or failed | found done | found undone |
|---|---:|---:|---:|---:|
"""  # noqa: E501
TAIL = """
- *Killed at any moment*: `kill -9` after a random time.
- *Killed at a point*: right before or after one step of the call ({points}).
- *Disk full*, *broken disk*: every write, sync and truncation fails from the nth on, for every n; the call must raise an
  error and leave nothing behind.
- *Lake*: the same for a [lake](lake.md). *PostgreSQL server killed*: `kill -9` of the server during a call, `fsync` on.

{fuzzed}

Tests (in `tests/campaign`, `tests/storage`, `tests/service`) also cover: two processes assigning, recording and closing at
once; an outcome file twice, shuffled or overlapping, and a correction after close; one byte changed anywhere, and hashes
forged to fit, which `verify` names; a deleted event; a changed trigger, index, key or migration; a commit whose answer was
lost; a file replaced while it is read; an older copy of the database; odd and huge files and specs; the clock set back.

Not covered: power loss (SQLite runs with `synchronous = FULL`), disks that fail under PostgreSQL, a lost connection to
another machine's database, and forgery by someone who recomputes the hashes (see [seals](how-to/verify.md)).
"""  # noqa: E501


#: Files and specs that are damaged, and further Parquet and Arrow files of every type.
FUZZED = 20_000
BINARY = 6_000


def fuzz(count):
    """Try damaged files and specs; return a line on what became of them."""
    with tempfile.TemporaryDirectory() as folder:
        examiner = Examiner(folder)

        @settings(
            max_examples=count, derandomize=True, deadline=None, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(cases)
        def examine(case):
            examiner.examine(case)

        examine()
        examiner.close()
        refused, unreadable = examine_many(range(BINARY), Path(folder))
    return (
        f"*Damaged and odd files*: {examiner.cases:,} CSV, Parquet, Arrow and TOML files with "
        "bytes or structure changed were given to `assign`, `record`, `init` and `create`: "
        f"{examiner.refused:,} were refused and the others taken; no traceback, no crash, none "
        f"over 10 seconds, memory under 1 GiB throughout. {BINARY:,} more Parquet and Arrow files "
        f"of every type were damaged in footers and bodies: {refused:,} were refused, "
        f"{unreadable:,} of them because they crashed the child process that read them; the others "
        "were read."
    )


class Torture:
    """Attempts, and what became of them."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.stages = prepare(self.folder)
        self.counts = {}

    def attempt(self, label, nursery, call, **how):
        stage = self.stages[call]
        place = self.folder / "attempt"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        path, arguments = stage.copied(place), stage.full(place)
        [result] = nursery.run(order(path, call, **how, **arguments))
        kept = examine(path, stage, acknowledged=result.get("done"), out=arguments.get("out"))
        tally = self.counts.setdefault(label, Counter())
        tally["attempts"] += 1
        tally["died"] += bool(result["killed"] or "error" in result)
        tally["kept"] += kept
        return result

    def rows(self):
        for label, tally in self.counts.items():
            undone = tally["attempts"] - tally["kept"]
            yield (f"| {label} | {tally['attempts']:,} | {tally['died']:,} | {tally['kept']:,} | "
                   f"{undone:,} |")  # fmt: skip


def library(folder):
    """Compile the library that lets writes fail, None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    made = Path(folder) / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", made, source, "-ldl"], check=True
    )
    return made


def main(kills):
    started, draw = time.monotonic(), random.Random(2026)
    with tempfile.TemporaryDirectory() as folder:
        torture, nursery = Torture(folder), Nursery()
        for call in CALLS:
            span, killed = torture.attempt("not killed", nursery, call)["seconds"], 0
            while killed < kills // len(CALLS):
                delay = draw.uniform(0, span)
                result = torture.attempt("killed at any moment", nursery, call, die_after=delay)
                killed += result["killed"]
                # Keeps to about as long as the call takes, however busy the machine is.
                span *= 1.02 if result["killed"] else 0.96
            for step in FAULTS:
                for when in ("before", "after"):
                    torture.attempt("killed at a point", nursery, call, die_at=(step, when))
            print(f"{call}: killed {killed:,} times", flush=True)
        nursery.close()
        shim = library(folder)
        if shim is not None:
            failing = Nursery({"LD_PRELOAD": str(shim)})
            for call in CALLS:
                counted = torture.attempt("no fault", failing, call, fail=(-1, 0, "copy.db"))
                for label, code in (("disk full", errno.ENOSPC), ("broken disk", errno.EIO)):
                    for number in range(counted["writes"]):
                        torture.attempt(label, failing, call, fail=(number, code, "copy.db"))
                print(f"{call}: failed at each of {counted['writes']} writes, twice", flush=True)
            failing.close()
        torture.counts |= torture_lake.run(max(kills // 6, 6))
        torture.counts |= torture_postgres.run(max(kills // 50, 6))
        rows = list(torture.rows())
    head = HEAD.format(
        version=__version__,
        machine=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
    )
    print("\n".join(rows), flush=True)
    fuzzed = fuzz(FUZZED)
    attempts = sum(tally["attempts"] for tally in torture.counts.values())
    total = f"\n{attempts:,} attempts in {time.monotonic() - started:,.0f} seconds.\n"
    text = (
        head + "\n".join(rows) + "\n" + total + TAIL.format(points=", ".join(FAULTS), fuzzed=fuzzed)
    )
    PAGE.write_text(text + section(), encoding="utf-8")
    print(total)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3_000)
