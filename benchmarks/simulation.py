"""Units simulated a second, for each environment and policy, against a plain loop over units."""

import time

import numpy as np
from numpy.random import SeedSequence

from seqbatch import grids
from seqbatch.core.arrays import Floats
from seqbatch.environments import (
    BLOCK,
    Ball,
    Block,
    CorrelatedGaussian,
    Environment,
    Gaussian,
    Sphere,
    StudentT,
    Uniform,
)
from seqbatch.policies import BPE, RBGL, SBPE, SBUCB, Policy, ThompsonSampling
from seqbatch.simulation import simulate

DIM = ACTIONS = 10
UNITS, FEW = 16 * BLOCK, 2_000
ENVIRONMENTS: dict[str, Environment] = {
    kind.__name__: kind(dim=DIM, actions=ACTIONS)
    for kind in (Gaussian, Uniform, Sphere, StudentT, Ball, CorrelatedGaussian)
}
POLICIES: dict[str, Policy] = {
    "SBPE": SBPE(),
    "BPE": BPE(),
    "RBGL": RBGL(),
    "SBUCB": SBUCB(gamma=1.0),
    "Thompson": ThompsonSampling(scale=1.0, samples=64),
}


def plain_loop(block: Block, units: int, gamma: float) -> float:
    """Play SBUCB (greedy where gamma is 0) one unit at a time in two batches; return the regret."""
    A, b, theta = np.eye(DIM), np.zeros(DIM), np.zeros(DIM)
    inverse: Floats = np.eye(DIM)
    regret = 0.0
    for t in range(units):
        scores = [float(x @ theta + gamma * np.sqrt(x @ inverse @ x)) for x in block.contexts[t]]
        action = int(np.argmax(scores))
        x = block.contexts[t, action]
        A += np.outer(x, x)
        b += (block.means[t, action] + block.noise[t]) * x
        regret += float(block.means[t].max() - block.means[t, action])
        if t == units // 4:
            inverse = np.linalg.inv(A).astype(np.float64)
            theta = inverse @ b
    return regret


def rows() -> list[list[str]]:
    """Return a row for each environment: every policy's speed, and its ratio to the plain loop."""
    grid = grids.explicit([UNITS // 4, UNITS])
    results = []
    for name, environment in ENVIRONMENTS.items():
        block = environment.instance(SeedSequence(0)).block(0)
        cells = [name]
        for label, policy in POLICIES.items():
            gamma = 1.0 if label == "SBUCB" else 0.0
            simulate(policy, environment, grids.explicit([100, 200]), method="direct")
            seconds = _seconds(
                lambda p=policy, e=environment: simulate(p, e, grid, method="direct")
            )
            plain = _seconds(lambda block=block, gamma=gamma: plain_loop(block, FEW, gamma))
            speed = UNITS / seconds
            cells.append(f"{speed / 1e6:.2f} ({plain / FEW * speed:,.0f})")
        results.append(cells)
        print("  " + ", ".join(cells), flush=True)
    return results


def _seconds(call: object) -> float:
    best = float("inf")
    for _ in range(2):
        start = time.perf_counter()
        call()  # type: ignore[operator]
        best = min(best, time.perf_counter() - start)
    return best
