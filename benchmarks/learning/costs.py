"""What closing a wave costs, by policy and by the number of coefficients."""

import statistics
import time

import numpy as np

from benchmarks.learning.table import Measured
from benchmarks.progress import say
from seqbatch.core import Contexts, Problem
from seqbatch.core.threads import one_thread
from seqbatch.policies import SBPE, Feedback, JointRidge, Lookahead, ThompsonSampling
from seqbatch.policies.base import BasePolicy

#: What is timed: the policy, coefficients, actions, and the aim in seconds, if there is one.
COSTS: dict[str, tuple[BasePolicy, int, int, float | None]] = {
    "SBPE, pooled": (SBPE(estimate="pooled", constant=0, first="uniform"), 50, 5, 0.5),
    "Thompson, pooled": (
        ThompsonSampling(estimate="pooled", constant=0, scale="outcomes", first="uniform"),
        50, 5, None,
    ),
    "joint ridge, averaged": (JointRidge(constant=0, estimate="averaged"), 50, 5, None),
    "lookahead": (Lookahead(), 10, 3, 0.2),
    "SBPE, pooled, long": (SBPE(estimate="pooled", constant=0, first="uniform"), 500, 5, 60.0),
}  # fmt: skip
#: Units of the wave for each coefficient and action.
UNITS = 10


def measure(runs: int) -> Measured:
    """Measure the processor time of a close, without the sums of the wave's rows."""
    rows = []
    for name, (policy, dim, actions, aim) in COSTS.items():
        took = statistics.median(_seconds(policy, dim, actions) for _ in range(runs))
        said = "" if aim is None else f"{aim:g}"
        met = "" if aim is None else "yes" if took <= aim else "no"
        rows.append([name, f"{dim}", f"{actions}", f"{took:.2f}", said, met])
        say(f"costs: {name}")
    return Measured(["policy", "coefficients", "actions", "seconds", "aim", "met"], rows, ())


def _seconds(policy: BasePolicy, dim: int, actions: int) -> float:
    random, units = np.random.default_rng(dim), UNITS * dim * actions
    problem = Problem(ends=(units, 2 * units, 4 * units), actions=actions, dim=dim, layout="block")
    x = random.standard_normal((units, dim))
    x[:, 0] = 1.0
    state = policy.begin(problem)
    decided = policy.assign(state, Contexts.of(x, problem), random.random(units), np.arange(units))
    rewards = x[:, 1] + random.standard_normal(units)
    state = policy.learn(state, Feedback(x, decided.actions, decided.groups, rewards))
    with one_thread():
        start = time.process_time()
        policy.close(state)
        return time.process_time() - start
