"""Weigh kernels compiled ahead: one kernel in C beside the same one compiled by Numba.

`python -m benchmarks.compiled_ahead` needs a C compiler (`cc`) and writes docs/compiled-ahead.md.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from statistics import median

import numpy as np

from seqbatch.core import kernels

PAGE = Path("docs/compiled-ahead.md")
KERNELS = Path(kernels.__file__).parent
#: The same loops as in `kernels.mark_highest`, with neither fused nor reordered arithmetic.
SOURCE = r"""
#include <math.h>
#include <stdint.h>
void mark_highest(const double *criterion, uint8_t *out, int64_t units, int64_t actions) {
    for (int64_t unit = 0; unit < units; unit++) {
        const double *row = criterion + unit * actions;
        double top = row[0];
        for (int64_t action = 1; action < actions; action++)
            if (row[action] > top || isnan(row[action])) top = row[action];
        for (int64_t action = 0; action < actions; action++)
            out[unit * actions + action] = row[action] == top;
    }
}
"""
FLAGS = ("-O3", "-fPIC", "-shared", "-ffp-contract=off")
#: What a new process does before its first call has returned.
NUMBA = (
    "import numpy as np; from seqbatch.core import kernels; "
    "kernels.mark_highest(np.zeros((1, 2)), np.zeros((1, 2), dtype=bool))"
)
AHEAD = (
    "import ctypes, sys, numpy as np; import seqbatch.core; "
    "ctypes.CDLL(sys.argv[1]).mark_highest(0, 0, ctypes.c_int64(0), ctypes.c_int64(0))"
)
NOTHING = "import numpy as np; import seqbatch.core"
TEXT = """# Why are kernels compiled on first use?

{count} small loops that BLAS cannot express are compiled by Numba on first use and cached. The
alternative is a C or Rust extension that is compiled when the wheel is built. This page weighs it
with one kernel, `mark_highest`, written in C as well; `python -m benchmarks.compiled_ahead` prints
the table: processor time, medians of {repeats} runs.

| | Numba | ahead (C) |
|---|---|---|
{rows}

Compiling ahead would save these seconds and an installation of {size} MB, and cost {lines:,} lines
in another language and a wheel for every system, processor and Python version. Not now: it becomes
worth it with releases that are built for several systems.
"""


def children() -> float:
    """Return the processor time of ended child processes, to 10 ms."""
    used = os.times()
    return used.children_user + used.children_system


def seconds(
    call: Callable[[], object], *, repeats: int, clock: Callable[[], float] = children
) -> float:
    """Return the median time of a call, by default of the processes that it starts."""
    found = []
    for _ in range(repeats):
        before = clock()
        call()
        found.append(clock() - before)
    return median(found)


def compiled(folder: Path) -> tuple[Path, float]:
    """Compile the C kernel; return the library and the processor time."""
    source, library = folder / "kernel.c", folder / "kernel.so"
    source.write_text(SOURCE, encoding="utf-8")
    words = ["cc", *FLAGS, str(source), "-o", str(library)]
    return library, seconds(lambda: subprocess.run(words, check=True), repeats=1)


def process(code: str, *words: str, **more: str) -> Callable[[], object]:
    """Return a call that runs code in a process of its own."""
    given = [sys.executable, "-c", code, *words]
    return lambda: subprocess.run(given, check=True, env={**os.environ, **more})


def main() -> None:
    """Measure, and write the page."""
    repeats, units, actions = 7, 1_000_000, 5
    with tempfile.TemporaryDirectory() as name:
        library, build = compiled(Path(name))
        ahead = ctypes.CDLL(str(library)).mark_highest
        criterion = np.random.default_rng(0).standard_normal((units, actions))
        theirs, ours = (np.zeros((units, actions), dtype=np.bool_) for _ in range(2))

        def in_c() -> None:
            ahead(
                criterion.ctypes.data_as(ctypes.c_void_p), theirs.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_int64(units), ctypes.c_int64(actions),
            )  # fmt: skip

        def in_numba() -> None:
            kernels.mark_highest(criterion, ours)

        in_c()
        in_numba()
        assert (theirs == ours).all()
        first = seconds(process(NUMBA, NUMBA_CACHE_DIR=name), repeats=1)
        usual = seconds(process(NOTHING), repeats=repeats)
        cached = seconds(process(NUMBA), repeats=repeats) - usual
        loaded = max(seconds(process(AHEAD, str(library)), repeats=repeats) - usual, 0.0)
        loops = [
            seconds(call, repeats=repeats, clock=time.process_time) for call in (in_numba, in_c)
        ]
    rows = [
        ("first call of an installation", f"{first - usual:.2f} s", f"{loaded:.2f} s"),
        ("first call of a process", f"{cached:.2f} s", f"{loaded:.2f} s"),
        ("a million units, five actions", *(f"{1e3 * each:.1f} ms" for each in loops)),
        ("building, once", "", f"{build:.2f} s"),
    ]
    sources = [path.read_text(encoding="utf-8") for path in KERNELS.glob("*.py")]
    page = TEXT.format(
        repeats=repeats,
        rows="\n".join(f"| {' | '.join(row)} |" for row in rows),
        count=sum(text.count("@kernel(") for text in sources),
        lines=sum(text.count("\n") for text in sources),
        size=round(sum(map(megabytes, ("numba", "llvmlite")))),
    )
    print(page)
    PAGE.write_text(page, encoding="utf-8")


def megabytes(package: str) -> float:
    """Return the size of an installed package."""
    files = distribution(package).files or ()
    paths = (Path(str(file.locate())) for file in files if "__pycache__" not in str(file))
    return sum(path.stat().st_size for path in paths if path.exists()) / 2**20


if __name__ == "__main__":
    main()
