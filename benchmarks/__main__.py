"""Time every case in one run and write docs/benchmarks.md."""

import os
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import campaign, findings, same_task, simulation, stream
from seqbatch import Learner, __version__, grids
from seqbatch.core.arrays import Floats, Integers
from seqbatch.policies import SBUCB, LinUCB, Policy, SupSBUCB

GAMMA = 6.0
BATCHES = 4_821
PAGE = Path("docs/benchmarks.md")


def best_of(repeats: int, call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shortest time of several, and the last result."""
    times, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


def best_of_two(repeats: int, *calls: Callable[[], Any]) -> list[tuple[float, Any]]:
    """Time two calls in turn, so that a slow spell of the machine meets both."""
    rounds = [[best_of(1, call) for call in calls] for _ in range(repeats)]
    return [min(column, key=lambda pair: pair[0]) for column in zip(*rounds, strict=True)]


def matrix_rate(threads: int) -> float:
    """Return this machine's float64 matrix-product rate, operations a second."""
    a = np.random.default_rng(0).standard_normal((2_000, 2_000))
    with threadpool_limits(threads):
        seconds, _ = best_of(5, lambda: a @ a)
    return float(2 * 2_000**3 / seconds)


def learner(policy: Policy, grid: grids.Grid) -> Learner:
    return Learner(policy, grid, actions=stream.CLASSES, dim=stream.FEATURES, layout="block")


def replay(policy: Policy, grid: grids.Grid, vectors: Floats, table: Floats) -> Integers:
    units = grid.units
    return learner(policy, grid).replay(vectors[:units], table[:units])


def step_by_step(policy: Policy, grid: grids.Grid, vectors: Floats, table: Floats) -> None:
    made, start = learner(policy, grid), 0
    for end in grid.ends:
        actions = made.assign(vectors[start:end]).actions
        made.observe(table[np.arange(start, end), actions])
        start = end


def peak_memory(units: int) -> int:
    """Return the peak of Python's and NumPy's memory in a run, beyond its input, in bytes."""
    vectors, table = stream.synthetic(units)
    grid = grids.uniform(units=units, batches=units // 120)
    step_by_step(SBUCB(gamma=GAMMA), grids.explicit([100]), vectors, table)
    made, start, ends = learner(SBUCB(gamma=GAMMA), grid), 0, grid.ends
    tracemalloc.start()
    for end in ends:
        actions = made.assign(vectors[start:end]).actions
        made.observe(table[np.arange(start, end), actions])
        start = end
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def import_seconds() -> float:
    """Return the median time that a fresh process spends in `import seqbatch`."""
    code = "import time; t = time.perf_counter(); import seqbatch; print(time.perf_counter() - t)"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(7)
    ]
    return statistics.median(runs)


class Report:
    """Rows of the page, printed as they come."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str]] = []

    def add(self, what: str, measured: str, against: str, verdict: str) -> None:
        """Keep a row and print it."""
        self.rows.append((what, measured, against, verdict))
        print(f"  {what}: {measured}; {against}: {verdict}", flush=True)


def ratio(slow: float, fast: float, wanted: float) -> str:
    """Say how many times faster, and whether that is the aim."""
    times = slow / fast
    return f"{times:,.1f} times; aim {wanted:g}: {'met' if times >= wanted else 'not met'}"


def main() -> None:
    """Run everything; some minutes."""
    vectors, table, source = stream.covertype()
    units = len(vectors)
    report = Report()
    print(f"{source}: {units:,} units", flush=True)
    grid, online = grids.uniform(units=units, batches=BATCHES), grids.online(units=units)
    warm = grids.uniform(units=1_000, batches=20)
    for policy in (SBUCB(gamma=GAMMA), SupSBUCB(gamma=GAMMA)):
        replay(policy, warm, vectors, table)
    replay(LinUCB(gamma=GAMMA), grids.online(units=1_000), vectors, table)
    same_task.rank_one_loop(vectors[:100], table[:100], GAMMA)
    same_task.batched_unit_loop(vectors[:100], table[:100], np.array([50, 100]), GAMMA)

    one, all_cores = matrix_rate(1), matrix_rate(os.cpu_count() or 1)
    sbucb, ours = best_of(3, lambda: replay(SBUCB(gamma=GAMMA), grid, vectors, table))
    stepped, _ = best_of(2, lambda: step_by_step(SBUCB(gamma=GAMMA), grid, vectors, table))
    theirs, expected = best_of(
        1, lambda: same_task.mabwiser(vectors, table, list(grid.ends), GAMMA)
    )
    agree = (ours == expected).mean()
    if agree < 1:
        raise SystemExit(f"SBUCB and MABWiser agree on {agree:.6%} of the actions only")
    report.add(
        f"SBUCB, M = {BATCHES:,}, `Learner.replay`",
        f"{1e6 * sbucb / units:.2f} µs a unit",
        f"MABWiser, same batches, same {units:,} actions, {1e6 * theirs / units:.2f} µs",
        ratio(theirs, sbucb, 4),
    )
    report.add(
        "the same, `assign` and `observe`",
        f"{1e6 * stepped / units:.2f} µs a unit",
        "MABWiser",
        ratio(theirs, stepped, 4),
    )
    operations = 2 * units * stream.FEATURES**2 * (stream.CLASSES + 1)
    report.add(
        "SBUCB, operations counted as 2 T K p² + 2 T p²",
        f"{operations / sbucb / 1e9:.1f} GF/s on one core",
        f"matrix product, one core, {one / 1e9:.0f} GF/s",
        f"{operations / sbucb / one:.2f} of it",
    )
    report.add(
        "",
        "",
        f"matrix product, {os.cpu_count()} cores, {all_cores / 1e9:.0f} GF/s",
        f"{operations / sbucb / all_cores:.2f} of it; aim 0.33: "
        + ("met" if operations / sbucb / all_cores >= 0.33 else "not met"),
    )
    plain, _ = best_of(
        1, lambda: same_task.batched_unit_loop(vectors, table, np.array(grid.ends), GAMMA)
    )
    report.add(
        "",
        "",
        f"a plain compiled loop over units, {1e6 * plain / units:.2f} µs",
        f"{plain / sbucb:.1f} times",
    )

    (linucb, ours), (plain, loop) = best_of_two(
        5,
        lambda: replay(LinUCB(gamma=GAMMA), online, vectors, table),
        lambda: same_task.rank_one_loop(vectors, table, GAMMA),
    )
    few = 5_000
    theirs, expected = best_of(
        1, lambda: same_task.mabwiser(vectors[:few], table[:few], list(range(1, few + 1)), GAMMA)
    )
    agree = (ours[:few] == expected).mean()
    report.add(
        "LinUCB, M = T",
        f"{1e6 * linucb / units:.2f} µs a unit",
        f"MABWiser unit by unit, first {few:,} ({agree:.2%} same actions), "
        f"{1e6 * theirs / few:.0f} µs",
        ratio(theirs / few, linucb / units, 100),
    )
    report.add(
        "",
        "",
        f"plain compiled rank-one loop ({(loop == ours).mean():.2%} same actions), "
        f"{1e6 * plain / units:.2f} µs",
        ratio(plain, linucb, 1),
    )

    (base, _), (supsbucb, _) = best_of_two(
        5,
        lambda: replay(SBUCB(gamma=GAMMA), grid, vectors, table),
        lambda: replay(SupSBUCB(gamma=GAMMA), grid, vectors, table),
    )
    report.add(
        "SupSBUCB, SBUCB's grid",
        f"{1e6 * supsbucb / units:.2f} µs a unit",
        f"SBUCB, {1e6 * base / units:.2f} µs",
        f"{supsbucb / base:.2f} times as long; aim 3: "
        + ("met" if supsbucb / base <= 3 else "not met"),
    )

    few = 20_000
    batches = grids.uniform(units=few, batches=few // 120)
    seconds, _ = best_of(3, lambda: replay(SBUCB(gamma=GAMMA), batches, vectors, table))
    theirs, _ = best_of(
        1,
        lambda: same_task.contextualbandits(vectors[:few], table[:few], list(batches.ends), GAMMA),
    )
    report.add(
        f"SBUCB, first {few:,} units in batches of 120",
        f"{1e6 * seconds / few:.2f} µs a unit",
        f"contextualbandits' LinUCB in float64, one job, {1e6 * theirs / few:.0f} µs",
        ratio(theirs, seconds, 200),
    )
    few = 2_000
    batches = grids.uniform(units=few, batches=few // 120)
    seconds, _ = best_of(3, lambda: replay(SBUCB(gamma=GAMMA), batches, vectors, table))
    theirs, _ = best_of(
        1,
        lambda: same_task.dense_textbook(vectors[:few], table[:few], list(batches.ends), GAMMA),
    )
    report.add(
        f"SBUCB, first {few:,} units in batches of 120",
        f"{1e6 * seconds / few:.2f} µs a unit",
        f"the dense d = 378 textbook loop, {1e6 * theirs / few:.0f} µs",
        ratio(theirs, seconds, 500),
    )
    small, large = peak_memory(20_000), peak_memory(80_000)
    report.add(
        "peak memory beyond the input, `assign` and `observe`",
        f"{small / 2**20:.2f} MiB at T = 20,000",
        "the same at T = 80,000",
        f"{large / 2**20:.2f} MiB",
    )
    report.add("`import seqbatch`", f"{import_seconds():.2f} s", "", "aim: under 0.5 s")
    write(report, source, units)


def write(report: Report, source: str, units: int) -> None:
    """Write the page."""
    lines = [
        "# How fast is it?",
        "",
        "Written by `make bench`; every row was measured in the same run on the same machine.",
        f"Stream: {source}, {units:,} units of {stream.FEATURES} features, "
        f"{stream.CLASSES} actions, gamma = {GAMMA:g}. seqbatch {__version__}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, "
        f"{os.cpu_count()} cores. Times vary from run to run; compare the ratios.",
        "seqbatch itself uses one core throughout.",
        "",
        "| what | measured | against | result |",
        "|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(row)} |" for row in report.rows]
    lines += [
        "",
        f"## Simulation: d = K = {simulation.DIM}, two batches, directly, one core",
        "",
        "Million units a second, and in brackets how many times as fast as a plain NumPy loop",
        "over units that were drawn before (SBUCB for SBUCB, greedy for the others). Most of the",
        "time is drawing contexts and noise.",
        "",
        f"| environment | {' | '.join(simulation.POLICIES)} |",
        "|---" * (1 + len(simulation.POLICIES)) + "|",
    ]
    lines += [f"| {' | '.join(row)} |" for row in simulation.rows()]
    lines += ["", *findings.section(), "", *campaign.section()]
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"Written to {PAGE}")


if __name__ == "__main__":
    main()
