"""Limits and balanced draws at a million units: processor time, memory, and ratios.

``python -m benchmarks.allocation`` prints a table, and ``python -m benchmarks.allocation budget``
that of a budget over four actions. Times are processor seconds of one thread, the
median of three; SciPy's ``linprog`` (HiGHS) solves the same problem if it is small enough.
"""

import resource
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import eye_array, kron

from seqbatch.allocation import Limits, limited, rounded
from seqbatch.core.arrays import Floats

UNITS, ACTIONS = 1_000_000, 10
#: The largest problem that a general solver handles in reasonable time.
FEW = 5_000


def _seconds(call: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return statistics.median(times)


def _scores(units: int, *, whole: bool = False) -> Floats:
    random = np.random.default_rng(14)
    scores = random.normal(size=(units, ACTIONS)) + 0.1 * np.arange(ACTIONS)
    return np.rint(2 * scores) if whole else scores


def _capacities(units: int) -> Floats:
    return np.array([np.inf] + [float(units // 12)] * (ACTIONS - 1))


def _programme(scores: Floats, most: Floats) -> float:
    """Return the best value by a linear programme with a variable for each cell."""
    units = len(scores)
    rows = kron(eye_array(units), np.ones((1, ACTIONS))).tocsr()
    columns = kron(np.ones((1, units)), eye_array(ACTIONS)).tocsr()[np.isfinite(most)]
    room = most[np.isfinite(most)]
    found = linprog(-scores.ravel(), A_ub=columns, b_ub=room, A_eq=rows, b_eq=np.ones(units))
    return -float(found.fun)


def _chosen(scores: Floats) -> Floats:
    table: Floats = np.eye(ACTIONS)[scores.argmax(axis=1)]
    return table


def main() -> None:
    """Measure and print."""
    small, most = _scores(FEW), _capacities(FEW)
    table = _chosen(small)
    ours = limited(small, table, Limits(at_most=most))
    best = _programme(small, most)
    quick = _seconds(lambda: limited(small, table, Limits(at_most=most)))
    slow = _seconds(lambda: _programme(small, most))
    print(f"{FEW:,} units, {ACTIONS} actions: prices {quick:.2f} s, linprog {slow:.2f} s")
    print(f"  ratio {slow / quick:.0f}; values differ by {abs(ours.value / best - 1):.1e}")
    print(f"{UNITS:,} units, {ACTIONS} actions:")
    limits = Limits(at_most=_capacities(UNITS))
    for name, whole in (("prices", False), ("prices, whole scores full of ties", True)):
        scores = _scores(UNITS, whole=whole)
        table = _chosen(scores)
        print(f"  {name}: {_seconds(lambda s=scores, t=table: limited(s, t, limits)):.1f} s")  # type: ignore[misc]
    budget = Limits(costs=np.arange(ACTIONS), budget=3.0 * UNITS)
    print(f"  prices, a budget: {_seconds(lambda: limited(scores, table, budget)):.1f} s")
    table = np.random.default_rng(1).dirichlet(np.ones(ACTIONS), UNITS)
    print(f"  tilting: {_seconds(lambda: limited(None, table, limits)):.1f} s")
    table[:] = 1 / ACTIONS
    strata = np.random.default_rng(2).integers(0, 50, (UNITS, 2))
    print(f"  balanced draw: {_seconds(lambda: rounded(table, key=1)):.1f} s")
    print(f"  in 2,500 strata: {_seconds(lambda: rounded(table, key=1, strata=strata)):.1f} s")
    _print_peak()


def _print_peak() -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of this process, its tables included: {peak:.2f} GiB")


def budget() -> None:
    """Measure a budget over four actions, whose costs no whole counts meet exactly."""
    worth, costs = np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.0, 1.3, 2.7, 7.1])
    scores = np.random.default_rng(14).gamma(1.0, size=(UNITS, 4)) * worth
    table = np.eye(4)[scores.argmax(axis=1)]
    limits = Limits(costs=costs, budget=1.5 * UNITS + 0.5)
    print(f"{UNITS:,} units, 4 actions, a budget:")
    print(f"  without floors: {_seconds(lambda: limited(scores, table, limits)):.1f} s")
    floor = np.full(scores.shape, 0.02)
    floored = _seconds(lambda: limited(scores, table, limits, floor=floor))
    print(f"  with floors of 2%: {floored:.1f} s")
    _print_peak()


if __name__ == "__main__":
    budget() if sys.argv[1:] == ["budget"] else main()
