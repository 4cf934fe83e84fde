"""The first batch by design, for actions that share a model."""

import numpy as np
from numpy.random import SeedSequence

from benchmarks.learning.table import Claim, Measured, against, compared
from benchmarks.progress import say
from seqbatch import grids
from seqbatch.core.arrays import Floats
from seqbatch.environments import Gaussian
from seqbatch.policies import SBPE, SBUCB, design_of
from seqbatch.policies.base import BasePolicy
from seqbatch.simulation import simulate_together

DIM = 10
#: Actions, the ends of the batches, and the smallest eigenvalue of contexts over the largest.
SETTINGS = [
    (3, (2_000, 20_000), 1.0),
    (10, (2_000, 20_000), 1.0),
    (10, (1_200, 20_000), 1.0),
    (10, (600, 3_500, 20_000), 1.0),
    (10, (2_000, 20_000), 0.05),
    (50, (600, 6_000), 1.0),
]


def sample(environment: Gaussian, seed: SeedSequence) -> Floats:
    """Return vectors of units that are known before the first outcome: the first of the run."""
    return environment.instance(seed).block(0).contexts[:2_000]


def measure(runs: int) -> Measured:
    """Measure the regret of campaigns of batches, with the first one uniform or by design."""
    rows, claims = [], []
    for number, (K, ends, kappa) in enumerate(SETTINGS):
        environment, grid = Gaussian(dim=DIM, actions=K, kappa=kappa), grids.explicit(list(ends))
        lost: dict[str, list[float]] = {}
        for run in range(runs):
            seed = SeedSequence([number, run])
            policies: dict[str, BasePolicy] = {
                "SBPE, uniform": SBPE(first="uniform"),
                "SBPE, design": SBPE(first="design", design=design_of(sample(environment, seed))),
                "SBUCB, paper": SBUCB(first="uniform"),
                "SBUCB, gamma 1": SBUCB(gamma=1.0, first="uniform"),
            }
            played = simulate_together(
                [(policy, grid) for policy in policies.values()],
                environment,
                seed=seed,
                method="direct",
                learn_last=False,
            )
            for name, trajectory in zip(policies, played, strict=True):
                lost.setdefault(name, []).append(float(trajectory.regret[-1]))
        regret = {name: np.array(each) for name, each in lost.items()}
        ending = ", ".join(f"{end:,}" for end in ends)
        rows.append([str(K), ending, f"{kappa:g}", *compared(regret, "SBPE, uniform")])
        claims.append(
            Claim(
                "A first batch by design loses less",
                against(regret["SBPE, design"], regret["SBPE, uniform"]),
            )
        )
        say(f"{K} actions, {ending}")
    columns = ["actions", "batches end at", "kappa", "SBPE, uniform: regret", *list(lost)[1:]]
    return Measured(columns, rows, claims)
